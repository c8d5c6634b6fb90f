"""`/debug/gang`, and what `kubestow explain` prints of it."""

from __future__ import annotations

import io
from itertools import count
from typing import Any

import pytest
from rich.console import Console

from plugins.gang_scheduling.plugin import GangScheduling
from scheduler.cli.group_explanation import show_group
from scheduler.explain.examining.group_examination import (
    MAX_DOMAINS,
    MAX_SECONDS,
    MAX_TEMPLATES,
)
from scheduler.explain.pages.group_explainer import EXAMPLES
from scheduler.explain.records import GroupDomain, GroupExplanation
from scheduler.testing import node, pod
from tests.unit.explain.pages.gang_pages_of import explainer_of, pages_of
from tests.unit.plugins.gang_scheduling.gang_cluster import RACK, GangCluster, racks


def explained(cluster: GangCluster, name: str = "g") -> GroupExplanation:
    (group,) = pages_of(cluster).gang({"name": f"default/{name}"}).groups
    return group


def printed(cluster: GangCluster, name: str = "g") -> list[str]:
    page = pages_of(cluster).gang({"name": f"default/{name}"})
    file = io.StringIO()
    for group in page.groups:
        show_group(group, page.now, Console(file=file, width=10_000, highlight=False))
    return [" ".join(line.split()) for line in file.getvalue().splitlines()]


def test_a_group_without_room_shows_terms_members_verdict_bounds_and_next_attempt() -> None:
    cluster = GangCluster()
    cluster.add_native_group(6, priority=7, disruptionMode="PodGroup")
    cluster.add_native_members(6)
    cluster.tick(3)
    found = explained(cluster)
    assert found.rules is not None
    assert (found.rules.priority, found.rules.disruption) == (7, "PodGroup")
    assert found.rules.resource == "scheduling.k8s.io/v1alpha2/podgroups"
    (members,) = found.members
    assert (members.state, members.count, len(members.examples)) == ("pending", 6, EXAMPLES)
    assert found.attempt is not None
    assert (found.attempt.scheduled, found.attempt.fit, found.attempt.failed) == (False, 4, 2)
    (template,) = found.templates
    assert (template.pods, template.nodes, template.room) == (6, 2, 4)
    cpu = template.resources[0]
    assert (cpu.resource, cpu.requested, cpu.free, cpu.room) == ("cpu", 2.0, 8.0, 4)
    assert found.next is not None
    assert found.next.text == "all nodes together have room for 6 of its pods; now for 4 at most"
    assert found.next.time is not None


def test_the_text_on_a_terminal() -> None:
    cluster = GangCluster()
    cluster.add_group(6, annotations={"kubestow.io/disruption": "x"})
    cluster.add_members(6)
    cluster.tick(3)
    lines = printed(cluster)
    text = (
        "needs 6 pods, 4 fit at most, 2 do not: short of cpu on 2 nodes; even an empty cluster "
        "takes 4 at most"
    )
    assert lines[:2] == [
        "pod group default/g Unschedulable, CRD, minimum 6",
        f"{text}.",
    ]
    assert lines[2].startswith("Members: 6 pending (g-pod-")
    assert lines[3:6] == [
        "By its scheduling.x-k8s.io/v1alpha1/podgroups, its members are evicted together.",
        'Ignored: annotation kubestow.io/disruption: "x" is neither PodGroup nor Pod.',
        "Last attempt: 3s ago, took 0 ms, failed.",
    ]
    assert lines[6].startswith(
        "Next attempt: when all nodes together have room for 6 of its pods; now for 4 at most; at "
        "the latest in "
    )
    assert lines[8:11] == [
        "Room on all nodes together",
        "PODS LIKE COUNT NODES ROOM RESOURCE REQUEST FREE ROOM BY IT",
        "g-pod-0 6 2 4 cpu 2 8 4",
    ]


def test_members_by_state_of_a_group_that_has_started() -> None:
    cluster = GangCluster()
    cluster.add_group(2)
    cluster.add_members(2)
    cluster.tick(1)
    cluster.add_members(4)
    gated = {"schedulingGates": [{"name": "example.com/wait"}]}
    cluster.add_members(1, name="gated", spec=gated)
    cluster.tick(1)
    found = explained(cluster)
    assert {each.state: each.count for each in found.members} == {
        "bound": 4,
        "pending": 2,
        "gated": 1,
    }
    assert found.need == 0
    assert "Members: 1 gated (gated-0); 2 pending (" in printed(cluster)[2]


def test_a_group_that_waits_for_members_says_so_and_shows_their_room() -> None:
    cluster = GangCluster()
    cluster.add_group(3)
    cluster.add_members(1)
    cluster.tick(2)
    found = explained(cluster)
    assert found.attempt is None
    assert found.next is not None
    assert found.next.text == "its members may be tried; now: 1 of 3 pods exist"
    assert found.next.time is None
    assert found.templates[0].room == 4


def test_a_group_that_runs_waits_for_nothing() -> None:
    cluster = GangCluster()
    cluster.add_group(2)
    cluster.add_members(2)
    cluster.tick(1)
    found = explained(cluster)
    assert found.next is None
    assert found.templates == ()
    assert found.attempt is not None
    assert found.attempt.scheduled
    assert printed(cluster)[-1] == "Last attempt: 1s ago, took 0 ms, placed 2 pods."


def test_the_best_domains_of_required_and_preferred_labels() -> None:
    cluster = racks(1, 2, 1)
    wanted = {"kubestow.io/topology-required": RACK, "kubestow.io/topology-preferred": "host"}
    cluster.add_group(5, annotations=wanted)
    cluster.add_members(5)
    cluster.tick(3)
    found = explained(cluster)
    required, preferred = found.topology
    assert (required.key, required.required, required.total) == (RACK, True, 3)
    assert required.best == (
        GroupDomain(f"{RACK}=r1", 2, 4, 0),
        GroupDomain(f"{RACK}=r0", 1, 2, 0),
        GroupDomain(f"{RACK}=r2", 1, 2, 0),
    )
    assert (preferred.key, preferred.required, preferred.total) == ("host", False, 0)
    assert found.next is not None
    assert found.next.text == (
        f"one domain of {RACK} has room for 5 of its pods; now for 4 at most"
    )
    lines = printed(cluster)
    assert "All members must be in one domain of example.com/rack." in lines
    assert "example.com/rack=r1 2 4 0" in lines
    assert lines[-1] == "no node has the label"


def test_many_members_templates_and_domains_are_bounded() -> None:
    cluster = racks(*[1] * 20)
    cluster.add_group(60, annotations={"kubestow.io/topology-required": RACK})
    for number in range(20):
        cluster.add_members(3, name=f"kind{number}", labels={"kind": str(number)})
    cluster.tick(3)
    found = explained(cluster)
    assert len(found.templates) == MAX_TEMPLATES
    assert found.more_templates == 20 - MAX_TEMPLATES
    assert len(found.topology[0].best) == MAX_DOMAINS
    assert found.topology[0].total == 20
    assert [len(each.examples) for each in found.members] == [EXAMPLES]
    lines = printed(cluster)
    assert f"and {20 - MAX_TEMPLATES} other templates" in lines
    assert f"and {20 - MAX_DOMAINS} other domains with less room" in lines


def test_few_templates_are_examined_if_they_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = GangCluster()
    cluster.add_group(4)
    for number in range(4):
        cluster.add_members(1, spec={"nodeSelector": {f"key-{number}": "x"}})
    cluster.tick(1)
    times = count(step=0.4 * MAX_SECONDS)
    monkeypatch.setattr(cluster.world._assembly.clock, "monotonic", lambda: next(times))
    found = explained(cluster)
    assert (len(found.templates), found.more_templates) == (3, 1)


def test_resources_of_which_nothing_is_requested_are_not_shown() -> None:
    nothing = {f"example.com/gpu-{number}": "0" for number in range(20)}
    requests = {"cpu": "2", **nothing, "example.com/npu": "1"}
    container = {"name": "main", "resources": {"requests": requests, "limits": requests}}
    cluster = GangCluster(nodes=0)
    cluster.add_node(node("n0", cpu=4, resources={"example.com/npu": 8}))
    cluster.add_group(4)
    cluster.add_members(4, spec={"containers": [container]})
    cluster.tick(1)
    (template,) = explained(cluster).templates
    shown = {each.resource: each.room for each in template.resources}
    assert shown == {"cpu": 2, "example.com/npu": 8, "pods": 110}


def test_a_plan_of_evictions_and_the_nodes_of_its_members() -> None:
    cluster = GangCluster()
    for number in range(2):
        cluster.add(
            pod(f"low-{number}", cpu=4, priority=0, node=f"n{number}", spec=GRACE),
        )
    cluster.add_group(3)
    cluster.add_members(3, priority=10)
    cluster.tick(1)
    found = explained(cluster)
    assert found.plan is not None
    assert found.plan.victims == 2
    assert set(found.plan.examples) == {"default/low-0", "default/low-1"}
    assert set(found.plan.nodes) == {"n0", "n1"}
    assert any(line.startswith("Preemption: 2 pods (default/low-") for line in printed(cluster))


GRACE: dict[str, Any] = {"terminationGracePeriodSeconds": 600}


def test_a_reservation() -> None:
    cluster = GangCluster()
    cluster.add(pod("long", cpu=2, node="n0"))
    cluster.add_group(4)
    cluster.add_members(4)
    cluster.tick(310)
    found = explained(cluster)
    assert found.view.stage == "Reserved"
    assert found.reservation is not None
    assert (found.reservation.members, found.reservation.nodes) == (4, 2)
    assert any(
        line.startswith("Reservation: room for 4 pods on 2 nodes (n") for line in printed(cluster)
    )


def test_groups_of_one_name_in_both_apis() -> None:
    cluster = GangCluster()
    cluster.add_group(3)
    cluster.add_native_group(4)
    cluster.tick(1)
    groups = pages_of(cluster).gang({"name": "default/g"}).groups
    assert {(each.view.source, each.view.minimum) for each in groups} == {("CRD", 3), ("Native", 4)}


@pytest.mark.parametrize("name", ["", "g", "/g", "default/"])
def test_a_malformed_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="name=NAMESPACE/NAME"):
        pages_of(GangCluster()).gang({"name": name})


def test_a_group_that_does_not_exist_is_an_error() -> None:
    cluster = GangCluster()
    with pytest.raises(LookupError, match='no pod group "default/g": it has neither a PodGroup'):
        pages_of(cluster).gang({"name": "default/g"})
    # One without an object exists as long as pods name it.
    cluster.add_members(1)
    cluster.tick(1)
    assert explained(cluster).rules is None


def test_of_a_pod_its_group_is_explained_and_of_others_none() -> None:
    cluster = GangCluster()
    cluster.add_group(5)
    first, *_ = cluster.add_members(5)
    cluster.add(pod("single", cpu=1))
    cluster.tick(1)
    explainer = explainer_of(cluster)
    found = explainer.of_pod(cluster.world.pod(first))
    assert found is not None
    assert found.view.group == "default/g"
    assert explainer.of_pod(cluster.world.pod("default/single")) is None


def test_an_explanation_changes_nothing() -> None:
    cluster = racks(2, 2)
    cluster.add_group(5, annotations={"kubestow.io/topology-required": RACK})
    cluster.add_members(5)
    cluster.tick(3)
    queue = cluster.world._assembly.scheduling.queue
    before = queue.statistics(), queue.views()
    first = explained(cluster)
    assert explained(cluster) == first
    assert (queue.statistics(), queue.views()) == before
    cluster.validate()


def test_the_plugin_says_of_its_own_group_nothing_twice() -> None:
    cluster = GangCluster()
    cluster.add_group(5)
    first, *_ = cluster.add_members(5)
    cluster.tick(1)
    plugin = cluster.plugin("GangScheduling")
    assert isinstance(plugin, GangScheduling)
    assert plugin.explain(cluster.world.pod(first)) == []
