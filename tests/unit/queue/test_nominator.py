"""Nominations (facts 1, 45, 73 to 78)."""

from __future__ import annotations

from scheduler.api.pod import Pod
from scheduler.framework import CLEAR_NOMINATION, NominatingInfo
from scheduler.queue import QueueNominator
from tests.unit.queue.doubles import SchedulingGatesDouble, World, make_pod


class Cluster:
    """What the informer knows."""

    def __init__(self, *pods: Pod) -> None:
        self.known = {pod.key: pod for pod in pods}
        self.published: list[tuple[str, str]] = []
        self.nominator = QueueNominator(
            lambda namespace, name: self.known.get(f"{namespace}/{name}")
        )
        self.nominator.subscribe(lambda pod, node: self.published.append((pod.metadata.name, node)))

    def names(self, node: str) -> list[str]:
        assert self.nominator.violations() == []
        return [pod.metadata.name for pod in self.nominator.nominated_pods_for_node(node)]


A, B = make_pod("a"), make_pod("b")


def test_nominations_are_listed_by_node_in_order_and_published() -> None:
    cluster = Cluster(A, B)
    cluster.nominator.add_nominated_pod(B, NominatingInfo("n1"))
    cluster.nominator.add_nominated_pod(A, NominatingInfo("n1"))
    assert cluster.names("n1") == ["b", "a"]
    cluster.nominator.add_nominated_pod(B, NominatingInfo("n2"))
    cluster.nominator.delete_nominated_pod_if_exists(A)
    cluster.nominator.delete_nominated_pod_if_exists(A)
    assert (cluster.names("n1"), cluster.names("n2")) == ([], ["b"])
    assert cluster.nominator.nominated_nodes() == ("n2",)
    assert cluster.published == [("b", "n1"), ("a", "n1"), ("b", "n2"), ("a", "")]


def test_a_pod_that_is_gone_bound_or_recreated_cannot_be_nominated() -> None:
    bound = make_pod("bound")
    bound.spec.node_name = "n9"
    cluster = Cluster(bound, make_pod("again", uid="new"))
    for pod in (A, make_pod("bound"), make_pod("again", uid="old")):
        cluster.nominator.add_nominated_pod(pod, NominatingInfo("n1"))
    assert cluster.names("n1") == []


def test_none_keeps_what_is_known_and_an_empty_name_ends_it() -> None:
    stated = make_pod("a", nominated="n1")
    cluster = Cluster(stated)
    cluster.nominator.add_nominated_pod(stated, None)
    assert cluster.names("n1") == ["a"]
    cluster.nominator.add_nominated_pod(stated, NominatingInfo("n2"))
    cluster.nominator.add_nominated_pod(stated, None)
    assert cluster.names("n2") == ["a"]
    cluster.nominator.add_nominated_pod(stated, CLEAR_NOMINATION)
    assert cluster.nominator.node_of("uid-a") == ""


def test_a_cleared_nomination_is_not_revived_by_the_stale_status() -> None:
    stale = make_pod("a", nominated="n1")
    cluster = Cluster(stale)
    cluster.nominator.add_nominated_pod(stale, None)
    cluster.nominator.add_nominated_pod(stale, CLEAR_NOMINATION)
    labelled = make_pod("a", nominated="n1", labels={"x": "1"})
    cluster.nominator.update_nominated_pod(stale, labelled)
    cluster.nominator.add_nominated_pod(labelled, None)
    assert cluster.names("n1") == []
    fresh = make_pod("a", nominated="n2")
    cluster.known[fresh.key] = fresh
    cluster.nominator.update_nominated_pod(labelled, fresh)
    assert cluster.names("n2") == ["a"]


def test_an_update_sent_before_the_patch_keeps_the_nomination_in_memory() -> None:
    cluster = Cluster(A)
    cluster.nominator.add_nominated_pod(A, NominatingInfo("n1"))
    changed = make_pod("a", labels={"x": "1"})
    cluster.nominator.update_nominated_pod(A, changed)
    assert cluster.nominator.nominated_pods_for_node("n1") == (changed,)


def test_an_update_that_changes_the_status_is_followed() -> None:
    one, two, none = (make_pod("a", nominated=node) for node in ("n1", "n2", ""))
    cluster = Cluster(A)
    cluster.nominator.update_nominated_pod(none, one)
    assert cluster.names("n1") == ["a"]
    cluster.nominator.update_nominated_pod(one, two)
    assert cluster.names("n2") == ["a"]
    cluster.nominator.update_nominated_pod(two, none)
    assert cluster.nominator.nominated_nodes() == ()


def test_the_version_grows_with_every_change_and_with_no_other_call() -> None:
    cluster = Cluster(A)
    cluster.nominator.delete_nominated_pod_if_exists(A)
    assert cluster.nominator.version == 0
    cluster.nominator.add_nominated_pod(A, NominatingInfo("n1"))
    cluster.nominator.add_nominated_pod(A, NominatingInfo("n2"))
    assert cluster.nominator.version == 2


def test_every_node_whose_nominations_change_is_named() -> None:
    cluster = Cluster(A)
    named: list[str] = []
    cluster.nominator.subscribe_nodes(named.append)
    cluster.nominator.add_nominated_pod(A, NominatingInfo("n1"))
    cluster.nominator.update_nominated_pod(A, make_pod("a", 9))
    cluster.nominator.add_nominated_pod(A, NominatingInfo("n2"))
    cluster.nominator.delete_nominated_pod_if_exists(A)
    cluster.nominator.delete_nominated_pod_if_exists(A)
    assert named == ["n1", "n1", "n1", "n2", "n2"]


class TestInTheQueue:
    def test_a_listener_that_raises_harms_nobody(self) -> None:
        world = World()
        heard: list[str] = []

        def raising(pod: Pod, node: str) -> None:
            raise RuntimeError("deaf")

        world.queue.nominator.subscribe(raising)
        world.queue.nominator.subscribe(lambda pod, node: heard.append(node))
        world.add(make_pod("a", nominated="n1"))
        assert (world.place("a"), heard) == ("active", ["n1"])
        assert [problem[1:3] for problem in world.problems] == [("nomination listener", "a")]

    def nodes(self, world: World, *names: str) -> list[str]:
        return [world.queue.nominator.node_of(f"uid-{name}") for name in names]

    def test_pods_are_nominated_from_their_status_and_stay_so_when_popped(self) -> None:
        world = World()
        world.add(make_pod("a", nominated="n1"))
        world.update(None, make_pod("b", nominated="n2"))
        assert self.nodes(world, "a", "b") == ["n1", "n2"]
        world.pop_names()
        assert self.nodes(world, "a", "b") == ["n1", "n2"]

    def test_a_pod_is_nominated_from_its_status_when_its_gate_opens(self) -> None:
        world = World(SchedulingGatesDouble())
        gated = make_pod("a", gates=["x"], nominated="n1")
        world.add(gated)
        assert self.nodes(world, "a") == [""]
        world.update(gated, make_pod("a", nominated="n1"))
        assert self.nodes(world, "a") == ["n1"]

    def test_an_update_in_any_place_or_in_flight_is_followed(self) -> None:
        world = World()
        before, during, after = (make_pod("a", nominated=node) for node in ("", "n1", "n2"))
        world.add(before)
        world.update(before, during)
        assert self.nodes(world, "a") == ["n1"]
        world.pop()
        world.update(during, after)
        assert self.nodes(world, "a") == ["n2"]

    def test_deleting_the_pod_ends_its_nomination_and_no_other(self) -> None:
        world = World()
        pods = [make_pod("a", nominated="n1"), make_pod("b", nominated="n1")]
        world.add(*pods)
        world.delete(pods[0])
        assert self.nodes(world, "a", "b") == ["", "n1"]
