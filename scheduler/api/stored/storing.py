"""`as_stored`: one object in, the same as an API server would store it out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from scheduler.api.meta import ObjectMeta
from scheduler.api.stored import kinds, pods
from scheduler.api.stored.existing import Existing
from scheduler.api.stored.notes import JsonObject, Notes

Step = Callable[[JsonObject, Existing, Notes], None]
"""Completes an object of one kind in place."""

_STEPS: Final[Mapping[tuple[str, str], Step]] = {
    ("", "Pod"): pods.complete,
    ("", "Node"): kinds.node,
    ("", "PersistentVolume"): kinds.volume,
    ("", "PersistentVolumeClaim"): kinds.claim,
}


@dataclass(frozen=True, slots=True)
class Stored:
    """An object, and what was done to it."""

    obj: JsonObject
    #: What was filled in or dropped, such as `requests from limits`.
    filled: tuple[str, ...]
    #: What it may lack because objects that decide about it are not known.
    unknown: tuple[str, ...]


def as_stored(obj: Mapping[str, Any], existing: Existing) -> Stored:
    """Return an object as an API server would store it; the one that is given stays as it is.

    Objects of kinds that need nothing come out without nulls. What is filled in is derived from
    values as they are: a manifest with values of wrong types is for those to refuse who read it.

    >>> from scheduler.api.stored import Nothing
    >>> node = {"apiVersion": "v1", "kind": "Node", "status": {"capacity": {"cpu": "4"}}}
    >>> as_stored(node, Nothing()).obj["status"]["allocatable"]
    {'cpu': '4'}
    """
    made: JsonObject = _copied(obj)
    notes = Notes()
    store(made, existing, notes)
    metadata = made.get("metadata") or {}
    if metadata.get("uid") and metadata.get("creationTimestamp"):
        # Whoever stored it knew everything.
        notes.unknown.clear()
    return Stored(made, tuple(notes.filled), tuple(notes.unknown))


def store(obj: JsonObject, existing: Existing, notes: Notes) -> None:
    """Do the same in place, with an object without nulls."""
    group = str(obj.get("apiVersion", "")).rpartition("/")[0]
    step = _STEPS.get((group, str(obj.get("kind", ""))))
    if step is not None:
        step(obj, existing, notes)


def was_stored(metadata: ObjectMeta) -> bool:
    """Return whether an API server has stored an object: only these give it UID and time."""
    return bool(metadata.uid and metadata.creation_timestamp)


def _copied(value: Any) -> Any:
    """Copy a tree without the members that are null, as decoding into Go types drops them."""
    if isinstance(value, Mapping):
        return {key: _copied(each) for key, each in value.items() if each is not None}
    if isinstance(value, (list, tuple)):
        return [_copied(each) for each in value]
    return value
