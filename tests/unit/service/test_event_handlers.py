"""Changes of objects, and the events they become in cache and queue."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from plugins import in_tree
from scheduler.api import Node, Pod
from scheduler.client.deltas import Delta, DeltaType
from scheduler.client.resources import RESOURCES
from scheduler.engine import WaitingPod
from scheduler.framework import ActionType, NominatingInfo
from scheduler.queue import EventFeatures
from scheduler.service.event_handlers import EventHandlers
from scheduler.service.resources import ALWAYS
from tests.unit.engine.harness import PROFILE
from tests.unit.engine.preemption.harness import budget, cluster
from tests.unit.service.harness import Service

ADDED, MODIFIED, DELETED = DeltaType.ADDED, DeltaType.MODIFIED, DeltaType.DELETED


def pod(service: Service, name: str = "p", *, version: str = "1", **parts: Any) -> Pod:
    """A pod of the profile; `parts` are spec fields, but for `labels`, `deleted`, `profile`."""
    nominated = parts.pop("nominated", "")
    labels = parts.pop("labels", {})
    deleted = parts.pop("deleted", False)
    made = service.world.pod(name, nominated=nominated, **parts)
    made.metadata.resource_version = version
    made.metadata.labels = dict(labels)
    made.metadata.deletion_timestamp = "2026-01-01T00:00:00Z" if deleted else None
    return made


def node(name: str = "n1", cpu: str = "8", **metadata: Any) -> Node:
    raw = {
        "metadata": {"name": name, **metadata},
        "status": {"allocatable": {"cpu": cpu, "memory": "32Gi", "pods": "110"}},
    }
    return msgspec.convert(raw, Node)


def labels_of(service: Service) -> list[str]:
    """The events that were offered to the queue, in order."""
    return [move.label for move in service.moves]


# --------------------------------------------------------------------------------------------- pods

FOREIGN = {"schedulerName": "another-scheduler"}


@pytest.mark.parametrize(
    ("spec", "cached", "queued", "moves"),
    [
        ({"nodeName": "n1"}, True, False, ["AssignedPodAdd"]),
        ({"nodeName": "n1", **FOREIGN}, True, False, ["AssignedPodAdd"]),
        ({}, False, True, []),
        (FOREIGN, False, False, []),
        ({"deleted": True}, False, True, []),
    ],
    ids=["assigned", "assigned, not ours", "ours", "not ours", "ours, terminating"],
)
def test_a_new_pod(spec: dict[str, Any], cached: bool, queued: bool, moves: list[str]) -> None:
    service = Service()
    new = pod(service, **spec)
    service.handlers.pods([Delta(ADDED, new)])
    assert (service.cache.get_pod(new.uid) is new) == cached
    assert (new.uid in service.queue) == queued
    assert labels_of(service) == moves


@pytest.mark.parametrize(
    ("old", "new", "cached", "queued", "moves"),
    [
        ({}, {"nodeName": "n1"}, True, False, ["AssignedPodAdd"]),
        (FOREIGN, {"nodeName": "n1", **FOREIGN}, True, False, ["AssignedPodAdd"]),
        ({}, {"labels": {"a": "b"}}, False, True, []),
        (FOREIGN, {"labels": {"a": "b"}, **FOREIGN}, False, False, []),
        ({"nodeName": "n1"}, {"nodeName": "n1"}, True, False, ["AssignedPodUpdate"]),
        (
            {"nodeName": "n1"},
            {"nodeName": "n1", "labels": {"a": "b"}},
            True,
            False,
            ["AssignedPodUpdatePodLabel"],
        ),
        (
            {"nodeName": "n1", **FOREIGN},
            {"nodeName": "n1", **FOREIGN},
            True,
            False,
            ["AssignedPodUpdate"],
        ),
        (
            {"nominated": "n1"},
            {"nominated": "n2"},
            False,
            True,
            ["AssignedPodDelete"],
        ),
        ({"nominated": "n1"}, {}, False, True, ["AssignedPodDelete"]),
        ({}, {"nominated": "n1"}, False, True, []),
    ],
    ids=[
        "bound",
        "bound, not ours",
        "changed",
        "changed, not ours",
        "assigned, nothing special",
        "assigned, label",
        "assigned, not ours",
        "other nomination",
        "nomination lost",
        "first nomination",
    ],
)
def test_a_changed_pod(
    old: dict[str, Any], new: dict[str, Any], cached: bool, queued: bool, moves: list[str]
) -> None:
    service = Service()
    before, after = pod(service, **old), pod(service, version="2", **new)
    service.handlers.pods([Delta(ADDED, before)])
    service.moves.clear()
    service.handlers.pods([Delta(MODIFIED, after, before)])
    assert (service.cache.get_pod(after.uid) is after) == cached
    assert (after.uid in service.queue) == queued
    assert labels_of(service) == moves


@pytest.mark.parametrize(
    ("spec", "moves"),
    [
        ({"nodeName": "n1"}, ["AssignedPodDelete"]),
        ({"nodeName": "n1", **FOREIGN}, ["AssignedPodDelete"]),
        ({}, []),
        ({"nominated": "n1"}, ["AssignedPodDelete"]),
        (FOREIGN, []),
    ],
    ids=["assigned", "assigned, not ours", "pending", "nominated", "not ours"],
)
def test_a_deleted_pod(spec: dict[str, Any], moves: list[str]) -> None:
    service = Service()
    gone = pod(service, **spec)
    service.handlers.pods([Delta(ADDED, gone)])
    service.moves.clear()
    service.handlers.pods([Delta(DELETED, gone, gone)])
    assert service.cache.get_pod(gone.uid) is None
    assert gone.uid not in service.queue
    assert labels_of(service) == moves


def test_an_update_without_a_new_version_is_ignored() -> None:
    service = Service()
    old = pod(service)
    service.handlers.pods([Delta(ADDED, old)])
    again = pod(service, labels={"a": "b"})
    service.handlers.pods([Delta(MODIFIED, again, old)])
    info = service.queue.pop()
    assert info is not None
    assert info.pod is old


@pytest.mark.parametrize("change", ["nomination", "deletion"])
def test_only_pods_of_no_higher_priority_hear_of_a_nomination_that_ends(change: str) -> None:
    service = Service()
    nominated = pod(service, nominated="n1", priority=5)
    service.handlers.pods([Delta(ADDED, nominated)])
    if change == "nomination":
        cleared = pod(service, version="2", priority=5)
        service.handlers.pods([Delta(MODIFIED, cleared, nominated)])
    else:
        service.handlers.pods([Delta(DELETED, nominated, nominated)])
    (move,) = service.moves
    excluded = {
        priority: move.excludes(pod(service, f"p{priority}", priority=priority))
        for priority in (4, 5, 6)
    }
    assert excluded == {4: False, 5: False, 6: True}


def test_a_binding_seen_ends_the_nomination() -> None:
    service = Service()
    pending = pod(service)
    service.informer[pending.key] = pending
    service.handlers.pods([Delta(ADDED, pending)])
    service.queue.nominator.add_nominated_pod(pending, NominatingInfo("n1"))
    assert service.nominated_to("p") == "n1"
    service.handlers.pods([Delta(MODIFIED, pod(service, version="2", nodeName="n1"), pending)])
    assert service.nominated_to("p") == ""


# ------------------------------------------------------------------------------------- assumed pods


def assumed(service: Service) -> Pod:
    """A pod in its binding cycle: popped and assumed on n1."""
    pending = pod(service)
    service.handlers.pods([Delta(ADDED, pending)])
    assert service.queue.pop() is not None
    service.cache.assume_pod(pending, "n1")
    service.moves.clear()
    return pending


def test_updates_of_an_assumed_pod_do_not_reach_the_queue() -> None:
    service = Service()
    old = assumed(service)
    service.handlers.pods([Delta(MODIFIED, pod(service, version="2", labels={"a": "b"}), old)])
    assert old.uid not in service.queue
    assert service.cache.is_assumed(old.uid)
    assert service.moves == []


@pytest.mark.parametrize("how", ["terminating", "deleted"])
@pytest.mark.parametrize("waits", [True, False])
def test_an_assumed_pod_that_goes_away_frees_its_place(how: str, waits: bool) -> None:
    """At Permit it is rejected and its own cycle cleans up; otherwise it is forgotten at once."""
    service = Service()
    old = assumed(service)
    waiting = WaitingPod(old, {"P": 60.0}, service.clock)
    if waits:
        service.waiting_pods.add(waiting)
    terminating = pod(service, version="2", deleted=True)
    delta = Delta(MODIFIED, terminating, old) if how == "terminating" else Delta(DELETED, old, old)
    service.handlers.pods([delta])
    assert service.cache.is_assumed(old.uid) == waits
    assert (waiting.result is not None) == waits
    if waiting.result is not None:
        assert (waiting.result.plugin, waiting.result.reasons) == ("", ("removed",))
    (move,) = service.moves
    assert (move.label, move.old) == ("AssignedPodDelete", "p")
    # Once: a further update of a pod that is going away has no further effect.
    later = pod(service, version="3", deleted=True, labels={"a": "b"})
    if how == "terminating" and waits:
        service.handlers.pods([Delta(MODIFIED, later, terminating)])
        assert len(service.moves) == 1


def test_an_assumed_pod_is_confirmed_where_the_api_server_put_it() -> None:
    service = Service()
    old = assumed(service)
    elsewhere = pod(service, version="2", nodeName="n2")
    service.handlers.pods([Delta(MODIFIED, elsewhere, old)])
    assert not service.cache.is_assumed(old.uid)
    assert service.cache.get_pod(old.uid) is elsewhere
    assert service.cache.statistics().anomalies == {"confirmed_on_another_node": 1}


def test_a_name_that_came_back_is_another_pod() -> None:
    """The reflector shows it as a deletion and an addition in one batch."""
    service = Service()
    old = assumed(service)
    new = pod(service)
    new.metadata.uid = "another"
    service.handlers.pods([Delta(DELETED, old, old), Delta(ADDED, new)])
    assert service.cache.get_pod(old.uid) is None
    assert "another" in service.queue


# -------------------------------------------------------------------------------------------- nodes


def test_a_nodes_life() -> None:
    service = Service()
    first = node(labels={"zone": "a"})
    second = node(cpu="9", labels={"zone": "b"})
    service.handlers.nodes([Delta(ADDED, first)])
    assert labels_of(service) == ["NodeAdd"]
    service.handlers.nodes([Delta(MODIFIED, second, first)])
    assert labels_of(service)[1:] == ["NodeUpdateNodeAllocatable", "NodeUpdateNodeLabel"]
    row = service.cache.table.row_of("n1")
    assert row is not None
    assert service.cache.table.node_info(row).allocatable.milli_cpu == 9000
    service.handlers.nodes([Delta(MODIFIED, second, second)])
    assert len(service.moves) == 3, "an update that changes nothing is no event"
    service.handlers.nodes([Delta(DELETED, second, second)])
    assert labels_of(service)[3:] == ["NodeDelete"]
    assert service.cache.statistics().nodes == 0


def test_the_queue_gets_the_event_of_a_deleted_node_while_the_cache_still_has_it() -> None:
    service = Service()
    service.handlers.nodes([Delta(ADDED, node())])
    service.handlers.nodes([Delta(DELETED, node(), node())])
    assert service.moves[-1].label == "NodeDelete"
    assert service.moves[-1].nodes == 1
    assert service.cache.statistics().nodes == 0


def test_pods_of_a_deleted_node_stay_counted_until_they_go() -> None:
    service = Service()
    service.handlers.nodes([Delta(ADDED, node())])
    on_it = pod(service, nodeName="n1")
    service.handlers.pods([Delta(ADDED, on_it)])
    service.handlers.nodes([Delta(DELETED, node(), node())])
    assert service.cache.statistics().pods == 1
    service.handlers.nodes([Delta(ADDED, node())])
    row = service.cache.table.row_of("n1")
    assert row is not None
    assert [each.metadata.name for each in service.cache.table.node_info(row).pods] == ["p"]
    service.handlers.pods([Delta(DELETED, on_it, on_it)])
    service.cache.validate()


# ---------------------------------------------------------------------------------- other resources


@pytest.mark.parametrize(
    ("actions", "moves"),
    [
        (ActionType.NONE, []),
        (ActionType.ADD, ["storage.k8s.io/CSINodeAdd"]),
        (ActionType.UPDATE, ["storage.k8s.io/CSINodeUpdate"]),
        (ActionType.DELETE, ["storage.k8s.io/CSINodeDelete"]),
    ],
)
def test_another_resource_is_announced_as_far_as_it_was_registered(
    actions: ActionType, moves: list[str]
) -> None:
    service = Service()
    handlers = EventHandlers(
        service.cache,
        service.queue,
        service.waiting_pods,
        scheduler_names={"test"},
        registered={"storage.k8s.io/CSINode": actions},
        subscriptions=service.subscriptions,
        clock=service.clock,
        metrics=service.metrics,
        features=EventFeatures(),
    )
    handle = handlers.other("csinodes", "storage.k8s.io/CSINode")
    before = service.cache.table.version("csinodes")
    some: Any = node("csi")
    handle([Delta(ADDED, some), Delta(MODIFIED, some, some), Delta(DELETED, some, some)])
    assert labels_of(service) == moves
    assert service.cache.table.version("csinodes") == before + 3


READ_BY_FILTERS = {
    plural
    for each in in_tree()
    if hasattr(each, "filter")
    for plural in getattr(each, "required_resources", ())
}


@pytest.mark.parametrize("plural", sorted(RESOURCES.keys() - set(ALWAYS)))
def test_every_resource_has_a_version_and_what_filters_read_revises_the_table(plural: str) -> None:
    service = Service()
    table = service.cache.table
    version, revision = table.version(plural), table.revision
    some: Any = node("some")
    service.handlers.other(plural, "")([Delta(MODIFIED, some, some)])
    assert table.version(plural) == version + 1
    # Statuses of all others may change at any time, and what is remembered of nodes is dear.
    assert (table.revision != revision) == (plural in READ_BY_FILTERS)


def test_a_budget_that_the_first_preemptor_used_up_protects_from_the_second() -> None:
    service, c = Service(), cluster(3)
    handlers = EventHandlers(
        c.cache,
        service.queue,
        service.waiting_pods,
        scheduler_names={PROFILE},
        registered={},
        subscriptions=service.subscriptions,
        clock=service.clock,
        metrics=service.metrics,
        features=EventFeatures(),
    )
    web = {"app": "web"}
    placed = {name: c.place(f"web-{name}", name, "4", labels=web) for name in ("n1", "n2")}
    c.place("more important", "n3", "4", priority=50)
    c.budgets.append(budget(1, {"matchLabels": web}))
    first = c.decide(c.incoming(name="first"))
    assert (first.victims, first.pdb_violations) == ((placed[first.node_name],), 0)

    evicted = placed[first.node_name]
    handlers.pods([Delta(DELETED, evicted, evicted)])
    handlers.pods([Delta(ADDED, c.incoming(name="first", nodeName=first.node_name))])
    # A reflector's store has the new object before its handlers run.
    old, c.budgets[0] = c.budgets[0], budget(0, {"matchLabels": web})
    handlers.other("poddisruptionbudgets", "")([Delta(MODIFIED, c.budgets[0], old)])

    assert c.decide(c.incoming(name="second")).node_name == "n3"


def test_one_object_that_breaks_a_handler_costs_only_itself() -> None:
    service = Service(watched=("pods",))
    seen: list[Any] = []
    service.subscriptions.on_object("pods", lambda _, new: seen.append(new))
    broken: Any = Delta(ADDED, pod(service, "broken", nodeName="n1"))
    broken.object.interned = None
    fine = Delta(ADDED, pod(service, "fine", nodeName="n1"))
    service.handlers.pods([broken, fine])
    assert service.cache.get_pod("fine") is not None
    text = service.metrics.exposition()[0].decode()
    assert 'kubestow_handler_errors_total{resource="pods"} 1.0' in text
    assert seen == [fine.object]
