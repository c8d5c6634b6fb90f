"""Random workloads: rates, rhythm, sizes and durations."""

from __future__ import annotations

import random
from typing import Any

import pytest

from scheduler import offline
from scheduler.offline import generator
from scheduler.offline.generator import Generator, PodKind

JOB = PodKind(offline.pod("job"))


def test_a_seed_names_a_workload() -> None:
    kinds = (PodKind(offline.pod("job"), duration=generator.exponential(60.0)), JOB)
    made = Generator(rate=0.1, until=600.0, kinds=kinds)
    assert made.arrivals(1) == made.arrivals(1) != made.arrivals(2)
    times = [each.time for each in made.arrivals(1)]
    assert times == sorted(times)
    assert max(times) < 600.0


def test_most_pods_arrive_at_the_peak_of_the_day_and_the_mean_rate_is_kept() -> None:
    day = Generator(rate=0.1, until=86400.0, kinds=(JOB,), amplitude=0.9, peak=43200.0).arrivals(5)
    near = sum(abs(each.time - 43200.0) < 10800.0 for each in day)
    far = sum(abs(each.time - 43200.0) > 32400.0 for each in day)
    assert near > 5 * far > 0
    assert 0.9 * 8640 < len(day) < 1.1 * 8640


def test_kinds_come_by_weight_and_sizes_share_templates() -> None:
    kinds = (
        PodKind(offline.pod("small"), weight=9.0, cpu=generator.uniform(0.0, 0.3)),
        PodKind(offline.pod("large", resources={"cpu": 1}), cpu=generator.constant(8.0),
                memory=generator.choices({100.0: 1, 300.0: 1})),
    )  # fmt: skip
    found = Generator(rate=1.0, until=2000.0, kinds=kinds).arrivals(0)
    large = [each for each in found if each.name.startswith("large-")]
    assert 0.07 < len(large) / len(found) < 0.13
    assert len({id(each.pod) for each in found}) == 3 + 2
    resources = large[0].pod["spec"]["containers"][0]["resources"]
    assert resources["requests"]["cpu"] == resources["limits"]["cpu"] == "8000m"
    sizes = {each.pod["spec"]["containers"][0]["resources"]["requests"]["memory"] for each in large}
    assert sizes == {"128Mi", "384Mi"}


def test_long_durations_are_cut_at_the_maximum() -> None:
    source = random.Random(0)
    found = [generator.lognormal(10.0, 2.0, 100.0).sample(source) for _ in range(1000)]
    assert max(found) == 100.0
    assert 400 < sum(each < 10.0 for each in found) < 600


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"rate": 0.0}, "rate: give a positive"),
        ({"rate": float("nan")}, "rate: give a positive"),
        ({"until": -1.0}, "until: give"),
        ({"amplitude": 1.5}, "amplitude: give"),
        ({"kinds": ()}, "kinds: give at least one"),
        ({"rate": 1e6, "until": 1e6}, "at most 5000000 are drawn"),
    ],
)
def test_a_generator_that_makes_no_sense_is_refused(change: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Generator(**{"rate": 1.0, "until": 10.0, "kinds": (JOB,), **change})


def test_distributions_without_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="choices: give numbers"):
        generator.choices({1.0: 0.0})
    with pytest.raises(ValueError, match="uniform: give 0 <= low"):
        generator.uniform(2.0, 1.0)
    with pytest.raises(ValueError, match="exponential: give"):
        generator.exponential(0.0)
    with pytest.raises(ValueError, match="lognormal: give"):
        generator.lognormal(1.0, -1.0)
