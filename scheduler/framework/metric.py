"""Metric: the declaration of a metric that a plugin exposes.

A plugin lists its metrics in the class attribute `metrics`, and writes them through
`Handle.metrics`. They are served with those of the scheduler for as long as the plugin is in use.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Final, Literal

import msgspec

RESERVED_PREFIXES: Final = (
    "go_",
    "kubernetes_",
    "kubestow_",
    "leader_election_",
    "process_",
    "python_",
    "rest_client_",
    "scheduler_",
    "workqueue_",
)
"""Prefixes of the scheduler's own metrics, and of others that dashboards expect."""
MAX_LABELS: Final = 8

_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,199}", re.ASCII | re.IGNORECASE)
_HISTOGRAM_SUFFIXES: Final = ("_bucket", "_count", "_sum")
_MAX_BUCKETS: Final = 50
_MAX_HELP: Final = 1_000


@dataclass(frozen=True, slots=True)
class Metric:
    """The declaration of one metric, in the terms of Prometheus.

    >>> Metric("example_free_tokens", "gauge", "Licence tokens that are free.", ("feature",)).name
    'example_free_tokens'
    """

    #: Full name, with a prefix of your own; the name of a counter ends in `_total`.
    name: str
    kind: Literal["counter", "gauge", "histogram"]
    #: One sentence for the people who read the metric.
    help: str
    #: Names of the labels. Choose labels with few values, so never the name of a pod.
    labels: tuple[str, ...] = ()
    #: Upper bounds of a histogram, ascending, without +Inf.
    buckets: tuple[float, ...] = ()
    #: Plural of the resource that the series describe, such as `nodes`. When an object is deleted,
    #: the series whose first label is its name are removed; for a namespaced resource those whose
    #: first two labels are its namespace and name.
    describes: str = ""


def metric_problems(metrics: Iterable[object]) -> Iterator[str]:
    """Yield a sentence for each error in the `metrics` that a plugin declares."""
    names = set()
    for each in metrics:
        if not isinstance(each, Metric) or not isinstance(each.name, str):
            yield f"metrics has {each!r:.60}: give a Metric"
            continue
        problems = list(_type_problems(each)) or _problems(each)
        yield from (f"metric {each.name!r:.80}: {problem}" for problem in problems)
        if each.name in names:
            yield f"metric {each.name!r:.80} is declared twice"
        names.add(each.name)


def _type_problems(metric: Metric) -> Iterator[str]:
    """Yield the first type error, such as `labels=("node")`, which is a string and not a tuple."""
    try:
        msgspec.convert({each.name: getattr(metric, each.name) for each in fields(metric)}, Metric)
    except msgspec.ValidationError as error:
        yield str(error).replace("`$.", "`")


def _problems(metric: Metric) -> Iterator[str]:
    yield from _name_problems(metric)
    if not metric.help or len(metric.help) > _MAX_HELP:
        yield f"describe it in `help`, in 1 to {_MAX_HELP:,} characters"
    if len(metric.labels) > MAX_LABELS or len(set(metric.labels)) < len(metric.labels):
        yield f"give at most {MAX_LABELS} labels, each once"
    for label in metric.labels:
        if not _NAME.fullmatch(label) or label.startswith("__") or label in ("le", "quantile"):
            yield f"{label!r:.60} cannot be a label; use letters, digits and _, but not le"
    if metric.describes and not metric.labels:
        yield f"it has no label that names one of the {metric.describes} which it describes"
    if metric.kind != "histogram":
        if metric.buckets:
            yield f"a {metric.kind} has no buckets"
    elif not metric.buckets or len(metric.buckets) > _MAX_BUCKETS:
        yield f"give 1 to {_MAX_BUCKETS} buckets"
    elif not all(low < high for low, high in zip(metric.buckets, metric.buckets[1:], strict=False)):
        yield "give the bounds of the buckets in ascending order"


def _name_problems(metric: Metric) -> Iterator[str]:
    name = metric.name
    if not _NAME.fullmatch(name):
        yield "use letters, digits and _ in its name, at most 200"
        return
    if name.startswith(RESERVED_PREFIXES):
        yield f"names that begin with {name.split('_', 1)[0]}_ are reserved; use your own prefix"
    if (metric.kind == "counter") is not name.endswith("_total"):
        yield "the name of a counter, and of nothing else, ends in _total"
    if name.endswith(_HISTOGRAM_SUFFIXES):
        yield f"a name must not end in {', '.join(_HISTOGRAM_SUFFIXES)}"
