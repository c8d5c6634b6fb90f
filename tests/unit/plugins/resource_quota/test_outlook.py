"""The outlook of a held pod: who is ahead of it, and when quota is free."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.plugins.resource_quota.objects import pod, quota
from tests.unit.plugins.resource_quota.plugin_fixture import CPU, PluginFixture

STARTED = {"startTime": "2026-01-01T00:00:00Z"}


def until(uid: str, seconds: int, cpu: str = "1") -> Any:
    """A running pod with a deadline, in seconds since the year began."""
    return pod(uid, cpu, node="n", spec={"activeDeadlineSeconds": seconds}, status=STARTED)


def outlook(*running: Any, cpu: str = "1", limit: int = 2000) -> list[str]:
    fixture = PluginFixture()
    fixture.deliver(quota(hard={CPU: limit}), *running)
    return list(fixture.plugin.explain(pod("held", cpu, deferred=True)))[1:]


@pytest.mark.parametrize(
    ("running", "expected"),
    [
        (
            [until("a", 300), until("b", 60)],
            "q: requests.cpu is free by 2026-01-01T00:01:00Z, when default/b will have ended",
        ),
        (
            [until("a", 300, "1500m"), until("b", 60, "500m")],
            (
                "q: requests.cpu is free by 2026-01-01T00:05:00Z, when default/b, default/a "
                "will have ended"
            ),
        ),
        (
            [until("b", 60, "500m"), pod("a", "1500m", node="n")],
            (
                "q: requests.cpu is mostly used by default/a (1500m), default/b (500m), "
                "whose ends are not known"
            ),
        ),
        (
            [until("far", 2**62, "2")],
            "q: requests.cpu is free by 9999-12-31T23:59:59Z, when default/far will have ended",
        ),
    ],
)
def test_the_latest_time_at_which_quota_is_free_is_known_from_deadlines(
    running: list[Any], expected: str
) -> None:
    assert outlook(*running) == [expected]


def test_a_pod_that_is_being_deleted_frees_its_quota_after_its_grace_period() -> None:
    deleted = {"deletionTimestamp": "2026-01-01T00:01:00Z", "deletionGracePeriodSeconds": 30}
    (line,) = outlook(pod("going", "2", node="n", metadata=deleted))
    assert line.startswith("q: requests.cpu is free by 2026-01-01T00:01:30Z, when default/going")


def test_nothing_frees_quota_for_a_pod_that_is_larger_than_it() -> None:
    assert outlook(until("a", 60), cpu="3") == []


def test_only_a_few_of_many_users_are_named() -> None:
    many = [pod(f"p{each}", "100m", node="n") for each in range(20)]
    (line,) = outlook(*many)
    assert line.count("default/") == 3
