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
    """The aspects that differ."""


def _negative_namespace_selector(*aspects: str) -> Fault:
    # A negative namespaceSelector selects every namespace upstream.
    return Fault("kubernetes#141526", frozenset(aspects))


FAULTS: Final[Mapping[str, Fault]] = {
    # Its namespaces do not exist, so a selector selects none of them.
    "shared-interpod-0005": _negative_namespace_selector("score.raw"),
    "shared-interpod-0032": _negative_namespace_selector(
        "filter.plugins",
        "filter.nodes",
        "feasibleNodes",
        "score.raw",
        "score.normalized",
        "score.total",
    ),
    "shared-mixed-0020": _negative_namespace_selector("score.raw"),
}
"""By the id of the vector."""

_NONE: Final[frozenset[str]] = frozenset()


def exempt_aspects(identity: str) -> frozenset[str]:
    """Return the aspects in which the vector of this id holds a fault."""
    return FAULTS[identity].aspects if identity in FAULTS else _NONE
