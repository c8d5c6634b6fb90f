"""JSON patch (RFC 6902). Merge patches and apply are in `scheduler.api.stored.merging`.

It does not change its input: the result shares with it whatever the patch leaves alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from scheduler.api.stored.merging import PatchError
from simulator.errors import bad_request, rejected_patch
from simulator.objects import JsonObject


@contextmanager
def bad_requests() -> Iterator[None]:
    """Answer 400 if a patch cannot be merged."""
    try:
        yield
    except PatchError as error:
        raise bad_request(str(error)) from error


def json_patch(tree: JsonObject, operations: Sequence[Mapping[str, Any]]) -> JsonObject:
    """Apply a JSON patch.

    Raises 422 where an operation does not fit, 400 where it is no operation.
    """
    result: Any = tree
    for operation in operations:
        result = _apply(result, operation)
    if not isinstance(result, dict):
        raise rejected_patch()
    return result


def _apply(tree: Any, operation: Mapping[str, Any]) -> Any:
    kind = operation.get("op")
    path = _pointer(operation.get("path"))
    match kind:
        case "add":
            return _edit(tree, path, operation.get("value"), "add")
        case "replace":
            return _edit(tree, path, operation.get("value"), "replace")
        case "remove":
            return _edit(tree, path, None, "remove")
        case "test":
            if _read(tree, path) != operation.get("value"):
                raise rejected_patch()
            return tree
        case "copy":
            return _edit(tree, path, _read(tree, _pointer(operation.get("from"))), "add")
        case "move":
            source = _pointer(operation.get("from"))
            value = _read(tree, source)
            return _edit(_edit(tree, source, None, "remove"), path, value, "add")
    raise bad_request(f'unexpected kind: "{kind}" is no JSON patch operation')


def _pointer(text: object) -> list[str]:
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise bad_request(f'invalid JSON pointer {text!r}: want "" or "/step/step"')
    return [step.replace("~1", "/").replace("~0", "~") for step in text.split("/")[1:]]


def _index(items: Sequence[Any], step: str, *, end: bool) -> int:
    if step == "-" and end:
        return len(items)
    if not step.isdigit() or int(step) >= len(items) + (1 if end else 0):
        raise rejected_patch()
    return int(step)


def _read(tree: Any, path: Sequence[str]) -> Any:
    for step in path:
        if isinstance(tree, dict) and step in tree:
            tree = tree[step]
        elif isinstance(tree, list):
            tree = tree[_index(tree, step, end=False)]
        else:
            raise rejected_patch()
    return tree


def _edit(tree: Any, path: Sequence[str], value: Any, how: str) -> Any:
    """Return `tree` with one place added, replaced or removed; only the way there is copied."""
    if not path:
        return value
    step, rest = path[0], path[1:]
    if isinstance(tree, dict):
        copied = dict(tree)
        if (rest or how != "add") and step not in copied:
            raise rejected_patch()
        if rest:
            copied[step] = _edit(copied[step], rest, value, how)
        elif how == "remove":
            del copied[step]
        else:
            copied[step] = value
        return copied
    if isinstance(tree, list):
        items = list(tree)
        place = _index(items, step, end=not rest and how == "add")
        if rest:
            items[place] = _edit(items[place], rest, value, how)
        elif how == "add":
            items.insert(place, value)
        elif how == "remove":
            del items[place]
        else:
            items[place] = value
        return items
    raise rejected_patch()
