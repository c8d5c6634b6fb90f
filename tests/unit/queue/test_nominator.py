"""Nominations, and the order of their writes and watch events."""

from __future__ import annotations

import pytest

from scheduler.api.pod import Pod
from scheduler.framework import CLEAR_NOMINATION, NominatingInfo
from scheduler.queue import QueueNominator
from tests.unit.queue.doubles import SchedulingGatesDouble, World, make_pod


class Cluster:
    """A nominator with the pods that the informer knows."""

    def __init__(self, *pods: Pod) -> None:
        self.known = {pod.key: pod for pod in pods}
        self.published: list[tuple[str, str]] = []
        #: UIDs of pods whose nomination is being written.
        self.under_way: set[str] = set()
        self.nominator = QueueNominator(
            lambda namespace, name: self.known.get(f"{namespace}/{name}"),
            under_way=self.under_way.__contains__,
        )
        self.nominator.subscribe(lambda pod, node: self.published.append((pod.metadata.name, node)))

    def names(self, node: str) -> list[str]:
        assert self.nominator.violations() == []
        return [pod.metadata.name for pod in self.nominator.nominated_pods_for_node(node)]

    def decide(self, pod: Pod, node: str) -> None:
        """The scheduler nominates a pod, or clears its nomination, and begins to write it."""
        self.nominator.add_nominated_pod(pod, NominatingInfo(node))
        self.nominator.writing(pod, node)
        self.under_way.add(pod.uid)

    def completed(self, pod: Pod, version: str) -> None:
        self.under_way.discard(pod.uid)
        self.nominator.written(pod.uid, version)

    def shows(self, old: Pod, new: Pod) -> None:
        """The watch brings an update."""
        self.known[new.key] = new
        self.nominator.update_nominated_pod(old, new)


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


def test_a_pod_that_is_deleted_bound_or_recreated_cannot_be_nominated() -> None:
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
    cluster.nominator.on_node.subscribe(named.append)
    cluster.nominator.add_nominated_pod(A, NominatingInfo("n1"))
    cluster.nominator.update_nominated_pod(A, make_pod("a", 9))
    cluster.nominator.add_nominated_pod(A, NominatingInfo("n2"))
    cluster.nominator.delete_nominated_pod_if_exists(A)
    cluster.nominator.delete_nominated_pod_if_exists(A)
    assert named == ["n1", "n1", "n1", "n2", "n2"]


def version(number: int, nominated: str = "", **labels: str) -> Pod:
    return make_pod("a", nominated=nominated, version=str(number), labels=labels)


class TestWrittenNomination:
    """Pod a at versions 8, 9, 10 ... (where the text is longer)."""

    @pytest.mark.parametrize("response", ["first", "between", "last", "never"])
    def test_does_not_come_back_after_it_was_replaced(self, response: str) -> None:
        before, one, none = version(8), version(9, "n1"), version(10)
        cluster = Cluster(before)
        cluster.decide(before, "n1")
        cluster.decide(before, "")
        if response == "first":
            cluster.completed(before, "10")
        cluster.shows(before, one)
        assert cluster.nominator.node_of("uid-a") == ""
        cluster.nominator.add_nominated_pod(one, None)
        assert cluster.nominator.node_of("uid-a") == ""
        if response == "between":
            cluster.completed(before, "10")
        cluster.shows(one, none)
        if response == "last":
            cluster.completed(before, "10")
        assert cluster.nominator.node_of("uid-a") == ""
        assert cluster.nominator.ahead(none) == (response == "never")

    def test_does_not_end_a_nomination_that_was_made_again(self) -> None:
        stated, none, again = version(8, "n1"), version(9), version(10, "n1")
        cluster = Cluster(stated)
        cluster.nominator.add_nominated_pod(stated, None)
        cluster.decide(stated, "")
        cluster.decide(stated, "n1")
        cluster.shows(stated, none)
        assert cluster.names("n1") == ["a"]
        cluster.completed(stated, "10")
        cluster.shows(none, again)
        assert cluster.names("n1") == ["a"]

    def test_may_have_been_applied_although_it_failed(self) -> None:
        before, one = version(8), version(9, "n1")
        cluster = Cluster(before)
        cluster.decide(before, "n1")
        cluster.completed(before, "9")
        cluster.decide(before, "")
        cluster.completed(before, "")
        cluster.shows(before, one)
        assert cluster.nominator.node_of("uid-a") == ""
        assert cluster.nominator.ahead(one)
        cluster.decide(one, "")
        cluster.completed(one, "10")
        assert not cluster.nominator.ahead(version(10))

    @pytest.mark.parametrize("response", ["9", ""])
    def test_gives_way_to_a_later_write_of_another_client(self, response: str) -> None:
        before, one, theirs, none = version(8), version(9, "n1"), version(10, "n2"), version(11)
        cluster = Cluster(before)
        cluster.decide(before, "n1")
        cluster.shows(before, one)
        cluster.shows(one, theirs)
        assert cluster.names("n2") == ["a"]
        cluster.completed(before, response)
        cluster.shows(theirs, none)
        assert cluster.nominator.nominated_nodes() == ()

    def test_does_not_hide_the_values_of_earlier_writes_once_those_were_shown(self) -> None:
        before, one, two = version(8), version(9, "n1"), version(10, "n2")
        cluster = Cluster(before)
        cluster.decide(before, "n1")
        cluster.completed(before, "9")
        cluster.shows(before, one)
        cluster.decide(one, "n2")
        cluster.shows(one, two)
        # Another client writes the first value again.
        cluster.shows(two, version(11, "n1"))
        assert cluster.names("n1") == ["a"]

    def test_counts_as_shown_when_the_watch_skips_its_version(self) -> None:
        """Another client cleared the nomination at once, and a relist shows only the end."""
        before = version(8)
        cluster = Cluster(before)
        cluster.decide(before, "n1")
        cluster.completed(before, "9")
        cluster.shows(before, version(11))
        assert cluster.nominator.nominated_nodes() == ()

    def test_leaves_memory_alone_when_something_else_changes(self) -> None:
        before, labelled = version(8), version(9, x="1")
        cluster = Cluster(before)
        cluster.decide(before, "n1")
        cluster.shows(before, labelled)
        cluster.completed(before, "10")
        cluster.shows(labelled, version(10, "n1", x="1"))
        cluster.shows(version(10, "n1", x="1"), version(11, "n1", x="2"))
        assert cluster.names("n1") == ["a"]

    def test_is_followed_like_any_other_value_once_it_was_shown(self) -> None:
        before, one = version(8), version(9, "n1")
        cluster = Cluster(before)
        cluster.decide(before, "n1")
        cluster.completed(before, "9")
        cluster.shows(before, one)
        cluster.shows(one, version(10))
        assert cluster.nominator.nominated_nodes() == ()
        cluster.shows(version(10), version(11, "n1"))
        assert cluster.names("n1") == ["a"]

    def test_outlives_the_assumption_and_ends_with_the_pod(self) -> None:
        before = version(8)
        cluster = Cluster(before)
        cluster.decide(before, "n1")
        cluster.completed(before, "9")
        cluster.nominator.delete_nominated_pod_if_exists(before)
        assert cluster.nominator.ahead(before)
        cluster.nominator.forget(before)
        assert not cluster.nominator.ahead(before)

    def test_is_not_kept_for_a_pod_that_is_deleted_bound_or_recreated(self) -> None:
        bound, old = make_pod("bound", version="1"), make_pod("again", uid="old", version="1")
        placed = make_pod("bound", version="2")
        placed.spec.node_name = "n9"
        cluster = Cluster(placed, make_pod("again", uid="new", version="2"))
        for pod in (A, bound, old):
            cluster.decide(pod, "n1")
            cluster.completed(pod, "3")
            assert not cluster.nominator.ahead(pod)


class TestInTheQueue:
    def test_deleting_the_pod_drops_its_writes(self) -> None:
        world = World()
        pod = make_pod("a", version="1")
        world.add(pod)
        world.queue.nominator.writing(pod, "n1")
        world.queue.nominator.written(pod.uid, "2")
        assert world.queue.nominator.ahead(pod)
        world.delete(pod)
        assert not world.queue.nominator.ahead(pod)

    def test_a_listener_that_raises_affects_no_nomination(self) -> None:
        world = World()
        notified: list[str] = []

        def raising(pod: Pod, node: str) -> None:
            raise RuntimeError("broken")

        world.queue.nominator.subscribe(raising)
        world.queue.nominator.subscribe(lambda pod, node: notified.append(node))
        world.add(make_pod("a", nominated="n1"))
        assert (world.place("a"), notified) == ("active", ["n1"])
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

    def test_a_gated_pod_is_nominated_from_its_status(self) -> None:
        world = World(SchedulingGatesDouble())
        gated = make_pod("a", gates=["x"], nominated="n1")
        world.add(gated)
        assert self.nodes(world, "a") == ["n1"]
        world.update(gated, make_pod("a", nominated="n1"))
        assert self.nodes(world, "a") == ["n1"]

    def test_an_update_in_any_state_is_followed(self) -> None:
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


def test_restored_nominations_have_their_order_on_each_node() -> None:
    c = make_pod("c")
    cluster = Cluster(A, B, c)
    for pod, name in ((A, "n1"), (B, "n1"), (c, "n2")):
        cluster.nominator.add_nominated_pod(pod, NominatingInfo(name))
    cluster.published.clear()
    cluster.nominator.restore([(c, "n2"), (B, "n1"), (A, "n1")])
    assert (cluster.names("n1"), cluster.names("n2")) == (["b", "a"], ["c"])
    cluster.nominator.restore([(c, "n1"), (A, "n1")])
    assert (cluster.names("n1"), cluster.names("n2")) == (["c", "a"], [])
    # What has its place is not touched.
    cluster.published.clear()
    cluster.nominator.restore([(c, "n1"), (A, "n1")])
    assert cluster.published == []
