"""The fast instruments count exactly what prometheus_client's own count."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram

from scheduler.metrics.definitions import CLIENT, E1, E2, E3, E4, exponential
from scheduler.metrics.instruments import Family, FastCounter, FastGauge, FastHistogram

BUCKETS = (E1, E2, E3, E4, CLIENT, exponential(1, 2, 5))


@st.composite
def observations(draw: st.DrawFn) -> tuple[tuple[float, ...], list[float]]:
    """Bounds, and values that often lie exactly on one."""
    bounds = draw(st.sampled_from(BUCKETS))
    value = st.sampled_from(bounds) | st.floats(-1.0, 2 * bounds[-1]) | st.just(math.inf)
    return bounds, draw(st.lists(value, max_size=40))


@given(observations())
def test_a_fast_histogram_equals_the_librarys(case: tuple[tuple[float, ...], list[float]]) -> None:
    bounds, values = case
    fast = FastHistogram(bounds)
    registry = CollectorRegistry()
    slow = Histogram("x", "x", buckets=bounds, registry=registry)
    for value in values:
        fast.observe(value)
        slow.observe(value)
    labels = [str(bound) for bound in bounds] + ["+Inf"]
    expected = [registry.get_sample_value("x_bucket", {"le": label}) for label in labels]
    assert list(fast.cumulative()) == expected
    assert fast.count == registry.get_sample_value("x_count")
    assert fast.sum == registry.get_sample_value("x_sum")


def test_a_child_survives_reset() -> None:
    family = Family(FastCounter)
    child = family["a",]
    child.inc(2)
    family.reset()
    child.inc()
    assert family["a",] is child
    assert child.value == 1


def test_a_gauge_keeps_its_value_over_a_reset() -> None:
    family = Family(FastGauge)
    family["a",].add(3)
    family.reset()
    family["a",].add(-1)
    assert family["a",].value == 2


def test_reset_clears_a_histogram() -> None:
    family = Family(lambda: FastHistogram((1.0, 2.0)))
    child = family[()]
    child.observe(1.5)
    family.reset()
    assert (child.count, child.sum, list(child.cumulative())) == (0, 0.0, [0, 0, 0])
    child.observe(2.0)
    assert list(child.cumulative()) == [0, 1, 1]
