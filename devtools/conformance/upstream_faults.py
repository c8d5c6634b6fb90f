"""Vectors that hold a fault of kube-scheduler v1.37.2, by name.

In these aspects kubestow follows the API instead, and docs/differences.md names the issue. The
other aspects of the vector are compared as always.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class Fault(NamedTuple):
    """A fault, and where it shows in a vector."""

    issue: str
    """In the repository kubernetes/kubernetes, such as `kubernetes#1`."""
    aspects: frozenset[str]
    """The aspects that differ; for unit vectors, the expected fields."""


FAULTS: Final[Mapping[str, Fault]] = {
    # Admin access needs counters.
    "dra_allocator-0018": Fault("kubernetes#140729", frozenset({"outcome", "steps"})),
}
"""By the id of the vector."""

_NONE: Final[frozenset[str]] = frozenset()


def exempt_aspects(identity: str) -> frozenset[str]:
    """Return the aspects in which the vector of this id holds a fault."""
    return FAULTS[identity].aspects if identity in FAULTS else _NONE
