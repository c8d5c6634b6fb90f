"""Mutates JSON documents by their structure: a parser rejects random bytes almost at once.

Each call changes one place of a document. libFuzzer's own mutations handle other inputs.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any, Final

VALUES: Final[tuple[Any, ...]] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63) - 1, 1e308, 0.1, "", "0", "-1", "1Gi",
    "1e400", "9223372036854775808", "a" * 300, "\u202e\x00\n", "*", "In", "Exists", "Gt",
    "DoNotSchedule", "node-000001", "kubernetes.io/hostname", [], {}, [None], [[]], {"": ""},
)  # fmt: skip
MAX_REPEATS: Final = 40
MAX_DEPTH: Final = 30

Place = tuple[Any, Any]
"""A container and the key or index of one of its values."""


def mutate(data: bytes, random: Random) -> bytes | None:
    """Change one place of a JSON document; None when `data` is not JSON with a container."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return None
    places = list(_places(document))
    if not places:
        return None
    container, key = random.choice(places)
    random.choice(_CHANGES)(container, key, places, random)
    return json.dumps(document).encode()


def _places(document: Any) -> list[Place]:
    found: list[Place] = []
    pending = [document]
    while pending:
        container = pending.pop()
        if isinstance(container, dict):
            keys = list(container)
        elif isinstance(container, list):
            keys = list(range(len(container)))
        else:
            continue
        found += [(container, key) for key in keys]
        pending += [container[key] for key in keys]
    return found


def _replace(container: Any, key: Any, _: list[Place], random: Random) -> None:
    container[key] = random.choice(VALUES)


def _copy(container: Any, key: Any, places: list[Place], random: Random) -> None:
    """Overwrite a value with a copy of another; a copy, so that the document stays a tree."""
    source, name = random.choice(places)
    container[key] = json.loads(json.dumps(source[name]))


def _delete(container: Any, key: Any, _: list[Place], random: Random) -> None:
    del container[key]


def _repeat(container: Any, key: Any, _: list[Place], random: Random) -> None:
    if isinstance(container, list):
        container.extend([container[key]] * random.randint(1, MAX_REPEATS))
    else:
        container[key] = [container[key]] * random.randint(1, MAX_REPEATS)


def _nest(container: Any, key: Any, _: list[Place], random: Random) -> None:
    for _depth in range(random.randint(1, MAX_DEPTH)):
        container[key] = random.choice(({"a": container[key]}, [container[key]]))


_CHANGES: Final = (_replace, _replace, _copy, _delete, _repeat, _nest)
