"""Nodes that are kept for gangs which small pods starve."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator

import pytest

from scheduler.testing import node, pod
from tests.unit.plugins.gang_scheduling.gang_cluster import GangCluster


class Stream:
    """Small pods of 1 CPU, one each second, of which each lives for `lifetime` seconds."""

    def __init__(self, cluster: GangCluster, *, lifetime: int, priority: int = 0) -> None:
        self._cluster = cluster
        self._lifetime = lifetime
        self._priority = priority
        self._number = 0
        self._running: deque[tuple[float, str]] = deque()
        self._waiting: dict[str, int] = {}
        self._now = 0
        #: Longest wait of a small pod until its node, in seconds.
        self.longest = 0

    def run(self, seconds: int, *, stop: str = "") -> int:
        """Let time pass; return after how many seconds a pod with the prefix `stop` is bound."""
        cluster = self._cluster
        for second in range(seconds):
            self._now += 1
            name = f"small-{self._number}"
            self._number += 1
            cluster.add(pod(name, cpu=1, priority=self._priority))
            self._waiting[name] = self._now
            cluster.tick(0.8)
            bound = {key.partition("/")[2] for key in cluster.bound()}
            for each in [name for name in self._waiting if name in bound]:
                self.longest = max(self.longest, self._now - self._waiting.pop(each))
                self._running.append((self._now + self._lifetime, each))
            while self._running and self._running[0][0] <= self._now:
                cluster.world.remove("Pod", self._running.popleft()[1], "default")
            if stop and any(each.startswith(stop) for each in bound):
                return second
        return seconds


@pytest.fixture
def cluster() -> Iterator[GangCluster]:
    with GangCluster(nodes=4, args={"reserveAfter": "5m"}) as found:
        yield found
        found.validate()


def reserved(cluster: GangCluster) -> dict[str, str]:
    """Return the nodes for which members are nominated."""
    nominator = cluster.world._assembly.scheduling.queue.nominator
    return {each.metadata.name: name for each, name in nominator.nominations()}


def add_busy_gang(cluster: GangCluster, stream: Stream) -> None:
    """Let small pods use about 10 of 16 CPU, and then add a gang that needs 12."""
    stream.run(20)
    cluster.add_group(6)
    cluster.add_members(6)


@pytest.mark.slow
def test_g36_a_gang_that_small_pods_starve_gets_a_reservation(cluster: GangCluster) -> None:
    stream = Stream(cluster, lifetime=10)
    add_busy_gang(cluster, stream)
    assert stream.run(290, stop="g-pod") == 290, "it starves"
    assert reserved(cluster) == {}
    waited = stream.run(60, stop="g-pod")
    assert waited < 45
    assert len(cluster.bound("g-pod")) == 6
    assert stream.longest < 15
    assert reserved(cluster) == {}, "the reservation has ended"
    notes = [each.note for each in cluster.events if each.reason == "GangReserved"]
    assert len(notes) == 1
    assert notes[0].startswith("room for 2 of its pods is kept on n")
    stream.run(30)


def test_g36_pods_that_run_stay_and_others_use_what_is_left(cluster: GangCluster) -> None:
    for number in range(4):
        cluster.add(pod(f"long-{number}", cpu=1, node=f"n{number}"))
    cluster.add_group(6)
    cluster.add_members(6)
    cluster.tick(340)
    plan = Counter(reserved(cluster).values())
    assert sorted(plan.values()) == [1, 1, 2, 2], "one fits on each, and two more lack 1 CPU each"
    cluster.add_pods(pod("small", cpu=1), count=4)
    left = {name for name, members in plan.items() if members == 1}
    assert set(cluster.bound("small").values()) == left
    assert len(cluster.bound("small")) == 2
    assert len(cluster.bound("long")) == 4


def test_room_that_pods_must_leave_is_kept_for_more_members_from_time_to_time(
    cluster: GangCluster,
) -> None:
    for number in range(4):
        cluster.add(pod(f"long-{number}", cpu=3, node=f"n{number}"))
    cluster.add_group(6)
    cluster.add_members(6)
    cluster.tick(301)
    kept = [len(reserved(cluster))]
    for _ in range(3):
        cluster.tick(30)
        kept.append(len(reserved(cluster)))
    assert kept == [1, 2, 4, 6]


def test_room_that_is_free_is_kept_from_the_beginning(cluster: GangCluster) -> None:
    cluster.add(pod("long-0", cpu=3, node="n0"))
    cluster.add(pod("long-1", cpu=3, node="n1"))
    cluster.add_group(8)
    cluster.add_members(8)
    cluster.tick(301)
    assert Counter(reserved(cluster).values()) == {"n2": 2, "n3": 2, "n0": 1}
    cluster.add(pod("small", cpu=1))
    assert cluster.bound("small") == {"default/small": "n1"}


def test_pods_of_higher_priority_ignore_a_reservation(cluster: GangCluster) -> None:
    for number in range(4):
        cluster.add(pod(f"long-{number}", cpu=2, node=f"n{number}"))
    cluster.add_group(6)
    cluster.add_members(6)
    cluster.tick(340)
    assert len(reserved(cluster)) == 6
    cluster.add_pods(pod("high", cpu=2, priority=5), count=4)
    assert len(cluster.bound("high")) == 4


def test_a_gang_that_an_empty_cluster_cannot_take_has_no_reservation(cluster: GangCluster) -> None:
    cluster.add_group(9, "large")
    cluster.add_members(9, "large")
    cluster.tick(10)
    cluster.add(pod("long", cpu=3, node="n0"))
    cluster.add_group(8)
    cluster.add_members(8)
    cluster.tick(400)
    assert {name[0] for name in reserved(cluster)} == {"g"}, "the next one has it"


def test_a_reservation_pauses_for_as_long_as_it_lasted(cluster: GangCluster) -> None:
    cluster.add(pod("long", cpu=2, node="n0"))
    cluster.add_group(8)
    cluster.add_members(8)
    cluster.tick(300 + 890)
    assert reserved(cluster)
    cluster.tick(60)
    assert not reserved(cluster)
    cluster.tick(800)
    assert not reserved(cluster)
    cluster.tick(100)
    assert reserved(cluster)


def test_what_was_kept_away_comes_back_when_the_reservation_ends(cluster: GangCluster) -> None:
    cluster.add(pod("long", cpu=2, node="n0"))
    cluster.add_group(8)
    cluster.add_members(8)
    cluster.tick(310)
    cluster.add(pod("small", cpu=1))
    assert not cluster.bound("small")
    for number in range(8):
        cluster.world.remove("Pod", f"g-pod-{number}", "default")
    cluster.tick(45)
    assert cluster.bound("small")


def test_a_pod_that_is_kept_away_is_told_for_whom(cluster: GangCluster) -> None:
    cluster.add(pod("long", cpu=2, node="n0"))
    cluster.add_group(8)
    cluster.add_members(8)
    cluster.tick(310)
    cluster.add(pod("small", cpu=1))
    cluster.tick(1)
    lines = cluster.plugin("GangScheduling").explain(cluster.world.pod("default/small"))
    (line,) = lines
    assert line == (
        "room for 8 pods is kept on n0, n1, n2, n3 for pod group default/g, until "
        "2026-01-01T00:20:00Z at the latest: pods of priority 0 or lower may use there only what "
        "that leaves"
    )
    view = cluster.plugin("GangScheduling").group_views("", 10)[0][0]
    assert view.stage == "Reserved"


def test_a_new_node_ends_the_wait_and_the_reservation(cluster: GangCluster) -> None:
    cluster.add(pod("long", cpu=2, node="n0"))
    cluster.add_group(8)
    cluster.add_members(8)
    cluster.tick(310)
    assert len(reserved(cluster)) == 8
    cluster.add_node(node("n4", cpu=4))
    cluster.tick(10)
    assert len(cluster.bound("g-pod")) == 8
    assert not reserved(cluster)


def test_nodes_are_kept_in_one_domain_that_the_gang_requires() -> None:
    with GangCluster(nodes=0) as cluster:
        for number, rack in enumerate("aabbcc"):
            cluster.add_node(node(f"n{number}", cpu=4, labels={"rack": rack}))
            used = 1 if rack == "b" else 2
            cluster.add(pod(f"long-{number}", cpu=used, node=f"n{number}"))
        cluster.add_group(4, annotations={"kubestow.io/topology-required": "rack"})
        cluster.add_members(4)
        cluster.tick(310)
        assert set(reserved(cluster).values()) == {"n2", "n3"}
        cluster.validate()


@pytest.mark.parametrize("name", ["reserveAfter", "reserveFor"])
def test_zero_means_that_nothing_is_ever_kept(name: str) -> None:
    with GangCluster(args={name: "0s"}) as cluster:
        cluster.add(pod("long", cpu=2, node="n0"))
        cluster.add_group(4)
        cluster.add_members(4)
        cluster.tick(1_000)
        assert not reserved(cluster)


def test_room_that_becomes_free_elsewhere_is_kept_at_once(cluster: GangCluster) -> None:
    for number, used in enumerate((1, 1, 2, 3)):
        cluster.add(pod(f"long-{number}", cpu=used, node=f"n{number}"))
    cluster.add(pod("ends", cpu=1, node="n3"))
    cluster.add_group(6)
    cluster.add_members(6)
    cluster.tick(370)
    before = Counter(reserved(cluster).values())
    assert before == {"n0": 2, "n1": 2, "n2": 2}
    cluster.world.remove("Pod", "long-3", "default")
    cluster.tick(0.1)
    after = Counter(reserved(cluster).values())
    assert after["n3"] == 1
    assert sum(after.values()) == 6


UNTIL = "2026-01-01T00:20:00Z"


def starve(cluster: GangCluster) -> None:
    """Let a gang get a reservation for all of the four nodes, of which it lacks a piece."""
    cluster.add(pod("long", cpu=2, node="n0"))
    cluster.add_group(8)
    cluster.add_members(8)
    cluster.tick(310)
    assert len(reserved(cluster)) == 8


def test_the_reason_of_a_pod_that_is_kept_away_names_the_group(cluster: GangCluster) -> None:
    starve(cluster)
    cluster.add(pod("small", cpu=1, spec={"nodeSelector": {"kubernetes.io/hostname": "n1"}}))
    note = f"room on 1 node is kept for pod group default/g until {UNTIL} at the latest"
    assert cluster.message("default/small").endswith(f" ({note})")
    events = [each.note for each in cluster.events if each.regarding == "default/small"]
    assert events[-1].endswith(f" ({note})")


def test_a_pod_that_would_not_fit_without_the_reservation_is_not_told_of_it(
    cluster: GangCluster,
) -> None:
    starve(cluster)
    cluster.add(pod("large", cpu=5))
    assert "is kept" not in cluster.message("default/large")
    cluster.add(pod("higher", cpu=1, priority=1))
    assert "default/higher" in cluster.bound("higher")


def test_the_reason_of_a_gang_that_is_kept_away_names_the_group(cluster: GangCluster) -> None:
    starve(cluster)
    cluster.add_group(3, "other")
    (key, *_) = cluster.add_members(3, "other")
    note = f"is kept for pod group default/g until {UNTIL} at the latest"
    assert cluster.message(key).count(note) == 1
    views = cluster.plugin("GangScheduling").group_views("", 10)[0]
    (text,) = (each.text for each in views if each.group == "default/other")
    assert text.count(note) == 1


def test_a_remedy_is_to_wait_for_the_end_of_a_reservation(cluster: GangCluster) -> None:
    starve(cluster)
    cluster.add(pod("small", cpu=1))
    cluster.tick(1)
    first, *_ = cluster.world.remedies("default/small").remedies
    assert first.codes == ("AwaitReservation",)
    assert first.text == (
        f"wait until room is no longer kept for pod group default/g, at {UNTIL} at the latest"
    )
    assert first.node in {"n0", "n1", "n2", "n3"}


def test_no_remedy_breaks_the_own_group_or_requests_nothing(cluster: GangCluster) -> None:
    cluster.add_group(8)
    cluster.add_members(8)
    assert len(cluster.bound("g-pod")) == 8
    (late,) = cluster.add_members(1)
    cluster.tick(1)
    texts = [each.text for each in cluster.world.remedies(late).remedies]
    assert texts
    assert not [each for each in texts if "evict" in each or "at most 0" in each]


def test_a_broken_gang_is_told_of_the_reservation_that_it_takes_over() -> None:
    with GangCluster(5) as cluster:
        cluster.add_group(8, "train")
        cluster.add_members(8, "train")
        cluster.tick(1)
        cluster.add_group(4, "second")
        cluster.add_members(4, "second")
        cluster.tick(70)
        places = Counter(cluster.bound("train").values())
        dead, lost = places.most_common(1)[0]
        cluster.world.drop_node(dead)
        cluster.add_members(lost, "train", name="train-again")
        cluster.tick(1)
        notes = [each.note for each in cluster.events if each.regarding == "default/train"]
        told = [each for each in notes if "is kept for pod group default/second until" in each]
        assert told
        assert len(cluster.bound("train")) == 8
        cluster.validate()
