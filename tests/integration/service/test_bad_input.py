"""Objects that no API server should admit: each is reported by name and disturbs no other.

The tests store them without validation, as an older API server, a webhook that was removed or a
hand-written etcd entry would leave them behind.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

import pytest

from devtools.embedded_service import (
    bound_to,
    condition,
    delete,
    event_notes,
    node,
    pod,
    sample,
    scheduling,
    settled,
    until,
)
from scheduler.framework import Code, Handle, Status
from simulator import EmbeddedCluster
from simulator.objects import JsonObject, priority_class
from tests.integration.requeueing.rows import claim, storage_class, volume

HOST: Final = "kubernetes.io/hostname"
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
GOOD: Final[JsonObject] = {"matchLabels": {"app": "x"}}
BAD: Final[JsonObject] = {"matchExpressions": [{"key": "app", "operator": "Like", "values": ["x"]}]}
BAD_KEY: Final[JsonObject] = {"matchLabels": {"no key": "x"}}
NOT_AN_OPERATOR: Final = 'matchExpressions[0].operator: Invalid value: "Like"'


def smuggle(cluster: EmbeddedCluster, obj: JsonObject) -> None:
    """Store an object without validation."""
    resource = cluster.resources.of_kind(obj["apiVersion"], obj["kind"])
    metadata = obj["metadata"]
    if resource.namespaced:
        metadata.setdefault("namespace", "default")
    metadata.setdefault("uid", f"uid-{metadata['name']}")
    metadata.setdefault("creationTimestamp", "2026-01-01T00:00:00Z")
    namespace = metadata.get("namespace", "")
    cluster.store.create(resource.table, namespace, metadata["name"], obj)


def spread(selector: JsonObject, action: str = "DoNotSchedule") -> JsonObject:
    constraint = {"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": action}
    fine = {**constraint, "labelSelector": GOOD}
    return {"topologySpreadConstraints": [fine, {**constraint, "labelSelector": selector}]}


def affinity(kind: str, *, preferred: bool = False, **selectors: JsonObject) -> JsonObject:
    term: JsonObject = {"topologyKey": HOST, **selectors}
    if preferred:
        return {"affinity": {kind: {PREFERRED: [{"weight": 1, "podAffinityTerm": term}]}}}
    return {"affinity": {kind: {REQUIRED: [term]}}}


def node_affinity(operator: str, value: str, *, preferred: bool = False) -> JsonObject:
    term = {"matchExpressions": [{"key": "size", "operator": operator, "values": [value]}]}
    if preferred:
        return {"affinity": {"nodeAffinity": {PREFERRED: [{"weight": 1, "preference": term}]}}}
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}}


ERROR, UNSCHEDULABLE = "SchedulerError", "Unschedulable"

REJECTED: Final[list[tuple[str, JsonObject, str, str]]] = [
    ("spread", spread(BAD), ERROR, f"[1].labelSelector.{NOT_AN_OPERATOR}"),
    ("spread, key", spread(BAD_KEY), ERROR, "[1].labelSelector.matchLabels[no key].key"),
    ("soft", spread(BAD, "ScheduleAnyway"), ERROR, f"[1].labelSelector.{NOT_AN_OPERATOR}"),
    (
        "affinity",
        affinity("podAffinity", labelSelector=BAD),
        UNSCHEDULABLE,
        f"requiredAffinityTerms: [0].labelSelector.{NOT_AN_OPERATOR}",
    ),
    (
        "anti-affinity",
        affinity("podAntiAffinity", labelSelector=BAD),
        UNSCHEDULABLE,
        f"requiredAntiAffinityTerms: [0].labelSelector.{NOT_AN_OPERATOR}",
    ),
    (
        "namespaces",
        affinity("podAffinity", labelSelector=GOOD, namespaceSelector=BAD),
        UNSCHEDULABLE,
        f"requiredAffinityTerms: [0].namespaceSelector.{NOT_AN_OPERATOR}",
    ),
    (
        "preferred affinity",
        affinity("podAffinity", preferred=True, labelSelector=BAD),
        UNSCHEDULABLE,
        f"preferredAffinityTerms: [0].podAffinityTerm.labelSelector.{NOT_AN_OPERATOR}",
    ),
    (
        "Gt on text",
        node_affinity("Gt", "large"),
        UNSCHEDULABLE,
        'nodeSelectorTerms[0].matchExpressions[0].values[0]: Invalid value: "large"',
    ),
    (
        "node operator",
        node_affinity("Like", "1"),
        UNSCHEDULABLE,
        'nodeSelectorTerms[0].matchExpressions[0].operator: Invalid value: "Like"',
    ),
    (
        "preferred Gt on text",
        node_affinity("Gt", "large", preferred=True),
        ERROR,
        '[0].matchExpressions[0].values[0]: Invalid value: "large"',
    ),
]


@pytest.mark.parametrize(
    ("what", "spec", "reason", "text"), REJECTED, ids=[each[0] for each in REJECTED]
)
async def test_a_field_that_cannot_be_parsed_is_named_and_the_pod_is_retried(
    cluster: EmbeddedCluster, what: str, spec: JsonObject, reason: str, text: str
) -> None:
    for name in ("n1", "n2"):
        cluster.create(node(name, labels={HOST: name}))
    async with scheduling(cluster, podMaxBackoffSeconds=1) as scheduler:
        bad = pod("bad")
        bad["spec"].update(spec)
        smuggle(cluster, bad)
        cluster.create(pod("good"))
        await until(lambda: condition(cluster, "bad"), "a condition")
        assert condition(cluster, "bad")["reason"] == reason
        assert text in condition(cluster, "bad")["message"]
        await until(lambda: bound_to(cluster, "good"), "the other pod bound")
        if reason == ERROR:
            await until(lambda: _attempts(scheduler, "bad") > 1, "retried after backoff")
        else:
            view = scheduler.scheduling.queue.view("default", "bad")
            assert view is not None
            assert view.unschedulable_plugins
        await settled(scheduler)
        assert not sample(scheduler, "kubestow_handler_errors_total")


def _attempts(scheduler: Any, name: str) -> int:
    view = scheduler.scheduling.queue.view("default", name)
    return 0 if view is None else int(view.attempts)


SERVED: Final[list[tuple[str, JsonObject]]] = [
    ("unknown whenUnsatisfiable", spread(GOOD, "Sometimes")),
    ("negative priority", {"priority": -(1 << 31)}),
    ("priority beyond int32", {"priority": 1 << 40}),
    ("negative request", {"containers": [{"name": "c", "resources": {"requests": {"cpu": "-1"}}}]}),
    ("no containers", {"containers": None}),
]


@pytest.mark.parametrize(("what", "spec"), SERVED, ids=[each[0] for each in SERVED])
async def test_odd_but_meaningful_values_are_scheduled_as_upstream_does(
    cluster: EmbeddedCluster, what: str, spec: JsonObject
) -> None:
    cluster.create(node("n1", cpu="2", labels={HOST: "n1"}))
    async with scheduling(cluster) as scheduler:
        odd = pod("odd")
        odd["spec"].update(spec)
        smuggle(cluster, odd)
        await until(lambda: bound_to(cluster, "odd") == "n1", "bound")
        cluster.create(pod("good"))
        await until(lambda: bound_to(cluster, "good") == "n1", "the other pod bound")
        await settled(scheduler)


UNREADABLE: Final[list[tuple[str, JsonObject, str]]] = [
    ("request", {"resources": {"requests": {"cpu": "1x"}}}, "resources.requests[cpu]"),
    ("blank", {"resources": {"requests": {"memory": " 1"}}}, "resources.requests[memory]"),
]


@pytest.mark.parametrize(
    ("what", "container", "field"), UNREADABLE, ids=[each[0] for each in UNREADABLE]
)
async def test_an_undecodable_pod_is_skipped_and_named_until_it_is_repaired(
    cluster: EmbeddedCluster,
    capsys: pytest.CaptureFixture[str],
    what: str,
    container: JsonObject,
    field: str,
) -> None:
    cluster.create(node("n1"))
    async with scheduling(cluster) as scheduler:
        bad = pod("bad")
        bad["spec"]["containers"] = [{"name": "c", **container}]
        smuggle(cluster, bad)
        name = "kubestow_malformed_objects_total"
        await until(lambda: sample(scheduler, name, resource="pods"), "skipped")
        cluster.create(pod("good"))
        await until(lambda: bound_to(cluster, "good"), "the other pod bound")
        delete(cluster, "bad")
        cluster.create(pod("bad"))
        await until(lambda: bound_to(cluster, "bad"), "the repaired pod bound")
        await settled(scheduler)
    output = capsys.readouterr()
    assert f"spec.containers[0].{field}: invalid quantity" in output.out + output.err
    assert "default/bad" in output.out + output.err


async def test_nodes_without_labels_or_valid_status_are_infeasible_and_harmless(
    cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    odd: dict[str, Any] = {
        "bare": {},
        "nulls": {"spec": None, "status": None},
        "empty": {"status": {"allocatable": None, "conditions": None, "images": None}},
        "negative": {"status": {"allocatable": {"cpu": "-4", "memory": "-1", "pods": "-1"}}},
        "unreadable": {"status": {"allocatable": {"cpu": "4x4", "memory": "1Gi", "pods": "9"}}},
    }
    for name, parts in odd.items():
        obj = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": None}}
        smuggle(cluster, {**obj, **parts})
    async with scheduling(cluster) as scheduler:
        name = "kubestow_malformed_objects_total"
        assert sample(scheduler, name, resource="nodes") == 1
        smuggle(cluster, pod("spread", **spread(GOOD)))
        await until(lambda: condition(cluster, "spread"), "rejected")
        assert condition(cluster, "spread")["message"].startswith("0/4 nodes are available: ")
        cluster.create(node("n1", labels={HOST: "n1"}))
        await until(lambda: bound_to(cluster, "spread") == "n1", "bound to the valid node")
        await settled(scheduler)
    output = capsys.readouterr()
    assert "status.allocatable[cpu]: invalid quantity '4x4'" in output.out + output.err


HUGE: Final = "99999999999999999999"


def _unschedulable(cluster: EmbeddedCluster, name: str) -> bool:
    return "Insufficient cpu" in condition(cluster, name).get("message", "")


async def test_amounts_beyond_64_bits_fit_nowhere_and_break_no_node(
    cluster: EmbeddedCluster,
) -> None:
    cluster.create(node("n1", cpu="4"))
    async with scheduling(cluster) as scheduler:
        for number in range(3):
            # Another scheduler bound them nevertheless.
            taken = pod(f"huge-{number}", HUGE)
            taken["spec"]["nodeName"] = "n1"
            smuggle(cluster, taken)
        await until(lambda: scheduler.state.cache.statistics().pods == 3, "seen")
        smuggle(cluster, pod("huge", HUGE))
        cluster.create(pod("small"))
        await until(lambda: len(event_notes(cluster, "FailedScheduling")) == 2, "both rejected")
        # An Event and a condition are written by different tasks: either may come first.
        await until(
            lambda: _unschedulable(cluster, "huge") and _unschedulable(cluster, "small"),
            "conditions",
        )
        cluster.create(node("n2", cpu="4"))
        await until(lambda: bound_to(cluster, "small") == "n2", "bound elsewhere")
        assert not bound_to(cluster, "huge")
        for number in range(3):
            delete(cluster, f"huge-{number}")
        await until(lambda: scheduler.state.cache.statistics().pods == 1, "removed from the cache")
        cluster.create(pod("fits", "4"))
        await until(lambda: bound_to(cluster, "fits") == "n1", "the pod's resources are free")
        await settled(scheduler)


async def test_a_budget_that_cannot_be_parsed_protects_no_pod(cluster: EmbeddedCluster) -> None:
    cluster.create(node("n1", cpu="4"))
    cluster.create(priority_class("high", 1000))
    smuggle(
        cluster,
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "broken"},
            "spec": {"selector": BAD, "minAvailable": 1},
            "status": {"disruptionsAllowed": 0},
        },
    )
    async with scheduling(cluster) as scheduler:
        cluster.create(pod("victim", "3", terminationGracePeriodSeconds=0))
        await until(lambda: bound_to(cluster, "victim"), "bound")
        cluster.create(pod("preemptor", "3", priorityClassName="high"))
        await until(lambda: bound_to(cluster, "preemptor") == "n1", "preempted")
        await settled(scheduler)


class Delayed:
    """Keeps pods at Permit until the test allows them."""

    name: ClassVar[str] = "Delayed"
    handle: ClassVar[Handle]
    seen: ClassVar[list[str]]

    def __init__(self, args: object, handle: Handle) -> None:
        type(self).handle = handle
        type(self).seen = []

    def permit(self, state: object, pod: Any, node_name: str) -> tuple[Status | None, float]:
        self.seen.append(pod.metadata.name)
        return (Status(Code.WAIT), 600.0) if len(self.seen) == 1 else (None, 0.0)

    @classmethod
    def let_go(cls) -> None:
        for each in cls.handle.waiting_pods():
            each.allow(cls.name)


async def test_a_claim_that_vanishes_between_filter_and_bind_requeues_the_pod(
    cluster: EmbeddedCluster,
) -> None:
    cluster.create(node("n1"))
    cluster.create(storage_class("later", delayed=True))
    matching = volume("pv1")
    matching["spec"]["storageClassName"] = "later"
    cluster.create(matching)
    cluster.create(claim("data", storage_class="later"))
    mount = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
    async with scheduling(cluster, [Delayed], podMaxBackoffSeconds=1) as scheduler:
        cluster.create(pod("bad", volumes=[mount]))
        await until(lambda: Delayed.seen, "at Permit")
        delete(cluster, "data", "PersistentVolumeClaim")
        Delayed.let_go()
        named = 'persistentvolumeclaim "data" not found'
        await until(lambda: named in condition(cluster, "bad").get("message", ""), "requeued")
        assert not bound_to(cluster, "bad")
        cluster.create(pod("good"))
        await until(lambda: bound_to(cluster, "good"), "the other pod bound")
        await settled(scheduler)
        cluster.create(claim("data", storage_class="later"))
        await until(lambda: len(Delayed.seen) > 1, "retried once the claim is back")
