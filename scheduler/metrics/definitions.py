"""Definitions of all metrics: name, type, labels, buckets and help; read from `definitions.toml`.

Nothing is measured here.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from importlib.resources import files
from typing import Any, Final


class Kind(Enum):
    """Prometheus types in use."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Definition:
    """The definition of one metric."""

    #: Whole name; a counter's ends in `_total`.
    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    #: Upper bounds of a histogram, ascending, without +Inf.
    buckets: tuple[float, ...] = ()


def exponential(first: float, factor: float, count: int) -> tuple[float, ...]:
    """Return `first`, `first * factor`, ...; multiplied up one by one, so that each equals Go's.

    >>> exponential(0.001, 2, 4)
    (0.001, 0.002, 0.004, 0.008)
    """
    bounds = [float(first)]
    while len(bounds) < count:
        bounds.append(bounds[-1] * factor)
    return tuple(bounds)


E1: Final = exponential(0.0001, 2, 12)
E2: Final = exponential(0.001, 2, 15)
E3: Final = exponential(0.01, 2, 20)
E4: Final = exponential(0.00001, 1.5, 20)
CLIENT: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
"""client-go's bounds for request and rate limiter latency."""
LAG: Final = exponential(0.0005, 2, 14)
"""Half a millisecond (the timer's own error) to four seconds (health checks fail)."""

_BUCKETS: Final = {"E1": E1, "E2": E2, "E3": E3, "E4": E4, "CLIENT": CLIENT, "LAG": LAG}


def _definition(name: str, entry: Mapping[str, Any]) -> Definition:
    buckets = entry.get("buckets", ())
    return Definition(
        name,
        Kind(entry["type"]),
        entry["help"],
        tuple(entry.get("labels", ())),
        _BUCKETS[buckets] if isinstance(buckets, str) else tuple(buckets),
    )


_document: Final = tomllib.loads(
    files("scheduler.metrics").joinpath("definitions.toml").read_text(encoding="utf-8")
)

DEFINITIONS: Final = tuple(_definition(*each) for each in _document["metrics"].items())
"""All definitions, in the order of the file."""

NOT_SERVED: Final[Mapping[str, str]] = _document["not_served"]
"""Upstream's metrics that kubestow does not have, and why."""
