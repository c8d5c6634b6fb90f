"""Gangs and deferred quota: quota that is enough for a part of a gang is not used for a part."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins import ResourceQuota
from plugins.resource_quota.deferral import MARK_ANNOTATION
from plugins.resource_quota.ledger import Ledger
from plugins.resource_quota.records import Together
from scheduler.api.quantity import NANO
from scheduler.testing import node, pod
from tests.unit.plugins.gang_scheduling.gang_cluster import GangCluster
from tests.unit.plugins.gang_scheduling.test_gang_messages import view
from tests.unit.plugins.gang_scheduling.test_statuses import conditions
from tests.unit.plugins.resource_quota.objects import pod as quota_pod
from tests.unit.plugins.resource_quota.objects import quota

GATED_ONCE = {MARK_ANNOTATION: "true"}
FAR = {"nodeSelector": {"zone": "far"}}
TWO_LIMITS = {
    "deferred.kubestow.io/requests.cpu-millis": "3000",
    "deferred.kubestow.io/requests.memory": str(3 * 1024**3),
}


@pytest.fixture
def cluster() -> Iterator[GangCluster]:
    with GangCluster(8) as found:
        yield found
        found.validate()


def waiting(cluster: GangCluster) -> list[str]:
    return [each.pod for each in cluster.world.waiting()]


def add_single(cluster: GangCluster, number: int) -> str:
    (key,) = cluster.add_pods(pod(f"single-{number}", cpu=2, annotations=GATED_ONCE))
    return key


def set_quota(
    cluster: GangCluster, cpus: int = 0, *, hard: Mapping[str, str] | None = None
) -> None:
    hard = hard or {"deferred.kubestow.io/requests.cpu-millis": str(cpus * 1000)}
    cluster.add(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "cpus", "namespace": "default"},
            "spec": {"hard": hard},
        }
    )


def test_g37_quota_for_a_part_binds_nobody_and_more_of_it_binds_all(cluster: GangCluster) -> None:
    set_quota(cluster, 6)
    cluster.add_group(4)
    cluster.add_members(4)
    cluster.tick(60)
    assert not cluster.bound()
    text = (
        "needs 4 pods; quota exceeded: cpus, requested: requests.cpu=8, used: requests.cpu=0, "
        "limited: requests.cpu=6 (exceeds the quota even when empty)"
    )
    assert (view(cluster).stage, view(cluster).text) == ("QuotaExceeded", text)
    found = {
        (condition.reason, condition.message)
        for key in waiting(cluster)
        for condition in cluster.world.pod(key).status.conditions
        if condition.type == "PodScheduled"
    }
    assert found == {("ResourceQuotaValidated", f"pod group default/g: {text}")}
    set_quota(cluster, 8)
    cluster.tick(60)
    assert len(cluster.bound()) == 4


def test_g37_of_two_gangs_that_race_for_the_last_quota_one_has_all(cluster: GangCluster) -> None:
    set_quota(cluster, 10)
    for name in "ab":
        cluster.add_group(4, name)
    for _ in range(4):
        for name in "ab":
            cluster.add_members(1, name)
    cluster.tick(60)
    assert sorted(len(cluster.bound(name)) for name in "ab") == [0, 4]
    first = "a" if cluster.bound("a") else "b"
    for key in list(cluster.bound(first)):
        cluster.world.remove("Pod", key.partition("/")[2], "default")
    cluster.tick(60)
    assert len(cluster.bound("b" if first == "a" else "a")) == 4


def test_g37_a_single_pod_gets_the_quota_that_is_too_little_for_a_gang(
    cluster: GangCluster,
) -> None:
    set_quota(cluster, 6)
    cluster.add_group(4)
    cluster.add_members(4)
    cluster.tick(5)
    (single,) = cluster.add_members(1, "", name="single", cpu=1)
    cluster.tick(60)
    assert single in cluster.bound()
    assert not cluster.bound("g-pod")


@pytest.mark.parametrize("cpus", [1, 6])
def test_g37_quota_that_is_too_little_is_asked_once(
    cluster: GangCluster, cycles: list[bool], cpus: int
) -> None:
    set_quota(cluster, cpus)
    for name in "ab":
        cluster.add_group(4, name)
        cluster.add_members(4, name)
    cluster.tick(60)
    assert cycles == [False, False], "no attempt without an event"
    # Events that give no quota.
    cluster.add_node(node("n9", cpu=4))
    cluster.add(pod("elsewhere", cpu=1, namespace="other"))
    cluster.tick(60)
    assert cycles == [False, False]
    assert len([each for each in cluster.events if each.reason == "FailedScheduling"]) <= 4


def test_g37_quota_that_single_pods_use_up_holds_the_gang_and_names_the_numbers(
    cluster: GangCluster, cycles: list[bool]
) -> None:
    set_quota(cluster, 10)
    cluster.add_pods(pod("single", cpu=2), 2)
    cluster.tick(1)
    cluster.add_native_group(4)
    cluster.add_native_members(4)
    cluster.tick(10)
    assert conditions(cluster)["kubestow.io/Satisfied"] == (
        "False",
        "QuotaExceeded",
        (
            "needs 4 pods; quota exceeded: cpus, requested: requests.cpu=8, used: requests.cpu=4, "
            "limited: requests.cpu=10"
        ),
    )
    cluster.world.remove("Pod", "single-0", "default")
    cluster.tick(10)
    assert len(cluster.bound("g-native")) == 4
    assert cycles == [False, True]


def test_of_a_gang_with_its_minimum_the_others_ask_for_themselves(cluster: GangCluster) -> None:
    set_quota(cluster, 10)
    cluster.add_group(4)
    cluster.add_members(6)
    cluster.tick(30)
    assert len(cluster.bound()) == 5
    assert view(cluster).stage == "MinimumBound"


def test_a_smaller_minimum_is_asked_for_at_once(cluster: GangCluster) -> None:
    set_quota(cluster, 6)
    cluster.add_group(4)
    cluster.add_members(4)
    cluster.tick(10)
    cluster.add_group(3)
    cluster.tick(10)
    assert len(cluster.bound()) == 3


def test_the_member_that_waits_for_the_others_may_be_deleted(cluster: GangCluster) -> None:
    set_quota(cluster, 6)
    cluster.add_group(4)
    cluster.add_members(5)
    cluster.tick(10)
    for key in sorted(waiting(cluster))[:1]:
        cluster.world.remove("Pod", key.partition("/")[2], "default")
    cluster.tick(10)
    set_quota(cluster, 8)
    cluster.tick(10)
    assert len(cluster.bound()) == 4


def test_quota_for_one_of_two_held_gangs_is_not_given_to_both(
    cluster: GangCluster, cycles: list[bool]
) -> None:
    set_quota(cluster, 4)
    for name in "ab":
        cluster.add_group(4, name)
        cluster.add_members(4, name)
    cluster.tick(10)
    set_quota(cluster, 9)
    cluster.tick(30)
    assert sorted(len(cluster.bound(name)) for name in "ab") == [0, 4]
    assert cycles.count(True) == 1
    set_quota(cluster, 16)
    cluster.tick(30)
    assert [len(cluster.bound(name)) for name in "ab"] == [4, 4]


def test_members_that_quota_holds_are_charged_nothing_and_again_when_it_lets_them_go(
    cluster: GangCluster,
) -> None:
    ledger = cluster.plugin("ResourceQuota").enforcement.ledger
    set_quota(cluster, 6)
    cluster.add_group(4)
    cluster.add_members(4)
    cluster.tick(10)
    (account,) = ledger.accounts()
    assert account.taken(0, pending=True) == 0
    # It waits for whatever pods without gates are charged.
    (gated,) = cluster.add_pods(pod("gated", cpu=2, annotations=GATED_ONCE))
    cluster.tick(5)
    assert gated in cluster.bound()
    set_quota(cluster, 10)
    cluster.tick(0.1)
    assert len(cluster.bound("g-pod")) == 4
    assert account.taken(0, pending=False) == 10 * NANO
    ledger.validate()


def test_quota_of_what_only_some_members_request_is_asked_for_all(
    cluster: GangCluster, cycles: list[bool]
) -> None:
    """A head without GPUs, as KubeRay makes it, is the first member."""
    gpu = "nvidia.com/gpu"
    cluster.add_node(node("gpus", cpu=8, resources={gpu: 8}))
    hard = {"deferred.kubestow.io/requests.nvidia.com_gpu": "3"}
    set_quota(cluster, 0, hard=hard)
    cluster.add_group(3)
    cluster.add_members(1, name="head", cpu=1, priority=1)
    cluster.add_members(2, name="worker", cpu=1, resources={gpu: 2})
    cluster.tick(60)
    assert cycles == [False]
    assert view(cluster).text == (
        "needs 3 pods; quota exceeded: cpus, requested: requests.nvidia.com/gpu=4, "
        "used: requests.nvidia.com/gpu=0, limited: requests.nvidia.com/gpu=3 "
        "(exceeds the quota even when empty)"
    )
    set_quota(cluster, 0, hard=dict.fromkeys(hard, "4"))
    cluster.tick(1)
    assert len(cluster.bound()) == 3


def test_a_gang_that_no_choice_of_its_members_would_complete_is_not_tried(
    cluster: GangCluster, cycles: list[bool]
) -> None:
    """Enough of each limit is there for two members, but not for the same two."""
    set_quota(cluster, 0, hard=TWO_LIMITS)
    cluster.add_group(2)
    cluster.add_members(2, name="memory", cpu=1, memory="3Gi")
    cluster.add_members(2, name="cpu", cpu=3, memory="1Gi")
    cluster.tick(60)
    assert cycles == [False]
    assert "requested: requests." in view(cluster).text
    assert not cluster.bound()
    set_quota(cluster, 0, hard={**TWO_LIMITS, "deferred.kubestow.io/requests.cpu-millis": "6000"})
    cluster.tick(1)
    assert sorted(cluster.bound()) == ["default/cpu-0", "default/cpu-1"]


@pytest.mark.parametrize("count", [2, 40])
def test_many_members_of_few_kinds_are_held_as_few_are(
    cluster: GangCluster, cycles: list[bool], count: int
) -> None:
    set_quota(cluster, 0, hard=TWO_LIMITS)
    cluster.add_group(2)
    cluster.add_members(count, name="memory", cpu=1, memory="3Gi")
    cluster.add_members(count, name="cpu", cpu=3, memory="1Gi")
    cluster.tick(200)
    assert cycles == [False]
    assert view(cluster).stage == "QuotaExceeded"
    assert not [each for each in cluster.events if each.reason == "GangReserved"]


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("help_with", ["quota", "node"])
def test_what_the_members_themselves_gave_back_wakes_nobody(
    cluster: GangCluster, cycles: list[bool], help_with: str, gated: bool
) -> None:
    """Quota suffices for the small ones, one of which has no node; the large one takes it all."""
    set_quota(cluster, 3)
    cluster.add_group(2)
    annotations = GATED_ONCE if gated else {}
    cluster.add_members(1, name="large", cpu=3, annotations=annotations)
    cluster.add_members(1, name="small", cpu=1, annotations=annotations)
    cluster.add_members(1, name="far", cpu=1, annotations=annotations, spec=FAR)
    cluster.tick(60)
    assert cycles == [False]
    # One that ends leaves no more quota than there was, but room on a node.
    cluster.add_pods(pod("single", cpu=1, annotations=GATED_ONCE))
    cluster.tick(20)
    cluster.world.remove("Pod", "single", "default")
    cluster.tick(60)
    assert cycles == [False, False]
    if help_with == "quota":
        set_quota(cluster, 4)
    else:
        cluster.add_node(node("far", cpu=1, labels={"zone": "far"}))
    cluster.tick(20)
    bound = {"quota": ["large-0", "small-0"], "node": ["far-0", "small-0"]}
    assert sorted(cluster.bound()) == [f"default/{name}" for name in bound[help_with]]
    assert cycles.count(True) == 1
    cluster.plugin("ResourceQuota").enforcement.ledger.validate()


def test_no_nodes_are_kept_for_a_gang_that_only_quota_holds(cluster: GangCluster) -> None:
    cluster.add_pods(pod("single", cpu=4), 8)
    cluster.tick(1)
    cluster.add_group(4)
    cluster.add_members(4)
    cluster.tick(100)
    assert view(cluster).stage == "Reserved"
    set_quota(cluster, 6)
    # Room for all of them, of which the quota allows three.
    for number in range(2):
        cluster.world.remove("Pod", f"single-{number}", "default")
    cluster.tick(100)
    assert view(cluster).stage == "QuotaExceeded"
    assert not list(cluster.world._assembly.scheduling.queue.nominator.nominations())


@pytest.mark.parametrize("plain", [1, 2, 3])
def test_members_without_gates_are_not_counted_twice(plain: int) -> None:
    ledger = Ledger()
    ledger.mark_synced()
    ledger.set_quota(quota(hard={"requests.cpu-millis": "4000"}))
    members = [quota_pod(f"p{number}", deferred=number >= plain) for number in range(4)]
    for each in members:
        ledger.observe(each)
    uids = [each.metadata.uid for each in members]
    assert ledger.violations_together(uids, 4) == (f"p{plain}", [])
    ledger.observe(quota_pod("other"))
    leader, violations = ledger.violations_together(uids, 4)
    (violation,) = violations
    assert (violation.requested, violation.used) == (4 * NANO, 1 * NANO)
    # The others are enough: they wait for nobody who has no node.
    assert ledger.violations_together(uids, plain) == ("p0", [])
    ledger.hold(leader, violations, 0.0, Together(tuple(uids), 4))
    ledger.validate()
    assert all(map(ledger.holds, uids))


@pytest.mark.parametrize("fairness", [False, True])
def test_quota_is_kept_for_the_whole_gang_that_small_pods_starve(fairness: bool) -> None:
    args = {"fairness": "HoldAfter", "holdAfter": "1m"} if fairness else {}
    with GangCluster(0) as cluster:
        cluster.enable(ResourceQuota, args)
        cluster.add_node(node("large", cpu=32))
        set_quota(cluster, 8)
        numbers = itertools.count()
        cluster.add_group(4)
        running = [add_single(cluster, next(numbers)) for _ in range(4)]
        cluster.tick(1)
        cluster.add_members(4, annotations=GATED_ONCE)
        for _ in range(30):
            # Another one comes before one ends: quota never suffices for four.
            running.append(add_single(cluster, next(numbers)))
            cluster.tick(5)
            cluster.world.remove("Pod", running.pop(0).partition("/")[2], "default")
            cluster.tick(5)
        assert len(cluster.bound("g-pod")) == (4 if fairness else 0)
        cluster.validate()
        cluster.plugin("ResourceQuota").enforcement.ledger.validate()


AMOUNTS = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=5)


@given(amounts=AMOUNTS, hard=st.tuples(st.integers(0, 8), st.integers(0, 8)), data=st.data())
def test_a_gang_is_refused_only_if_no_choice_of_its_members_fits(
    amounts: list[tuple[int, int]], hard: tuple[int, int], data: st.DataObject
) -> None:
    need = data.draw(st.integers(1, len(amounts)))
    ledger = Ledger()
    ledger.mark_synced()
    limits = {"requests.cpu-millis": str(hard[0] * 1000), "requests.memory": str(hard[1])}
    ledger.set_quota(quota(hard=limits))
    pods = [
        quota_pod(f"p{number}", requests={"cpu": str(cpu), "memory": str(memory)})
        for number, (cpu, memory) in enumerate(amounts)
    ]
    for each in pods:
        ledger.observe(each)
    _, refused = ledger.violations_together([each.metadata.uid for each in pods], need)
    fits = any(
        all(sum(each) <= limit for each, limit in zip(zip(*chosen, strict=True), hard, strict=True))
        for chosen in itertools.combinations(amounts, need)
    )
    assert fits is not bool(refused)
    for violation in refused:
        assert violation.requested > violation.account.limits[violation.index].hard - violation.used
    ledger.validate()
