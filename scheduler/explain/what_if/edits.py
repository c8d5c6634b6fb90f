"""Edits: the changes of one question, decoded once and made again in each of its trials.

Decoding costs most of a change, and a trial is one slice of the event loop. So changes are decoded
before the first trial, a few in each slice, upon the objects as they are then; a trial only puts
the decoded objects in place. Objects that went away meanwhile are left alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from scheduler.api.pod import Pod
from scheduler.api.quantity import QuantityError
from scheduler.api.stored import DECIDING, Existing
from scheduler.client.resources import NODES, PODS, Resource
from scheduler.explain.records import Change
from scheduler.explain.what_if.changes import ChangeError, edited, resource_of
from scheduler.explain.what_if.expressions import check_expressions
from scheduler.explain.what_if.trial import TrialParts, WhatIfTrial
from scheduler.service.manifests import Manifests
from scheduler.service.pod_intake import check_node

MAX_EDITS: Final = 120
"""Objects that a live question may change: a full node with its pods, some 6 ms in each slice."""


@dataclass(slots=True)
class _Edit:
    """One object to put or, without an item, to remove."""

    resource: Resource[Any]
    key: str
    item: Any | None
    #: Of the live object that is edited; empty for one that the question adds.
    uid: str


class Edits:
    """Used by one question; `close` gives back what its pods hold."""

    def __init__(self, parts: TrialParts) -> None:
        self._parts = parts
        self._edits: list[_Edit] = []
        #: Index of the last edit of an object.
        self._latest: dict[tuple[str, str], int] = {}
        self._interned: list[Pod] = []
        #: Completes what is added, by the live objects and by what was added before.
        self.manifests = Manifests(_WithEdits(parts.existing, self))

    def find(self, kind: str, key: str) -> Any | None:
        """Return an object as the edits leave it; None for none."""
        return self.find_in(resource_of(kind, self._parts.kinds), key)

    def find_in(self, resource: Resource[Any], key: str) -> Any | None:
        """Return an object of a resource as the edits leave it; None for none."""
        plural = resource.plural
        latest = self._latest.get((plural, key))
        if latest is not None:
            return self._edits[latest].item
        store = self._parts.stores.get(plural)
        return None if store is None else store.by_key(key)

    def __len__(self) -> int:
        return len(self._edits)

    def added(self, plural: str) -> list[Any]:
        """Return the objects of a resource that the edits add or change."""
        items = (self._edits[each].item for (own, _), each in self._latest.items() if own == plural)
        return [each for each in items if each is not None]

    def make(self, change: Change) -> None:
        """Decode a change and add it. Raises ChangeError for one that cannot be made."""
        resource, old, new = edited(change, self._parts.kinds, self.find_in, self.manifests)
        key = resource.key(old if new is None else new)
        if resource.plural not in self._parts.stores and resource.plural not in DECIDING:
            raise ChangeError(f"{resource.kind} {key}: no plugin in use reads {resource.plural}")
        try:
            if resource is NODES and new is not None:
                check_node(new)
            elif resource is PODS and new is not None:
                new = self.interned(new)
            elif new is not None:
                check_expressions(new, f"{change.kind} {change.name}"[:200])
        except QuantityError as error:
            raise ChangeError(f"{change.kind} {change.name}: {error}") from error
        self._add(_Edit(resource, key, new, self._uid(resource, key, old)))

    def interned(self, pod: Pod) -> Pod:
        """Intern a pod until `close`, so that no trial has to. Raises QuantityError."""
        self._parts.signatures.intern(pod)
        self._interned.append(pod)
        return pod

    def apply(self, trial: WhatIfTrial) -> None:
        """Make all edits in a trial. Raises ChangeError for one that is not possible any more."""
        for edit in self._edits:
            if edit.resource.plural not in self._parts.stores:
                continue
            known = trial.find_in(edit.resource, edit.key)
            if edit.uid and (known is None or known.metadata.uid != edit.uid):
                continue
            if edit.item is None:
                if known is not None:
                    trial.remove(edit.resource, known)
                continue
            if known is not None and not edit.uid and edit.resource in (PODS, NODES):
                raise ChangeError(f"{edit.resource.kind} {edit.key} was created just now")
            # A trial gives what is added a UID.
            metadata = msgspec.structs.replace(edit.item.metadata)
            trial.put(edit.resource, msgspec.structs.replace(edit.item, metadata=metadata))

    def close(self) -> None:
        """Release the pods."""
        for pod in self._interned:
            self._parts.signatures.release(pod)
        self._interned.clear()

    def _uid(self, resource: Resource[Any], key: str, old: Any | None) -> str:
        latest = self._latest.get((resource.plural, key))
        if latest is not None:
            # An object that was removed before, or the one that is edited again.
            return self._edits[latest].uid if old is not None else ""
        return "" if old is None else str(old.metadata.uid)

    def _add(self, edit: _Edit) -> None:
        name = edit.resource.plural, edit.key
        latest = self._latest.get(name)
        if latest is not None and edit.item is not None and self._edits[latest].item is not None:
            self._edits[latest] = edit
            return
        if len(self._edits) >= MAX_EDITS:
            raise ChangeError(
                f"more than {MAX_EDITS} objects would change: a live question may change "
                f"{MAX_EDITS}; use an offline world for more (docs/simulate.md)"
            )
        self._latest[name] = len(self._edits)
        self._edits.append(edit)


class _WithEdits:
    """The objects that exist, and before them those of the edits."""

    def __init__(self, existing: Existing, edits: Edits) -> None:
        self._existing, self._edits = existing, edits
        self.enabled = existing.enabled

    def get(self, plural: str, name: str, namespace: str = "") -> Any | None:
        """Return an object; None if there is none."""
        return next(
            (
                each
                for each in self._edits.added(plural)
                if (each.metadata.namespace, each.metadata.name) == (namespace, name)
            ),
            self._existing.get(plural, name, namespace),
        )

    def every(self, plural: str) -> Iterable[Any]:
        """Return all objects of a resource."""
        added = self._edits.added(plural)
        names = {(each.metadata.namespace, each.metadata.name) for each in added}
        return [
            *added,
            *(
                each
                for each in self._existing.every(plural)
                if (each.metadata.namespace, each.metadata.name) not in names
            ),
        ]

    def version(self) -> int:
        """Return a number that is another one after each edit."""
        return self._existing.version() + len(self._edits)

    def known(self, plural: str) -> bool:
        """Return whether the objects of a resource are known."""
        return self._existing.known(plural) or bool(self._edits.added(plural))
