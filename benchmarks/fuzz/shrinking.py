"""Making a reproduction small: objects are left out as long as the difference stays."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

Object = dict[str, Any]
Objects = Mapping[str, Sequence[Object]]
Shows = Callable[[dict[str, list[Object]]], Awaitable[bool]]
"""Whether a difference shows with these objects."""

_NOISE: Final = ("managedFields", "resourceVersion", "creationTimestamp", "generation", "uid")


async def shrink(objects: Objects, shows: Shows, tries: int) -> dict[str, list[Object]]:
    """Fewer objects with which the difference still shows, after at most `tries` worlds.

    Ever smaller runs of objects of one kind are left out, the most numerous kind first.
    """
    kept = {kind: list(listed) for kind, listed in objects.items()}
    order = sorted(kept, key=lambda kind: -len(kept[kind]))
    for kind in order:
        step = len(kept[kind])
        while step:
            start = 0
            while start < len(kept[kind]):
                if not tries:
                    return kept
                tries -= 1
                fewer = kept[kind][:start] + kept[kind][start + step :]
                if await shows({**kept, kind: fewer}):
                    kept[kind] = fewer
                else:
                    start += step
            step //= 2
    return kept


def readable(given: Object) -> Object:
    """A vector's input without empty lists and without what the API server adds for itself."""
    pod, objects = given["input"]["pod"], given["input"]["objects"]
    return {
        "config": given["input"]["config"],
        "pod": _plain(pod),
        "objects": {
            kind: [_plain(each) for each in listed] for kind, listed in objects.items() if listed
        },
    }


def _plain(given: Object) -> Object:
    metadata = {k: v for k, v in given["metadata"].items() if k not in _NOISE}
    return {**given, "metadata": metadata}
