"""Vectors that hold a fault of kube-scheduler v1.36.2, by name.

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


def _negative_namespace_selector(*aspects: str) -> Fault:
    # A negative namespaceSelector selects every namespace upstream.
    return Fault("kubernetes#141526", frozenset(aspects))


def _counters_stay_taken(*aspects: str) -> Fault:
    # Of a device that is refused by a taint or a constraint, or a shared one that is put back.
    return Fault("kubernetes#140436", frozenset(aspects))


def _pools_share_counters(*aspects: str) -> Fault:
    # Pools of two drivers with the same name.
    return Fault("kubernetes#140434", frozenset(aspects))


def _distinct_from_the_last(*aspects: str) -> Fault:
    # distinctAttribute knows only the last value of each request.
    return Fault("kubernetes#140438", frozenset(aspects))


FAULTS: Final[Mapping[str, Fault]] = {
    "shared-interpod-0032": _negative_namespace_selector(
        "filter.plugins",
        "filter.nodes",
        "feasibleNodes",
        "score.raw",
        "score.normalized",
        "score.total",
    ),
    "shared-mixed-0020": _negative_namespace_selector("score.raw"),
    "shared-dra-0103": _counters_stay_taken(
        "filter.plugins",
        "filter.nodes",
        "feasibleNodes",
        "score.raw",
        "score.normalized",
        "score.total",
        "dra",
    ),
    "dra_allocator-0001": _distinct_from_the_last("outcome", "allocations"),
    "dra_allocator-0003": _distinct_from_the_last("outcome", "allocations", "steps"),
    "dra_allocator-0009": _counters_stay_taken("outcome", "steps"),
    "dra_allocator-0012": _counters_stay_taken("outcome", "steps"),
    "dra_allocator-0014": _counters_stay_taken("outcome", "steps"),
    "dra_allocator-0015": _pools_share_counters("outcome", "steps"),
    "dra_allocator-0016": _pools_share_counters("outcome", "allocations", "steps"),
    # Admin access needs counters.
    "dra_allocator-0018": Fault("kubernetes#140729", frozenset({"outcome", "steps"})),
    "dra_allocator-0119": _distinct_from_the_last("outcome", "allocations", "steps"),
    "dra_allocator-0175": _counters_stay_taken("outcome", "steps"),
    "dra_allocator-0178": _counters_stay_taken("steps"),
    "dra_allocator-0183": _pools_share_counters("steps"),
    "dra_allocator-0309": _counters_stay_taken("outcome", "steps"),
    "dra_allocator-0315": _counters_stay_taken("outcome", "steps"),
}
"""By the id of the vector."""

_NONE: Final[frozenset[str]] = frozenset()


def exempt_aspects(identity: str) -> frozenset[str]:
    """Return the aspects in which the vector of this id holds a fault."""
    return FAULTS[identity].aspects if identity in FAULTS else _NONE
