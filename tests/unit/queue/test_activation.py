"""Moves that a plugin requests: activation, `recheck` and `wake`."""

from __future__ import annotations

from scheduler.framework import (
    unresolvable,
)
from tests.unit.queue.doubles import (
    FilterDouble,
    GateDouble,
    World,
    gated_by,
    make_pod,
)


class TestActivate:
    def test_unschedulable_pods_and_pods_in_backoff_become_active(self) -> None:
        world = World(FilterDouble("P"))
        pods = [make_pod(name) for name in ("rejected", "failed", "active")]
        world.rejected(pods[0], "P")
        world.add(pods[1])
        world.fail(world.pop())
        world.add(pods[2])
        world.queue.activate([*pods, make_pod("unknown")])
        world.queue.validate()
        assert set(world.places().values()) == {"active"}
        assert world.metrics.incoming["active", "ForceActivate"] == 2

    def test_it_is_recorded_for_a_pod_in_flight_and_for_no_other(self) -> None:
        world = World(FilterDouble("P"))
        one, two = make_pod("a"), make_pod("b")
        world.add(one, two)
        first, second = world.pop(), world.pop()
        world.queue.activate([one])
        assert world.metrics.inflight["ForceActivate"] == 1
        assert world.fail(second, "P") == "unschedulable"
        assert world.fail(first, "P") == "backoff"

    def test_a_gated_pod_stays_gated(self) -> None:
        world, gate = gated_by(unresolvable("no"))
        world.queue.activate([make_pod("a")])
        assert world.place("a") == "gated"
        gate.closed.clear()
        world.queue.activate([make_pod("a")])
        assert world.place("a") == "active"

    def test_preenqueue_is_not_run_for_a_pod_from_backoff(self) -> None:
        gate = GateDouble("G")
        world = World(gate, FilterDouble("P"))
        world.add(make_pod("a"))
        world.fail(world.pop())
        gate.closed["a"] = unresolvable("no")
        world.queue.activate([make_pod("a")])
        assert world.place("a") == "active"


class TestRecheckAndWake:
    def test_recheck_gates_pods_wherever_they_wait(self) -> None:
        gate = GateDouble("G")
        world = World(gate, FilterDouble("P"))
        world.rejected(make_pod("rejected"), "P")
        world.add(make_pod("failed"))
        world.fail(world.pop())
        world.add(make_pod("active"))
        uids = [f"uid-{name}" for name in ("rejected", "failed", "active", "unknown")]
        world.queue.recheck(uids)
        assert world.places() == {
            "rejected": "unschedulable", "failed": "backoff", "active": "active",
        }  # fmt: skip
        gate.closed = {name: unresolvable("quota") for name in ("rejected", "failed", "active")}
        world.queue.recheck(uids)
        world.queue.validate()
        assert set(world.places().values()) == {"gated"}
        gate.closed.clear()
        world.clock.step(5)
        world.queue.recheck(uids)
        world.queue.validate()
        assert set(world.places().values()) == {"active"}

    def test_wake_moves_exactly_the_pods_that_the_plugin_rejected(self) -> None:
        quota = GateDouble("Quota")
        other = GateDouble("Other")
        world = World(other, quota, FilterDouble("P"))
        quota.closed = {"held": unresolvable("q"), "still-held": unresolvable("q")}
        other.closed["other"] = unresolvable("o")
        world.add(make_pod("held"), make_pod("still-held"), make_pod("other"))
        world.rejected(make_pod("rejected"), "Quota")
        world.rejected(make_pod("unrelated"), "P")
        del quota.closed["held"]
        world.clock.step(5)
        uids = [f"uid-{name}" for name in world.places()] + ["uid-unknown"]
        before = len(other.runs)
        assert world.queue.wake(uids, "Quota", "QuotaFreed") == 2
        world.queue.validate()
        assert world.places() == {
            "held": "active", "rejected": "active",
            "still-held": "gated", "other": "gated", "unrelated": "unschedulable",
        }  # fmt: skip
        assert len(other.runs) == before + 2
        assert world.metrics.incoming["active", "QuotaFreed"] == 2

    def test_wake_of_a_pending_plugin_skips_backoff(self) -> None:
        world = World(FilterDouble("P"))
        world.rejected(make_pod("a"), pending=["P"])
        world.queue.wake(["uid-a"], "P", "Freed")
        assert world.place("a") == "active"

    def test_wake_is_recorded_for_a_pod_in_flight(self) -> None:
        world = World(FilterDouble("P"), FilterDouble("Q"))
        world.add(make_pod("a"), make_pod("b"), make_pod("c"))
        infos = [world.pop() for _ in range(3)]
        world.queue.wake(["uid-a", "uid-b"], "P", "Freed")
        assert world.fail(infos[0], "P") == "backoff"
        assert world.fail(infos[1], "Q") == "unschedulable"
        assert world.fail(infos[2], "P") == "unschedulable"
        assert +world.metrics.inflight == {}
