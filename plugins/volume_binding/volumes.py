"""PersistentVolumes that fit a claim, regardless of the node.

`FreeVolumes` indexes volumes from a subscription, so that a claim is compared only with the free
volumes of its class, smallest first; bound volumes, usually the majority, are never visited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from plugins.volume_binding.assuming import AssumeCache
from plugins.volume_binding.claims import (
    ANN_STORAGE_CLASS,
    claim_class,
    claim_key,
    requested_storage,
    storage_of,
)
from scheduler.api.node_selectors import (
    CompiledNodeSelector,
    CompiledNodeSelectorTerm,
    compile_node_selector,
)
from scheduler.api.pod import NodeSelector
from scheduler.api.quantity import QuantityError
from scheduler.api.selectors import EVERYTHING, CompiledLabelSelector, compile_label_selector
from scheduler.api.storage import PersistentVolume, PersistentVolumeClaim
from scheduler.framework import Handle

_AVAILABLE: Final = "Available"
_FILESYSTEM: Final = "Filesystem"
_MAX_FITTING: Final = 16
"""Requirements whose fitting volumes are cached: those of the current pod, queried several times
per cycle, and of its template. A list may contain every volume of a class."""


class Candidates(NamedTuple):
    """Volumes for a claim."""

    #: Smallest first; read-only.
    volumes: Sequence[PersistentVolume]
    #: Whether the only volume is reserved for the claim, which excludes all others.
    reserved: bool


class _Requirements(NamedTuple):
    """Requirements of a claim that do not depend on the node."""

    class_name: str
    size: int
    modes: frozenset[str]
    selector: CompiledLabelSelector
    volume_mode: str
    attributes_class: str


class _Entry(NamedTuple):
    size: int
    #: Order of arrival, which breaks ties of size.
    order: int
    name: str


class FreeVolumes:
    """Index of free volumes by class and of reserved volumes by claim."""

    def __init__(self, handle: Handle, volumes: AssumeCache[PersistentVolume]) -> None:
        self._handle = handle
        self._volumes = volumes
        self._listed = False
        self._order = 0
        self._free: dict[str, dict[str, _Entry]] = {}
        self._sorted: dict[str, list[_Entry]] = {}
        self._claimed: dict[str, dict[str, _Entry]] = {}
        #: Fitting volumes by requirements, valid for `_version` of the volumes.
        self._fitting: dict[_Requirements, list[PersistentVolume]] = {}
        self._version = -1
        #: In a trial: the order of each volume that was removed, for when it comes back.
        self._removed: dict[str, int] | None = None
        handle.subscriptions.on_object("persistentvolumes", self._changed, in_trials=True)
        handle.subscriptions.on_trial(self._begin_trial)

    def candidates(self, claim: PersistentVolumeClaim) -> Candidates:
        """Return volumes that fit a claim on some node. Raises SelectorError, QuantityError."""
        self._list()
        requested = requested_storage(claim) or 0
        own = next(self._own(claim, requested), None)
        if own is not None:
            return Candidates([own], reserved=True)
        selector = (
            EVERYTHING
            if claim.spec.selector is None
            else compile_label_selector(claim.spec.selector)
        )
        required = _Requirements(
            claim_class(claim),
            requested,
            frozenset(claim.spec.access_modes),
            selector,
            claim.spec.volume_mode or _FILESYSTEM,
            claim.spec.volume_attributes_class_name or "",
        )
        if self._version != self._volumes.version:
            self._fitting.clear()
        found = self._fitting.get(required)
        if found is None:
            found = [each for each in self._free_volumes(required) if _fits(each, required)]
            # The look-ups may have dropped stale assumptions, which changes the version.
            if self._version != self._volumes.version or len(self._fitting) >= _MAX_FITTING:
                self._fitting.clear()
            self._version = self._volumes.version
            self._fitting[required] = found
        return Candidates(found, reserved=False)

    def _free_volumes(self, required: _Requirements) -> Iterator[PersistentVolume]:
        for entry in self._by_size(required.class_name):
            volume = self._volumes.get(entry.name) if entry.size >= required.size else None
            if volume is not None:
                yield volume

    def _own(self, claim: PersistentVolumeClaim, requested: int) -> Iterator[PersistentVolume]:
        for volume in self._reserved(claim):
            if (
                bound_to(volume, claim)
                and volume_size(volume) >= requested
                and volume_class(volume) == claim_class(claim)
                and _same_modes(volume, claim)
            ):
                yield volume

    def _reserved(self, claim: PersistentVolumeClaim) -> Iterator[PersistentVolume]:
        # By arrival: an update moves an entry to the end of the dictionary.
        for entry in sorted(self._claimed.get(claim_key(claim), {}).values(), key=_by_arrival):
            volume = self._volumes.get(entry.name)
            if volume is not None:
                yield volume
        # Another pod with the same claim may have reserved a volume that is still watched as free.
        yield from self._volumes.assumed()

    def _by_size(self, class_name: str) -> list[_Entry]:
        ordered = self._sorted.get(class_name)
        if ordered is None:
            ordered = self._sorted[class_name] = sorted(self._free.get(class_name, {}).values())
        return ordered

    def _list(self) -> None:
        if not self._listed:
            self._listed = True
            for volume in self._handle.listers["persistentvolumes"].list():
                self._add(volume)

    def _begin_trial(self) -> Callable[[], None]:
        # In the order of the live objects, which a trial may change.
        self._list()
        order, self._removed = self._order, {}

        def restore() -> None:
            self._order, self._removed = order, None

        return restore

    def _changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        if not self._listed:
            return
        order = None
        if old is not None:
            order = self._remove(old)
        if new is not None:
            self._add(new, order)

    def _add(self, volume: PersistentVolume, order: int | None = None) -> None:
        name = volume.metadata.name
        if order is None and self._removed:
            order = self._removed.pop(name, None)
        if order is None:
            self._order += 1
            order = self._order
        entry = _Entry(volume_size(volume), order, name)
        reference = volume.spec.claim_ref
        if reference is not None:
            key = f"{reference.namespace}/{reference.name}"
            self._claimed.setdefault(key, {})[name] = entry
        else:
            class_name = volume_class(volume)
            self._free.setdefault(class_name, {})[name] = entry
            self._sorted.pop(class_name, None)

    def _remove(self, volume: PersistentVolume) -> int | None:
        reference = volume.spec.claim_ref
        if reference is not None:
            index, key = self._claimed, f"{reference.namespace}/{reference.name}"
        else:
            index, key = self._free, volume_class(volume)
            self._sorted.pop(key, None)
        entries = index.get(key)
        if entries is None:
            return None
        entry = entries.pop(volume.metadata.name, None)
        if not entries:
            del index[key]
        if entry is None:
            return None
        if self._removed is not None:
            self._removed[entry.name] = entry.order
        return entry.order


def _by_arrival(entry: _Entry) -> int:
    return entry.order


def bound_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume is reserved for a claim; without a UID any claim of that name matches."""
    reference = volume.spec.claim_ref
    return (
        reference is not None
        and (reference.namespace, reference.name) == (claim.metadata.namespace, claim.metadata.name)
        and reference.uid in ("", claim.metadata.uid)
    )


def volume_class(volume: PersistentVolume) -> str:
    """Return the volume's class, "" for none; the beta annotation takes precedence."""
    annotated = volume.metadata.annotations.get(ANN_STORAGE_CLASS)
    return volume.spec.storage_class_name if annotated is None else annotated


def volume_size(volume: PersistentVolume) -> int:
    """Return the capacity in bytes; 0 if it is absent or does not parse."""
    try:
        return storage_of(volume.spec.capacity) or 0
    except QuantityError:
        return 0


@lru_cache(maxsize=4096)
def compiled_affinity(required: NodeSelector) -> CompiledNodeSelector:
    """Compile a volume's required node affinity for the labels of nodes, without field terms."""
    return CompiledNodeSelector(
        tuple(
            CompiledNodeSelectorTerm(term.labels, (), term.error)
            for term in compile_node_selector(required).terms
        )
    )


def volume_affinity(volume: PersistentVolume) -> CompiledNodeSelector | None:
    """Return the untranslated node affinity of a volume; None for any node."""
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return None
    return compiled_affinity(affinity.required)


def _fits(volume: PersistentVolume, required: _Requirements) -> bool:
    spec = volume.spec
    return (
        spec.claim_ref is None
        and volume.status.phase == _AVAILABLE
        and volume.metadata.deletion_timestamp is None
        and (spec.volume_mode or _FILESYSTEM) == required.volume_mode
        and (spec.volume_attributes_class_name or "") == required.attributes_class
        and required.modes.issubset(spec.access_modes)
        and required.selector.matches(volume.metadata.labels)
    )


def _same_modes(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether volume mode and attributes class match, and the volume is not being deleted."""
    spec, requested = volume.spec, claim.spec
    return (
        volume.metadata.deletion_timestamp is None
        and (spec.volume_mode or _FILESYSTEM) == (requested.volume_mode or _FILESYSTEM)
        and (spec.volume_attributes_class_name or "")
        == (requested.volume_attributes_class_name or "")
    )
