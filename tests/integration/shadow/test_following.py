"""The shadow decides as a scheduler would, holds its choices, and yields to what is bound."""

from __future__ import annotations

from devtools.embedded_service import bind, bound_to, delete, node, until
from scheduler.explain.records.shadow import ShadowVerdict
from scheduler.explain.records.shadow_wording import sentence
from scheduler.explain.records.wording import span
from scheduler.shadow.choices import FRESH_SECONDS, REJECTED_SECONDS
from scheduler.shadow.doubts import DOUBT_SECONDS
from scheduler.shadow.wiring import SILENT_SECONDS
from simulator import EmbeddedCluster, FaultRule
from simulator.objects import priority_class
from tests.integration.shadow.stage import chosen, judged, listen, pass_time, pod, reject, shadow


def assumed(wiring: object) -> int:
    return int(wiring.state.cache.statistics().assumed_pods)  # type: ignore[attr-defined]


async def test_the_same_node_and_an_equal_total_agree(cluster: EmbeddedCluster) -> None:
    for name in ("n1", "n2"):
        cluster.create(node(name))
    async with shadow(cluster) as wiring:
        seen = listen(wiring)
        cluster.create(pod("a"))
        here = await chosen(wiring, cluster, "a")
        bind(cluster, "a", here)
        await judged(wiring, seen, 1)
        cluster.create(pod("b", cpu="500m"))
        other = await chosen(wiring, cluster, "b")
        assert other != here, "the emptier node"
        delete(cluster, "a")
        cluster.create(pod("c"))
        await until(lambda: wiring.scheduling.queue.statistics().active == 0)
        bind(cluster, "b", other)
        await judged(wiring, seen, 2)
        assert [each.verdict for each in seen] == [ShadowVerdict.SAME, ShadowVerdict.SAME]
        assert bound_to(cluster, "c") == "", "nothing is written"


async def test_a_tie_is_no_difference(cluster: EmbeddedCluster) -> None:
    for name in ("n1", "n2", "n3"):
        cluster.create(node(name))
    async with shadow(cluster) as wiring:
        seen = listen(wiring)
        cluster.create(pod("a"))
        here = await chosen(wiring, cluster, "a")
        there = next(each for each in ("n1", "n2", "n3") if each != here)
        bind(cluster, "a", there)
        await judged(wiring, seen, 1)
        assert seen[0].verdict is ShadowVerdict.TIE
        assert (seen[0].here, seen[0].there) == (here, there)
        await until(lambda: assumed(wiring) == 0)
        row = wiring.state.cache.table.row_of(there)
        assert row is not None
        assert len(wiring.state.cache.table.pods[row]) == 1, "reality counts"


async def test_another_node_names_the_plugin(cluster: EmbeddedCluster) -> None:
    for name in ("n1", "n2"):
        cluster.create(node(name))
    async with shadow(cluster) as wiring:
        seen = listen(wiring)
        cluster.create(pod("a", cpu="3", nodeName="n1"))
        cluster.create(pod("b"))
        assert await chosen(wiring, cluster, "b") == "n2"
        bind(cluster, "b", "n1")
        await until(lambda: wiring.follower.doubts.next_due() is not None)
        pass_time(DOUBT_SECONDS)
        (found,) = await judged(wiring, seen, 1)
        assert found.verdict is ShadowVerdict.OTHER
        assert found.best == "n2"
        assert found.plugin == "NodeResourcesFit"
        scores = {each.plugin: each.best - each.there for each in found.scores}
        assert scores["NodeResourcesFit"] > 0


async def test_a_node_that_does_not_fit_names_the_filter(cluster: EmbeddedCluster) -> None:
    cluster.create(node("n1"))
    tainted = node("n2")
    tainted["spec"] = {"taints": [{"key": "a", "effect": "NoSchedule"}]}
    cluster.create(tainted)
    async with shadow(cluster) as wiring:
        seen = listen(wiring)
        cluster.create(pod("a"))
        await chosen(wiring, cluster, "a")
        bind(cluster, "a", "n2")
        (found,) = await judged(wiring, seen, 1)
        assert (found.verdict, found.plugin) == (ShadowVerdict.WOULD_NOT_FIT, "TaintToleration")
        assert "taint" in found.message


async def test_a_pod_that_fits_nowhere_would_have_waited(cluster: EmbeddedCluster) -> None:
    cluster.create(node("n1", cpu="1"))
    async with shadow(cluster) as wiring:
        seen = listen(wiring)
        cluster.create(pod("a", cpu="2"))
        await until(lambda: wiring.scheduling.queue.statistics().unschedulable == 1)
        bind(cluster, "a", "n1")
        (found,) = await judged(wiring, seen, 1)
        assert (found.verdict, found.plugin) == (
            ShadowVerdict.WOULD_HAVE_WAITED,
            "NodeResourcesFit",
        )
        assert found.message.startswith("0/1 nodes are available: 1 Insufficient cpu")


async def test_the_room_of_a_choice_is_taken_until_reality_moves(cluster: EmbeddedCluster) -> None:
    cluster.create(node("n1"))
    async with shadow(cluster) as wiring:
        seen = listen(wiring)
        cluster.create(pod("a", cpu="3"))
        await chosen(wiring, cluster, "a")
        cluster.create(pod("b", cpu="3"))
        await until(lambda: wiring.scheduling.queue.statistics().unschedulable == 1)
        reject(cluster, "a", "0/1 nodes are available: 1 node(s) didn't match.")
        # The other scheduler does not place it: its room is free.
        await chosen(wiring, cluster, "b")
        bind(cluster, "b", "n1")
        await judged(wiring, seen, 1)
        assert seen[0].verdict is ShadowVerdict.SAME
        summary = wiring.summary()
        assert summary.waiting_there == 1
        assert summary.pending[0].here == "n1"


async def test_a_pod_is_placed_sooner(cluster: EmbeddedCluster) -> None:
    cluster.create(node("n1"))
    async with shadow(cluster) as wiring:
        seen = listen(wiring)
        cluster.create(pod("a"))
        await chosen(wiring, cluster, "a")
        reject(cluster, "a", "no")
        await until(lambda: assumed(wiring) == 0)
        pass_time(5.0)
        bind(cluster, "a", "n1")
        (found,) = await judged(wiring, seen, 1)
        assert found.verdict is ShadowVerdict.SAME
        assert found.sooner >= 5.0
        assert wiring.summary().sooner == 1


async def test_holds_end_by_themselves(cluster: EmbeddedCluster) -> None:
    cluster.create(node("n1"))
    cluster.create(pod("rejected"))
    reject(cluster, "rejected", "no")
    async with shadow(cluster) as wiring:
        await chosen(wiring, cluster, "rejected")
        cluster.create(pod("fresh"))
        await chosen(wiring, cluster, "fresh")
        assert wiring.state.slots.taken == 1, "only that of the fresh pod"
        pass_time(REJECTED_SECONDS)
        await until(lambda: wiring.follower.choices.held == 1)
        pass_time(FRESH_SECONDS)
        await until(lambda: wiring.follower.choices.held == 0)
        assert wiring.state.slots.taken == 0
        assert assumed(wiring) == 0
        assert len(wiring.follower.choices) == 2, "the choices stay"


async def test_a_pod_that_has_a_node_when_it_is_seen_is_counted_and_not_judged(
    cluster: EmbeddedCluster,
) -> None:
    cluster.create(node("n1"))
    cluster.create(pod("before", nodeName="n1"))
    async with shadow(cluster) as wiring:
        cluster.create(pod("late", nodeName="n1"))
        await until(lambda: wiring.summary().unseen == 1)
        assert wiring.summary().judged == 0


async def test_silence_is_told_with_its_reason(cluster: EmbeddedCluster) -> None:
    cluster.create(node("n1"))
    cluster.create(pod("a", nodeName="n1"))
    async with shadow(cluster) as wiring:
        assert wiring.summary().silent == 0.0
        for verb in ("list", "watch"):
            cluster.faults.add(FaultRule(action="error", verb=verb, code=401, message="expired"))
        pass_time(SILENT_SECONDS)
        await until(lambda: "401" in wiring.summary().silent_error)
        summary = wiring.summary()
        assert summary.silent >= SILENT_SECONDS
        silent = f"nothing heard from the API server for the last {span(summary.silent)}"
        assert sentence(summary).endswith(silent)
        cluster.faults.clear()
        await until(lambda: wiring.summary().silent == 0.0)


async def test_a_jump_of_the_wall_clock_places_nothing_sooner(cluster: EmbeddedCluster) -> None:
    cluster.create(node("n1"))
    async with shadow(cluster) as wiring:
        seen = listen(wiring)
        cluster.create(pod("a"))
        await chosen(wiring, cluster, "a")
        reject(cluster, "a", "no")
        await until(lambda: assumed(wiring) == 0)
        wiring.connections.clock._epoch += 7200.0  # type: ignore[attr-defined]
        bind(cluster, "a", "n1")
        (found,) = await judged(wiring, seen, 1)
        assert found.sooner < 3600.0
        assert wiring.summary().now - wiring.tally.began < 3600.0


async def test_a_deleted_pod_leaves_nothing(cluster: EmbeddedCluster) -> None:
    cluster.create(node("n1"))
    async with shadow(cluster) as wiring:
        cluster.create(pod("a"))
        await chosen(wiring, cluster, "a")
        cluster.create(pod("waits", cpu="9"))
        await until(lambda: wiring.scheduling.queue.statistics().unschedulable == 1)
        delete(cluster, "a")
        delete(cluster, "waits")
        await until(lambda: assumed(wiring) == 0)
        await until(lambda: wiring.summary().gone == 2)
        assert wiring.state.slots.taken == 0
        assert len(wiring.follower.choices) == 0


async def test_a_burst_is_judged_on_what_is_bound(cluster: EmbeddedCluster) -> None:
    """The other scheduler breaks ties otherwise, so the nodes of a burst are in another order."""
    names = [f"n{index}" for index in range(6)]
    for name in names:
        cluster.create(node(name))
    async with shadow(cluster) as wiring:
        seen = listen(wiring)
        for index in range(12):
            cluster.create(pod(f"p{index}"))
        await until(lambda: wiring.follower.choices.held == 12)
        for index in range(12):
            bind(cluster, f"p{index}", names[-1 - index % 6])
        await judged(wiring, seen, 12)
        agreeing = {ShadowVerdict.SAME, ShadowVerdict.TIE, ShadowVerdict.WINDOW}
        assert {each.verdict for each in seen} <= agreeing


async def test_bindings_may_arrive_in_another_order(cluster: EmbeddedCluster) -> None:
    """The small pod was placed beside the large one, whose binding comes later."""
    for name, cpu in (("n1", "16"), ("n2", "8")):
        cluster.create(node(name, cpu=cpu))
    async with shadow(cluster) as wiring:
        seen = listen(wiring)
        cluster.create(pod("large", cpu="12"))
        await chosen(wiring, cluster, "large")
        reject(cluster, "large", "so that its room is free here")
        await until(lambda: assumed(wiring) == 0)
        cluster.create(pod("small"))
        assert await chosen(wiring, cluster, "small") == "n1"
        bind(cluster, "small", "n2")
        bind(cluster, "large", "n1")
        await judged(wiring, seen, 2)
        assert {each.pod: each.verdict for each in seen} == {
            "default/large": ShadowVerdict.SAME,
            "default/small": ShadowVerdict.WINDOW,
        }


async def test_newer_pods_may_be_bound_before(cluster: EmbeddedCluster) -> None:
    """The small pod was placed first, but its binding comes after that of the large one."""
    for name, cpu in (("n1", "16"), ("n2", "8")):
        cluster.create(node(name, cpu=cpu))
    async with shadow(cluster) as wiring:
        seen = listen(wiring)
        cluster.create(pod("old", cpu="12"))
        await chosen(wiring, cluster, "old")
        cluster.create(pod("small"))
        # Beside the choice for the old pod.
        assert await chosen(wiring, cluster, "small") == "n2"
        cluster.create(pod("new", cpu="12"))
        delete(cluster, "old")
        await chosen(wiring, cluster, "new")
        bind(cluster, "new", "n1")
        bind(cluster, "small", "n1")
        await judged(wiring, seen, 2)
        assert {each.pod: each.verdict for each in seen}["default/small"] is ShadowVerdict.WINDOW


async def test_waiting_in_both_compares_reasons(cluster: EmbeddedCluster) -> None:
    cluster.create(node("n1", cpu="1"))
    async with shadow(cluster) as wiring:
        for name in ("same", "other"):
            cluster.create(pod(name, cpu="2"))
        await until(lambda: wiring.scheduling.queue.statistics().unschedulable == 2)
        reject(cluster, "same", "0/5 nodes are available: 5 Insufficient cpu. preemption: none.")
        reject(cluster, "other", "0/1 nodes are available: 1 Too many pods.")
        await until(lambda: wiring.summary().waiting_both == 2)
        summary = wiring.summary()
        assert summary.waiting_same_reason == 1
        assert [each.pod for each in summary.pending] == ["default/other", "default/same"]


async def test_victims_are_named_and_stay(cluster: EmbeddedCluster) -> None:
    cluster.create(node("n1"))
    async with shadow(cluster) as wiring:
        cluster.create(pod("low", cpu="3", nodeName="n1"))
        cluster.create(priority_class("high", 100))
        cluster.create(pod("high", cpu="3", priorityClassName="high"))
        await until(lambda: wiring.summary().preempting >= 1)
        reject(cluster, "high", "0/1 nodes are available: 1 Insufficient cpu.")
        await until(lambda: wiring.summary().waiting_both == 1)
        (found,) = wiring.summary().pending
        assert found.victims == ("default/low",)
        assert found.nominated == "n1"
        assert "deletionTimestamp" not in cluster.get("v1", "Pod", "low", "default")["metadata"]
