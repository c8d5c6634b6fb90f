"""PackedSpec: the spec of an unusually large pod, packed, and read part by part on demand.

Invariant: a PackedSpec reads as the PodSpec it was made of, but for the fields given to it alone.
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
"""Fields of a spec that may be large; the others are as quick to read as in any spec."""


_decode: Final = msgspec.msgpack.Decoder(PodSpec).decode


class PackedSpec(PodSpec):
    """Reads as a PodSpec. Never decoded, and never given to `msgspec.structs.replace`."""

    packed: Any = msgspec.field(default=None, name="kubestow.io:packed")

    @classmethod
    def of(cls, packed: Packed[PodSpec], spec: PodSpec) -> PackedSpec:
        """A view of `packed`; what is not packed is taken from `spec`."""
        own = {name: getattr(spec, name) for name in _PLAIN_FIELDS}
        made = cls(**own, packed=packed)
        for name in PACKED_FIELDS:
            # An empty slot asks `__getattr__`.
            delattr(made, name)
        return made

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name not in PACKED_FIELDS:
                msg = f"{type(self).__name__!r} object has no attribute {name!r}"
                raise AttributeError(msg)
            return getattr(self.packed.value, name)

    def __eq__(self, other: object) -> bool:
        """As of plain specs, where both are packed alike."""
        return isinstance(other, PackedSpec) and self._key() == other._key()

    __hash__ = None  # type: ignore[assignment]

    def _key(self) -> tuple[object, ...]:
        return id(self.packed), *(getattr(self, name) for name in _PLAIN_FIELDS)


_PLAIN_FIELDS: Final = tuple(
    each.name for each in msgspec.structs.fields(PodSpec) if each.name not in PACKED_FIELDS
)


def pack(spec: PodSpec, memory: UnpackedCache) -> Packed[PodSpec]:
    """The spec as compressed bytes."""
    packed = Packed(spec, _decode, memory)
    memory.keep(packed, spec)
    return packed


def replaced(spec: PodSpec, *, node_name: str) -> PodSpec:
    """The same spec on another node; everything else is shared."""
    if type(spec) is PackedSpec:
        made = PackedSpec.of(spec.packed, spec)
        made.node_name = node_name
        return made
    return msgspec.structs.replace(spec, node_name=node_name)
