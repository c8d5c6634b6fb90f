"""kubestow beside Karpenter 1.14: pods wait strictly while a machine is on its way, and no longer.

A pod that belongs into zone b, which is full, is what every test begins with.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, Final

import pytest

from devtools.control_plane.control_plane import ManagedProcess
from tests.envtest.workload import Workload, until
from tests.thirdparty.cluster import Cluster
from tests.thirdparty.conftest import ClusterFactory
from tests.thirdparty.karpenter import (
    NEVER_SECONDS,
    ZONES,
    Fleet,
    Karpenter,
    install,
    start_karpenter,
)
from tests.thirdparty.spread import SLACK_SECONDS, SpreadStory

pytestmark = pytest.mark.thirdparty("karpenter")

Json = dict[str, Any]

NOMINATED: Final = ("True", "Nominated")
CPU_KEY: Final = "deferred.kubestow.io/requests.cpu-millis"
REJECTED: Final = ("False", "KarpenterFailedScheduling")
NEEDED: Final = 4
"""Machines for the eight pods of a burst, two on each."""


@pytest.fixture(scope="module")
def cluster(make_cluster: ClusterFactory) -> Cluster:
    """A cluster that knows Karpenter's resources."""
    made = make_cluster(components=["node-provisioning-bridge"])
    install(made)
    return made


Start = Callable[..., Karpenter]


@pytest.fixture
def start(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Start]:
    """Starts kubestow, with settings of the bridge, and a Karpenter without a cache of events."""
    started: list[ManagedProcess] = []

    def start(**bridge: str) -> Karpenter:
        name = request.node.name
        config = {"kubestow": {"nodeProvisioningBridge": bridge}}
        started.append(cluster.start_kubestow(config, name=f"{name}-kubestow"))
        karpenter = start_karpenter(cluster, f"{name}-karpenter")
        started.append(karpenter.process)
        return karpenter

    yield start
    for process in started:
        process.stop()


def test_a_constraint_stays_hard_until_the_machine_comes(cluster: Cluster, start: Start) -> None:
    """One machine, and one promise that is kept."""
    start()
    with Fleet(cluster, "comes") as fleet, SpreadStory(cluster, "comes") as story:
        fleet.pool("pool", zones=["zone-b"], delay=5)
        story.first()
        story.replica("next")
        story.until_provisioning("next", NOMINATED)
        story.report("promised")
        assert story.until_placed("next") == "zone-b"
        story.report("bound")
        assert story.provisioning_history("next") == [NOMINATED]
        assert len(fleet.machines()) == len(fleet.claims()) == 1


def test_a_pool_at_its_limit_makes_the_constraint_soft(cluster: Cluster, start: Start) -> None:
    start()
    with Fleet(cluster, "limit") as fleet, SpreadStory(cluster, "limit") as story:
        fleet.pool("pool", zones=["zone-b"], limit=0)
        story.first()
        story.replica("next")
        story.until_provisioning("next", REJECTED)
        story.report("rejected")
        assert story.until_placed("next") == "zone-a"
        story.report("bound")
        assert story.provisioning_history("next") == [REJECTED]
        assert not fleet.claims()


def test_pools_that_are_not_ready(cluster: Cluster, start: Start) -> None:
    """Karpenter reports nothing without a ready pool, and a failure with one for other pods."""
    karpenter = start()
    with Fleet(cluster, "unready") as fleet, SpreadStory(cluster, "unready") as story:
        fleet.break_class(fleet.pool("pool", zones=["zone-b"]))
        story.first()
        story.replica("next")
        log = karpenter.process.log
        until(lambda: "no dynamic nodepools found" in log.read_text(), "Karpenter saw the pod")
        story.report("seen")
        assert story.provisioning("next") == ("", "")
        with Fleet(cluster, "others") as others:
            others.pool("pool")
            assert story.until_placed("next") == "zone-a"
            story.report("bound")
        assert story.provisioning_history("next") == [REJECTED]


@pytest.mark.slow
def test_another_pool_takes_over_without_an_event(cluster: Cluster, start: Start) -> None:
    """With the defaults. The machine comes when the first promise is older than a minute.

    Karpenter nominates a pod once in two minutes, so the second claim has no event of its own.
    """
    start()
    with Fleet(cluster, "takeover") as fleet, SpreadStory(cluster, "takeover") as story:
        spot = fleet.pool("spot", zones=["zone-b"], weight=10)
        fleet.pool("dear", zones=["zone-b"], delay=75)
        fleet.sell_out(spot)
        story.first()
        story.replica("next")
        until(lambda: fleet.events("InsufficientCapacityError"), "the first pool is sold out")
        fleet.limit(spot, 0)
        story.report("sold out")
        until(lambda: any(map(launched, fleet.claims().values())), "the other pool has a claim")
        story.report("launched in the other pool")
        assert story.until_placed("next", patience=240) == "zone-b"
        story.report("bound")
        assert story.provisioning_history("next") == [NOMINATED]
        (event,) = fleet.events("Nominated")
        assert event.get("count", 1) == 1
        assert len(fleet.machines()) == 1


def test_no_capacity_and_no_other_pool(cluster: Cluster, start: Start) -> None:
    """A real provider excludes sold-out offers, so that Karpenter rejects the pod at once."""
    start()
    with Fleet(cluster, "soldout") as fleet, SpreadStory(cluster, "soldout") as story:
        spot = fleet.pool("spot", zones=["zone-b"])
        fleet.sell_out(spot)
        story.first()
        story.replica("next")
        until(lambda: fleet.events("InsufficientCapacityError"), "the pool is sold out")
        story.report("sold out")
        fleet.limit(spot, 0)
        assert story.until_placed("next") == "zone-a"
        story.report("bound")
        assert story.provisioning_history("next")[-1] == REJECTED


def test_capacity_returns(cluster: Cluster, start: Start) -> None:
    """A pod that was rejected and fits nowhere; then machines may be bought again.

    While one is on its way, room appears in the zone that the pod does not belong into.
    """
    start()
    with (
        Fleet(cluster, "returns") as fleet,
        SpreadStory(cluster, "returns", room=2) as story,
    ):
        pool = fleet.pool("pool", zones=["zone-b"], limit=0, delay=25)
        story.first()
        story.replica("next")
        story.until_provisioning("next", REJECTED)
        story.report("rejected")
        fleet.limit(pool, 100)
        story.until_provisioning("next", NOMINATED)
        story.report("promised")
        story.zone_node("more-a", "zone-a", 8)
        assert story.until_placed("next") == "zone-b"
        story.report("bound")
        assert story.provisioning_history("next") == [REJECTED, NOMINATED]
        assert len(fleet.machines()) == 1


@pytest.mark.slow
def test_a_machine_that_never_comes(cluster: Cluster, start: Start) -> None:
    """The deadline counts from the first promise, though Karpenter repeats it every two minutes."""
    deadline = 150.0
    start(provisioningDeadline=f"{deadline:.0f}s")
    with Fleet(cluster, "never") as fleet, SpreadStory(cluster, "never") as story:
        fleet.pool("pool", zones=["zone-b"], delay=NEVER_SECONDS)
        story.first()
        story.replica("next")
        story.until_provisioning("next", NOMINATED)
        story.report("promised")
        assert story.until_placed("next", patience=deadline + 2 * SLACK_SECONDS) == "zone-a"
        story.report("bound")
        assert story.provisioning_history("next") == [NOMINATED, ("False", "ProvisioningTimedOut")]
        (event,) = fleet.events("Nominated")
        assert event["count"] == 2, "it was repeated"
        waited = (bound_at(story, "next") - moment(event["firstTimestamp"])).total_seconds()
        assert deadline - 1 <= waited <= deadline + SLACK_SECONDS
        assert len(fleet.claims()) == 1
        assert not fleet.machines()


@pytest.mark.slow
def test_machines_are_replaced_by_smaller_ones(cluster: Cluster, start: Start) -> None:
    """Six pods on three machines, one per zone; when three go, smaller machines do.

    Karpenter evicts each pod after its new machine is there. Each finds it, in its own zone.
    """
    karpenter = start()
    with Fleet(cluster, "shrink") as fleet, SpreadStory(cluster, "shrink", room=0) as story:
        fleet.pool("pool", machines=["small", "large"], consolidate="5s")
        story.deployment("web", 6, "3")
        spread = {"zone-a": 2, "zone-b": 2, "zone-c": 2}
        until(lambda: story.in_zones() == spread, "two pods in each zone")
        story.report(f"bound on {len(fleet.machines())} machines")
        before = set(fleet.claims())
        story.thin_out("web")
        until(
            lambda: sizes(fleet) == ["small"] * 3 and not before & set(fleet.claims()),
            "three small machines",
            patience=300,
        )
        until(lambda: story.in_zones() == dict.fromkeys(ZONES, 1), "one pod in each zone")
        story.report("on three small machines")
        assert not story.softened()
        assert karpenter.bought(fleet) == len(before) + 3


def test_a_burst_of_pods_that_a_quota_lets_in_one_after_the_other(
    cluster: Cluster, start: Start
) -> None:
    """Quota for 8 of 40 pods, two of which fit a machine: 4 machines, as without the other 32.

    When the machines are there, pods that the quota held may take the places of those that they
    were bought for. From then on these need none: bound pods and those that Karpenter buys for are
    never more than eight together, at any time.
    """
    karpenter = start()
    cluster.namespace("burst")
    quota = {"metadata": {"name": "team"}, "spec": {"hard": {CPU_KEY: "24k"}}}
    cluster.create("/api/v1/namespaces/burst/resourcequotas", quota)
    with Fleet(cluster, "burst") as fleet, Workload(cluster.plane, "burst") as work:
        fleet.pool("pool", delay=3)
        work.follow()
        names = [f"pod-{number:02}" for number in range(40)]
        for name in names:
            work.pod(name, cpu="3", gates=["test/wait"], nodeSelector={"story": "burst"})
        started = time.monotonic()
        for name in names:
            work.open_gates(name)
        for wave in (1, 2, 3):
            until(lambda: running(work) == 8, "the quota is full")
            print(
                f"burst: {time.monotonic() - started:6.1f} s  wave {wave} bound, "
                f"{len(fleet.machines())} machines"
            )
            until(lambda: used(work, "team") == {CPU_KEY: "24k"}, "used as it is")
            finish(cluster, work)
        assert most(work, occupies) == 8
        assert most(work, is_promised) == 8
        assert karpenter.bought(fleet) == NEEDED
        assert set(work.bindings().values()) == {1}


def test_a_burst_that_kube_scheduler_handles(cluster: Cluster) -> None:
    """The control of the burst above: the eight pods alone, without quota and kubestow."""
    control = "control"
    processes = [cluster.plane.start_scheduler({"profiles": [{"schedulerName": control}]})]
    karpenter = start_karpenter(cluster, "control-karpenter")
    processes.append(karpenter.process)
    cluster.namespace(control)
    try:
        with Fleet(cluster, control) as fleet, Workload(cluster.plane, control, control) as work:
            fleet.pool("pool", delay=3)
            work.follow()
            for number in range(8):
                work.pod(f"pod-{number}", cpu="3", nodeSelector={"story": control})
            until(lambda: running(work) == 8, "all are bound")
            assert most(work, is_promised) == 8
            assert karpenter.bought(fleet) == NEEDED
    finally:
        for process in processes:
            process.stop()


def launched(claim: Json) -> bool:
    """Whether a claim has a machine."""
    return bool(claim.get("status", {}).get("providerID"))


def bound_at(story: SpreadStory, name: str) -> datetime:
    """Return the time of a pod's binding, to the second."""
    return moment(story.condition(name)["lastTransitionTime"])


def moment(text: str) -> datetime:
    """Read a time of the API."""
    return datetime.fromisoformat(text)


def sizes(fleet: Fleet) -> list[str]:
    """Return the types of the machines."""
    label = "node.kubernetes.io/instance-type"
    return sorted(node["metadata"]["labels"][label] for node in fleet.machines().values())


def running(work: Workload) -> int:
    """Count the pods that are bound and not finished."""
    return sum(map(occupies, work.pods().values()))


def most(work: Workload, counts: Callable[[Json], bool]) -> int:
    """Return the largest number of pods for which this was true at the same time."""
    now: set[str] = set()
    most = 0
    for event in work.history():
        uid = event["object"]["metadata"]["uid"]
        (now.add if event["type"] != "DELETED" and counts(event["object"]) else now.discard)(uid)
        most = max(most, len(now))
    return most


def occupies(pod: Json) -> bool:
    """Whether a pod is bound and not finished."""
    return bool(pod["spec"].get("nodeName")) and pod["status"]["phase"] != "Succeeded"


def is_promised(pod: Json) -> bool:
    """Whether a pod is bound and not finished, or Karpenter may buy a machine for it."""
    return occupies(pod) or any(
        (each["type"], each.get("reason")) == ("PodScheduled", "Unschedulable")
        for each in pod["status"].get("conditions", ())
        if not pod["spec"].get("nodeName")
    )


def used(work: Workload, quota: str) -> Json:
    """Return `status.used` of a quota."""
    path = f"/api/v1/namespaces/{work.namespace}/resourcequotas/{quota}"
    found: Json = work.control_plane.admin.request("GET", path)
    return dict(found.get("status", {}).get("used", {}))


def finish(cluster: Cluster, work: Workload) -> None:
    """Let every pod that is bound end."""
    for name, pod in work.pods().items():
        if occupies(pod):
            cluster.finish(work.namespace, name)
