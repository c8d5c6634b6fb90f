"""Interner of pod signatures: one `PodSignature` for all pods that scheduling treats alike.

Invariant: a signature with references is never dropped, so while any pod holds it, equal pods get
the same object. Unreferenced signatures stay for reuse, least recently used going first, as long as
all signatures together fit into the given number of bytes; a flood of one-off signatures therefore
cannot exhaust memory.

The signature of a large pod is packed, so that it holds a fraction of the pod's JSON, and goes with
its last pod.

Interning also makes a pod share the heavy parts of its template, which is what lets 150,000 pods
fit into memory.
"""

from __future__ import annotations

import itertools
import sys
from collections import OrderedDict
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, cast

import msgspec

from scheduler.api import packed_labels
from scheduler.api.meta import ResourceList
from scheduler.api.packed_labels import PackedLabels, SharedLabels
from scheduler.api.pod import Pod, PodSpec
from scheduler.api.requests import is_resize_infeasible, limits_differ
from scheduler.api.signatures.key import (
    controller_owner,
    pod_pin,
    relevant_volumes,
    resize_of,
    signature_key,
)
from scheduler.api.signatures.packed_spec import replaced
from scheduler.api.signatures.signature import PackedSignature, PodSignature
from scheduler.api.signatures.unpacked_cache import UnpackedCache

DEFAULT_MAX_BYTES: Final = 64 * 1024 * 1024
"""Bytes of signatures beyond which unreferenced ones go: some 8,000 typical templates."""

# Measured on deployments of one container with affinity, spreading and tolerations, rounded up:
# 6.6 kB per signature with all derived values, for a key of 0.8 kB.
_BYTES_PER_KEY_BYTE: Final = 7
_BYTES_PER_SIGNATURE: Final = 2_000

MAX_LISTED: Final = 64
"""Finalizers that a pod keeps, and owners with which it keeps those that are no controllers."""

_NONE_ALLOCATED: Final[ResourceList] = {}
"""Instead of an empty dict for each pod."""

_IDS: Final = itertools.count(1)
"""Shared by all interners of the process, so that ids are unique across them."""

PACK_BYTES: Final = 16 * 1024
"""A signature with a longer key is packed. Ordinary templates have keys of 1 or 2 kB."""


class UnbalancedReleaseError(RuntimeError):
    """A signature was released more often than it was interned; a bug of the caller."""


@dataclass(frozen=True, slots=True)
class PodSignatureStatistics:
    """Counts and sizes of `PodSignatures`; sizes are in bytes, and estimates."""

    signatures: int
    """Signatures held, referenced or not."""
    unreferenced: int
    """Signatures kept for reuse only."""
    references: int
    """Pods that hold a signature."""
    packed: int
    """Signatures of large pods, kept packed; part of `signatures`."""
    bytes: int
    """Memory held by all signatures."""
    unpacked_bytes: int
    """Parts of packed signatures that are unpacked now; not part of `bytes`."""
    label_bytes: int
    """Labels of pods that have very many; not part of `bytes`."""


class _Entry:
    """A signature with its reference count and size."""

    __slots__ = ("key", "labels", "owners", "references", "signature", "size")

    def __init__(self, key: bytes, signature: PodSignature, size: int) -> None:
        self.key = key
        self.signature = signature
        self.size = size
        self.references = 0
        owner = signature.controller_owner
        self.owners = (owner,) if owner is not None else ()
        # The labels last seen: siblings mostly have equal ones and then share the dict.
        self.labels: dict[str, str] = {}


class PodSignatures:
    """Interns pods. Touched from one event loop only.

    Each pod object interned holds one reference until it is released. A copy made with
    `structs.replace` keeps the signature but holds no reference: release the object that was
    interned, once.
    """

    def __init__(self, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        """Keep unreferenced signatures while all together occupy at most `max_bytes`."""
        self._max_bytes = max_bytes
        self._entries: dict[bytes, _Entry] = {}
        self._by_id: dict[int, _Entry] = {}
        self._idle: OrderedDict[int, _Entry] = OrderedDict()
        self._unpacked = UnpackedCache()
        self._shared_labels = SharedLabels()
        self._bytes = 0

    def intern(self, pod: Pod) -> PodSignature:
        """Set the pod's signature and pin, and share the equal parts of its siblings.

        Drops volumes that scheduling does not read and container statuses that only repeat the
        spec. A pod that has a signature keeps it and takes no second reference. Raises
        `QuantityError` if its resources cannot be read; the pod is then unchanged.
        """
        if pod.interned is not None:
            return pod.signature
        spec = pod.spec
        pin = pod_pin(spec)
        volumes = relevant_volumes(spec.volumes)
        owner = controller_owner(pod)
        resize = resize_of(pod)
        key = signature_key(pod, pin=pin, volumes=volumes, owner=owner, resize=resize)
        large = len(key) > PACK_BYTES
        size = _BYTES_PER_SIGNATURE + _BYTES_PER_KEY_BYTE * sys.getsizeof(key)
        if large:
            key = blake2b(key, digest_size=32).digest()
        entry = self._entries.get(key)
        if entry is None:
            signature = PodSignature(
                next(_IDS),
                pod,
                pinned=bool(pin),
                volumes=volumes,
                owner=owner,
                resize=resize,
                nbytes=size,
            )
            if large:
                signature = PackedSignature.of(signature, self._unpacked)
                size = _BYTES_PER_SIGNATURE + sys.getsizeof(signature.packed.data)
            entry = self._add(key, signature, size)
        elif not entry.references:
            del self._idle[entry.signature.id]
        entry.references += 1
        pod.interned = entry.signature
        pod.pin = pin
        _share(pod, entry, self._shared_labels)
        return entry.signature

    def intern_copy(self, pod: Pod) -> None:
        """Take a reference for a copy of an interned pod that is a pod of its own.

        The copy has the same spec, labels, namespace and owner. Does as `intern`, without finding
        out again which pods it is like.
        """
        entry = self._by_id.get(pod.interned.id)
        labels: object = pod.metadata.labels
        if type(labels) is PackedLabels:
            # References to these are counted as well.
            plain = dict(labels.items())
            pod.metadata, entry = msgspec.structs.replace(pod.metadata, labels=plain), None
        if entry is None:
            pod.interned = None
            self.intern(pod)
            return
        if not entry.references:
            del self._idle[entry.signature.id]
        entry.references += 1

    def release(self, pod: Pod) -> None:
        """Give back the reference of an interned pod, which keeps its signature for late readers.

        Raises `UnbalancedReleaseError` if the signature's references are all given back already.
        """
        signature: PodSignature = pod.signature
        entry = self._by_id.get(signature.id)
        if entry is None or entry.signature is not signature or not entry.references:
            msg = f"pod {pod.key}: {signature!r} was released more often than it was interned here"
            raise UnbalancedReleaseError(msg)
        entry.references -= 1
        labels: object = pod.metadata.labels
        if type(labels) is PackedLabels:
            self._shared_labels.give_back(labels)
        if not entry.references:
            # The next pod brings its own labels; these may be far larger than the signature.
            entry.labels = {}
            self._idle[signature.id] = entry
            if isinstance(signature, PackedSignature):
                # Keeping it would save the next pod almost nothing.
                self._idle.move_to_end(signature.id, last=False)
                self._drop_oldest()
            self._evict()

    def statistics(self) -> PodSignatureStatistics:
        """Return counts and sizes."""
        entries = self._entries.values()
        return PodSignatureStatistics(
            signatures=len(entries),
            unreferenced=len(self._idle),
            references=sum(each.references for each in entries),
            packed=sum(isinstance(each.signature, PackedSignature) for each in entries),
            bytes=self._bytes,
            unpacked_bytes=self._unpacked.nbytes,
            label_bytes=self._shared_labels.nbytes,
        )

    def _add(self, key: bytes, signature: PodSignature, size: int) -> _Entry:
        entry = _Entry(key, signature, size)
        self._entries[key] = entry
        self._by_id[signature.id] = entry
        self._bytes += size
        self._evict()
        return entry

    def _evict(self) -> None:
        while self._bytes > self._max_bytes and self._idle:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        signature_id, entry = self._idle.popitem(last=False)
        del self._entries[entry.key]
        del self._by_id[signature_id]
        self._bytes -= entry.size
        if isinstance(entry.signature, PackedSignature):
            entry.signature.packed.forget()


def _share(pod: Pod, entry: _Entry, labels: SharedLabels) -> None:
    """Replace parts of the pod by the equal objects of its siblings."""
    signature = entry.signature
    if isinstance(signature, PackedSignature):
        own = pod.spec
        pod.spec = replaced(signature.spec, node_name=sys.intern(own.node_name))
        pod.spec.scheduling_gates = own.scheduling_gates
        pod.spec.scheduling_group = own.scheduling_group
    else:
        _share_spec(pod.spec, signature.spec, pinned=signature.pinned)
    meta, status = pod.metadata, pod.status
    meta.namespace = sys.intern(meta.namespace)
    if len(meta.labels) > packed_labels.MAX_PLAIN_LABELS:
        meta.labels = cast("dict[str, str]", labels.take(meta.labels))
    elif meta.labels == entry.labels:
        meta.labels = entry.labels
    else:
        entry.labels = meta.labels
    if entry.owners and len(meta.owner_references) == 1:
        meta.owner_references = entry.owners
    elif len(meta.owner_references) > MAX_LISTED:
        # The others are not read, and there may be thousands.
        meta.owner_references = tuple([each for each in meta.owner_references if each.controller])
    if len(meta.finalizers) > MAX_LISTED:
        meta.finalizers = meta.finalizers[:MAX_LISTED]
    if not (signature.resize or limits_differ(pod) or is_resize_infeasible(pod)):
        status.container_statuses = ()
        status.init_container_statuses = ()
    # Many things happen to many pods in the same second.
    meta.creation_timestamp = _interned(meta.creation_timestamp)
    status.start_time = _interned(status.start_time)
    if not status.allocated_resources:
        status.allocated_resources = _NONE_ALLOCATED
    status.phase = sys.intern(status.phase)
    for each in status.conditions:
        each.type = sys.intern(each.type)
        each.status = sys.intern(each.status)
        each.reason = sys.intern(each.reason)
        each.last_transition_time = _interned(each.last_transition_time)


def _interned(text: str | None) -> str | None:
    return None if text is None else sys.intern(text)


def _share_spec(spec: PodSpec, shared: PodSpec, *, pinned: bool) -> None:
    spec.containers = shared.containers
    spec.init_containers = shared.init_containers
    spec.volumes = shared.volumes
    spec.tolerations = shared.tolerations
    spec.node_selector = shared.node_selector
    spec.topology_spread_constraints = shared.topology_spread_constraints
    spec.resource_claims = shared.resource_claims
    spec.overhead = shared.overhead
    spec.resources = shared.resources
    spec.scheduler_name = shared.scheduler_name
    spec.priority_class_name = shared.priority_class_name
    spec.preemption_policy = shared.preemption_policy
    spec.node_name = sys.intern(spec.node_name)
    if not pinned:
        # A pinned pod keeps its own: the shared one names a placeholder instead of its node.
        spec.affinity = shared.affinity
