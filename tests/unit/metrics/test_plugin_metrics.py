"""Metrics that plugins declare are served while a plugin uses them, and stay bounded."""

from __future__ import annotations

import pytest

from scheduler.api import Node, ObjectMeta
from scheduler.framework import ConfigurationError, Metric
from scheduler.framework.metric import metric_problems
from scheduler.metrics import SchedulerMetrics
from scheduler.metrics.plugin_metrics import MAX_LABEL_LENGTH, MAX_SERIES
from scheduler.service.subscriptions import SubscriptionBoard

FREE = Metric("example_free_tokens", "gauge", "Free tokens.", ("feature",))
GRANTED = Metric("example_granted_tokens_total", "counter", "Granted tokens.", ("feature",))
WAIT = Metric("example_wait_seconds", "histogram", "Time until a token.", (), (1.0, 5.0))
DROPPED = "kubestow_plugin_metric_samples_dropped_total"


@pytest.fixture
def metrics() -> SchedulerMetrics:
    return SchedulerMetrics(process=False)


def samples(metrics: SchedulerMetrics, name: str) -> dict[tuple[str, ...], float]:
    """The samples of a name, by the values of their labels."""
    return {
        tuple(sample.labels.values()): sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name == name
    }


def test_each_kind_is_served_with_its_labels(metrics: SchedulerMetrics) -> None:
    own = metrics.plugins.declare("P", (FREE, GRANTED, WAIT))
    own.expose()
    own.gauge(FREE.name, "matlab", value=3)
    own.count(GRANTED.name, "matlab")
    own.count(GRANTED.name, "matlab", amount=2)
    own.observe(WAIT.name, value=2)
    assert samples(metrics, FREE.name) == {("matlab",): 3}
    assert samples(metrics, GRANTED.name) == {("matlab",): 3}
    assert samples(metrics, f"{WAIT.name}_bucket") == {("1",): 0, ("5",): 1, ("+Inf",): 1}
    text, _ = metrics.exposition()
    assert b"# HELP example_free_tokens Free tokens." in text


def test_nothing_is_served_before_the_plugin_is_in_use_and_after_it(
    metrics: SchedulerMetrics,
) -> None:
    own = metrics.plugins.declare("P", (FREE,))
    own.gauge(FREE.name, "matlab", value=3)
    assert samples(metrics, FREE.name) == {}
    own.expose()
    assert samples(metrics, FREE.name) == {("matlab",): 3}
    own.withdraw()
    assert samples(metrics, FREE.name) == {}


def test_instances_of_a_plugin_share_a_metric_until_the_last_is_gone(
    metrics: SchedulerMetrics,
) -> None:
    first, second = (metrics.plugins.declare("P", (GRANTED,)) for _ in range(2))
    for own in (first, second):
        own.expose()
        own.count(GRANTED.name, "a")
    first.withdraw()
    assert samples(metrics, GRANTED.name) == {("a",): 2}
    second.withdraw()
    assert samples(metrics, GRANTED.name) == {}


@pytest.mark.parametrize(("plugin", "advice"), [("P", "restart"), ("Q", "another name")])
def test_a_name_in_use_cannot_be_declared_otherwise(
    metrics: SchedulerMetrics, plugin: str, advice: str
) -> None:
    metrics.plugins.declare("P", (FREE,)).expose()
    other = Metric(FREE.name, "gauge", "Other.", ("feature", "site"))
    with pytest.raises(ConfigurationError, match=f"declared by plugin P: .*{advice}"):
        metrics.plugins.declare(plugin, (other,))


def test_a_declaration_that_was_never_in_use_can_be_replaced(metrics: SchedulerMetrics) -> None:
    metrics.plugins.declare("P", (FREE,))
    metrics.plugins.begin()
    other = Metric(FREE.name, "gauge", "Other.", ("site",))
    own = metrics.plugins.declare("P", (other,))
    own.expose()
    own.gauge(FREE.name, "s", value=1)
    assert samples(metrics, FREE.name) == {("s",): 1}


def test_series_beyond_the_bound_are_dropped_and_counted(metrics: SchedulerMetrics) -> None:
    own = metrics.plugins.declare("P", (FREE,))
    own.expose()
    for number in range(MAX_SERIES + 5):
        own.gauge(FREE.name, f"f{number}", value=1)
    own.gauge(FREE.name, "f0", value=7)
    found = samples(metrics, FREE.name)
    assert (len(found), found["f0",]) == (MAX_SERIES, 7)
    assert samples(metrics, DROPPED) == {(FREE.name,): 5}


def test_a_long_label_value_is_cut_to_one_series(metrics: SchedulerMetrics) -> None:
    own = metrics.plugins.declare("P", (FREE,))
    own.expose()
    for _ in range(2):
        own.gauge(FREE.name, "x" * 1_000_000, value=1)
    assert list(samples(metrics, FREE.name)) == [("x" * MAX_LABEL_LENGTH,)]


def test_a_long_label_value_is_forgotten_as_it_was_cut(metrics: SchedulerMetrics) -> None:
    own = metrics.plugins.declare("P", (FREE,))
    own.expose()
    own.gauge(FREE.name, "x" * 1_000, value=1)
    own.forget(FREE.name, "x" * 1_000)
    assert samples(metrics, FREE.name) == {}


def test_a_metric_is_written_as_it_is_declared(metrics: SchedulerMetrics) -> None:
    own = metrics.plugins.declare("P", (FREE, GRANTED))
    with pytest.raises(KeyError):
        own.gauge("example_unknown", value=1)
    with pytest.raises(ValueError, match="is a gauge with labels: feature"):
        own.count(FREE.name, "matlab")
    with pytest.raises(ValueError, match="is a gauge with labels: feature"):
        own.gauge(FREE.name, value=1)
    with pytest.raises(ValueError, match="cannot be counted down"):
        own.count(GRANTED.name, "matlab", amount=-1)


def test_reset_zeroes_counters_and_keeps_gauges(metrics: SchedulerMetrics) -> None:
    own = metrics.plugins.declare("P", (FREE, GRANTED))
    own.expose()
    own.gauge(FREE.name, "a", value=3)
    own.count(GRANTED.name, "a")
    metrics.reset()
    assert samples(metrics, GRANTED.name) == {("a",): 0}
    assert samples(metrics, FREE.name) == {("a",): 3}


def test_series_are_forgotten_with_the_objects_that_they_describe(
    metrics: SchedulerMetrics,
) -> None:
    load = Metric("example_load", "gauge", "Load.", ("node", "kind"), describes="nodes")
    board = SubscriptionBoard()
    own = metrics.plugins.declare("P", (load, FREE))
    own.forget_with(board)
    own.expose()
    for node in ("n1", "n2"):
        for kind in ("cpu", "memory"):
            own.gauge(load.name, node, kind, value=1)
    assert board.plurals == {"nodes"}
    gone = Node(metadata=ObjectMeta(name="n1"))
    board.publish_object("nodes", gone, gone)
    assert len(samples(metrics, load.name)) == 4
    board.publish_object("nodes", gone, None)
    assert set(samples(metrics, load.name)) == {("n2", "cpu"), ("n2", "memory")}


@pytest.mark.parametrize(
    ("metric", "problem"),
    [
        (Metric("free tokens", "gauge", "x"), "letters, digits"),
        (Metric("scheduler_tokens", "gauge", "x"), "reserved"),
        (Metric("example_tokens", "counter", "x"), "ends in _total"),
        (Metric("example_tokens_total", "gauge", "x"), "ends in _total"),
        (Metric("example_tokens_sum", "gauge", "x"), "must not end in"),
        (Metric("example_tokens", "meter", "x"), "enum"),  # type: ignore[arg-type]
        (Metric("example_tokens", "gauge", 3), "`help`"),  # type: ignore[arg-type]
        (Metric("example_tokens", "gauge", "x", "node"), "`labels`"),  # type: ignore[arg-type]
        (Metric("example_tokens", "gauge", "x", (1,)), "`labels"),  # type: ignore[arg-type]
        (Metric("example_tokens", "histogram", "x", (), ("1",)), "`buckets"),  # type: ignore[arg-type]
        (Metric("example_tokens", "gauge", ""), "describe it"),
        (Metric("example_tokens", "gauge", "x", ("a", "a")), "each once"),
        (Metric("example_tokens", "gauge", "x", ("le",)), "cannot be a label"),
        (Metric("example_tokens", "gauge", "x", buckets=(1.0,)), "no buckets"),
        (Metric("example_tokens", "histogram", "x"), "1 to 50 buckets"),
        (Metric("example_tokens", "histogram", "x", buckets=(2.0, 1.0)), "ascending"),
        (Metric("example_tokens", "gauge", "x", describes="nodes"), "no label"),
        ("example_tokens", "give a Metric"),
    ],
)
def test_a_faulty_declaration_is_named(metric: Metric, problem: str) -> None:
    (found,) = metric_problems((metric,))
    assert problem in found
    assert "example" in found or "tokens" in found


def test_a_metric_declared_twice_is_named() -> None:
    (found,) = metric_problems((FREE, FREE))
    assert "declared twice" in found
    assert list(metric_problems((FREE, GRANTED, WAIT))) == []


def test_a_metric_stays_while_a_plugin_uses_it_whoever_else_leaves(
    metrics: SchedulerMetrics,
) -> None:
    before = metrics.plugins.declare("P", (FREE,))
    before.expose()
    after = metrics.plugins.declare("P", (FREE,))
    before.withdraw()
    after.expose()
    after.gauge(FREE.name, "matlab", value=3)
    assert samples(metrics, FREE.name) == {("matlab",): 3}


def test_two_plugins_of_one_reload_cannot_declare_one_metric(metrics: SchedulerMetrics) -> None:
    metrics.plugins.begin()
    metrics.plugins.declare("P", (FREE,))
    with pytest.raises(ConfigurationError, match="declared by plugin P: give one of them another"):
        metrics.plugins.declare("Q", (FREE,))


def test_a_plugin_that_leaves_takes_no_metric_of_another_with_it(
    metrics: SchedulerMetrics,
) -> None:
    first = metrics.plugins.declare("P", (FREE,))
    metrics.plugins.begin()
    second = metrics.plugins.declare("Q", (FREE,))
    first.expose()
    second.expose()
    first.withdraw()
    second.gauge(FREE.name, "matlab", value=3)
    assert samples(metrics, FREE.name) == {("matlab",): 3}
