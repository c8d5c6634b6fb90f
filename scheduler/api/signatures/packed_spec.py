"""PackedSpec: the compressed spec of an unusually large pod, unpacked on demand.

Invariant: a PackedSpec equals the PodSpec it was made of, except for the fields set on it later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from scheduler.api.pod import PodSpec
from scheduler.api.signatures.unpacked_cache import Packed, UnpackedCache

PACKED_FIELDS: Final = (
    "containers",
    "init_containers",
    "node_selector",
    "affinity",
    "tolerations",
    "topology_spread_constraints",
    "resource_claims",
    "volumes",
    "overhead",
    "resources",
)
"""Fields of a spec that may be large; the others are stored uncompressed."""

_decode: Final = msgspec.msgpack.Decoder(PodSpec).decode


class PackedSpec(PodSpec):
    """Reads as a PodSpec. Never decoded, and never given to `msgspec.structs.replace`."""

    packed: Any = msgspec.field(default=None, name="kubestow.io:packed")

    @classmethod
    def of(cls, packed: Packed[PodSpec], spec: PodSpec) -> PackedSpec:
        """Return a view of `packed`, with the other fields of `spec`."""
        own = {name: getattr(spec, name) for name in _PLAIN_FIELDS}
        made = cls(**own, packed=packed)
        for name in PACKED_FIELDS:
            # Reading an empty slot calls `__getattr__`.
            delattr(made, name)
        return made

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name not in PACKED_FIELDS:
                msg = f"{type(self).__name__!r} object has no attribute {name!r}"
                raise AttributeError(msg)
            return getattr(self.packed.value, name)

    def __eq__(self, other: object) -> bool:
        """Compare the plain fields and the identity of the packed value."""
        return isinstance(other, PackedSpec) and self._key() == other._key()

    __hash__ = None  # type: ignore[assignment]

    def _key(self) -> tuple[object, ...]:
        return id(self.packed), *(getattr(self, name) for name in _PLAIN_FIELDS)


_PLAIN_FIELDS: Final = tuple(
    each.name for each in msgspec.structs.fields(PodSpec) if each.name not in PACKED_FIELDS
)


def pack(spec: PodSpec, cache: UnpackedCache) -> Packed[PodSpec]:
    """Compress a spec."""
    packed = Packed(spec, _decode, cache)
    cache.keep(packed, spec)
    return packed


def replaced(spec: PodSpec, *, node_name: str) -> PodSpec:
    """Return a copy of the spec with another node name; everything else is shared."""
    if type(spec) is PackedSpec:
        made = PackedSpec.of(spec.packed, spec)
        made.node_name = node_name
        return made
    return msgspec.structs.replace(spec, node_name=node_name)


def for_scheduler(spec: PodSpec, name: str) -> PodSpec:
    """Return a copy of the spec with another scheduler name; everything else is shared."""
    if type(spec) is PackedSpec:
        made = PackedSpec.of(spec.packed, spec)
        made.scheduler_name = name
        return made
    return msgspec.structs.replace(spec, scheduler_name=name)


def unpacked(spec: PodSpec) -> PodSpec:
    """Return the spec with all its fields in memory, as it can be encoded."""
    if type(spec) is not PackedSpec:
        return spec
    own = {name: getattr(spec, name) for name in _PLAIN_FIELDS}
    value: PodSpec = spec.packed.value
    return msgspec.structs.replace(value, **own)
