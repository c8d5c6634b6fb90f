"""Nodes whose kubelet rejected a pod are left out for pods like it, for a time."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.api import Pod
from scheduler.engine import kubelet_rejections
from scheduler.engine.kubelet_rejections import REASON, KubeletRejections
from scheduler.framework import ConfigurationError, unschedulable
from tests.unit.engine.harness import World, plugin

MINUTES_5 = 300.0


class Setting:
    """A world whose profile ends with the step under test."""

    def __init__(self, *plugins: type[Any], seconds: float = MINUTES_5, reuse: bool = True) -> None:
        made: list[KubeletRejections] = []

        def last(world: World) -> KubeletRejections:
            made.append(KubeletRejections(world.cache.table, seconds, world.clock))
            return made[0]

        self.world = World(*plugins, last_filter=last, reuse=reuse)
        (self.rejections,) = made
        self.world.nodes("n1", "n2")

    def pod(self, name: str = "p", milli: int = 100, **spec: Any) -> Pod:
        return self.world.pod(name, **{**self.world.requests(milli), **spec})

    def reject(self, node: str, pod: Pod | None = None) -> None:
        self.rejections.note(pod or self.pod("rejected"), node)

    def chosen(self, pod: Pod | None = None) -> str:
        return self.world.chosen(pod or self.pod())


def pinned(on: str) -> dict[str, Any]:
    fields = [{"key": "metadata.name", "operator": "In", "values": [on]}]
    required = {"nodeSelectorTerms": [{"matchFields": fields}]}
    return {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    }


@pytest.mark.parametrize("reuse", [True, False])
def test_a_node_is_left_out_for_pods_like_the_rejected_one(reuse: bool) -> None:
    on = Setting(reuse=reuse)
    assert {on.chosen() for _ in range(20)} == {"n1", "n2"}
    on.reject("n1")
    assert {on.chosen() for _ in range(20)} == {"n2"}
    assert {on.chosen(on.pod("other", 200)) for _ in range(20)} == {"n1", "n2"}


@pytest.mark.parametrize("reuse", [True, False])
def test_it_is_forgotten_by_time(reuse: bool) -> None:
    on = Setting(reuse=reuse)
    on.reject("n1")
    on.world.clock.time += MINUTES_5 - 1
    assert {on.chosen() for _ in range(20)} == {"n2"}
    on.world.clock.time += 1
    assert {on.chosen() for _ in range(20)} == {"n1", "n2"}
    assert not len(on.rejections)


@pytest.mark.parametrize("reuse", [True, False])
def test_where_no_other_node_is_left_the_pod_is_tried_when_the_first_time_is_over(
    reuse: bool,
) -> None:
    on = Setting(reuse=reuse)
    on.reject("n1")
    on.world.clock.time += 100
    on.reject("n2")
    attempt = on.world.attempt(on.pod())
    assert attempt.failure is not None
    assert attempt.failure.message == f"0/2 nodes are available: 2 {REASON}."
    assert attempt.failure.requeue_after == MINUTES_5 - 100
    assert attempt.failure.unschedulable_plugins == {"KubeletRejections"}


def test_a_second_rejection_begins_the_time_anew() -> None:
    on = Setting()
    on.reject("n1")
    on.world.clock.time += 200
    on.reject("n1")
    on.world.clock.time += 200
    assert {on.chosen() for _ in range(20)} == {"n2"}
    on.world.clock.time += 100
    assert {on.chosen() for _ in range(20)} == {"n1", "n2"}


def test_a_reason_of_the_profile_comes_first() -> None:
    def no(*_: Any) -> Any:
        return unschedulable("no")

    on = Setting(plugin("P", filter=no))
    on.reject("n1")
    assert on.world.failure_message(on.pod()) == "0/2 nodes are available: 2 no."


def test_pods_made_for_one_node_are_let_through() -> None:
    on = Setting()
    daemon = on.pod("d", **pinned("n1"))
    on.reject("n1", daemon)
    assert not len(on.rejections)
    assert on.world.attempt(on.pod("e", **pinned("n1"))).failure is None


def test_a_node_that_is_gone_starts_afresh() -> None:
    on = Setting()
    on.reject("n1")
    on.world.cache.remove_node("n1")
    on.rejections.forget_node("n1")
    on.world.nodes("n1")
    assert {on.chosen() for _ in range(20)} == {"n1", "n2"}


def test_zero_seconds_switch_it_off() -> None:
    on = Setting(seconds=0)
    on.reject("n1")
    assert {on.chosen() for _ in range(20)} == {"n1", "n2"}


@pytest.mark.parametrize("jump", [-1_000_000.0, 1_000_000.0])
def test_jumps_of_the_wall_clock_change_nothing(
    jump: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    on = Setting()
    on.reject("n1")
    monkeypatch.setattr(on.world.clock, "now", lambda: on.world.clock.time + jump)
    assert {on.chosen() for _ in range(20)} == {"n2"}
    on.world.clock.time += MINUTES_5
    assert {on.chosen() for _ in range(20)} == {"n1", "n2"}


def test_a_recheck_long_after_its_cycle_forgets_nothing() -> None:
    on = Setting()
    attempt = on.world.attempt(on.pod("waits-at-permit"))
    on.world.clock.time += 100
    other = "n1" if attempt.node_name == "n2" else "n2"
    on.reject(other)
    on.world.cache.add_pod(on.pod("theirs", 300, nodeName=attempt.node_name))
    assert on.world.engine.changed_by_others(attempt)
    assert on.world.engine.recheck(attempt) is None
    assert {on.chosen() for _ in range(20)} == {attempt.node_name}


def test_the_number_of_pairs_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubelet_rejections, "MAX_PAIRS", 2)
    on = Setting()
    for node in ("gone", "n1", "n2"):
        on.reject(node)
    assert len(on.rejections) == 2
    assert on.world.attempt(on.pod()).failure is not None


def test_its_name_is_reserved() -> None:
    with pytest.raises(ConfigurationError, match="KubeletRejections"):
        Setting(plugin("KubeletRejections", filter=lambda *_: None))
