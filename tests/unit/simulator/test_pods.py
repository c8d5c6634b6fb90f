"""Pods: defaults, gates (KEP-3521), what may change, binding."""

from __future__ import annotations

from typing import Any

import pytest

from simulator.admission import AdmissionRequest, WriteOptions
from simulator.api import MERGE_PATCH, STRATEGIC_PATCH, Api
from simulator.clock import SimClock
from simulator.errors import ApiError, forbidden
from simulator.objects import JsonObject, format_time
from simulator.pods import qos_class
from simulator.strategies import Surroundings
from simulator.subresources import bind, evict
from tests.unit.simulator.objects import START, binding, pod


def _create(api: Api, obj: JsonObject, options: WriteOptions | None = None) -> JsonObject:
    pods = api.resources.of_kind("v1", "Pod")
    return api.create(pods, "default", obj, options or WriteOptions()).obj


def _patch(api: Api, name: str, patch: Any, how: str = MERGE_PATCH, sub: str = "") -> JsonObject:
    pods = api.resources.of_kind("v1", "Pod")
    return api.patch(pods, "default", name, patch, how, subresource=sub).obj


def _bind(api: Api, name: str, to: str = "n1", **meta: object) -> JsonObject:
    pods = api.resources.of_kind("v1", "Pod")
    return bind(api, pods, "default", name, binding(name, to, **meta), WriteOptions()).obj


def test_a_new_pod_is_pending_and_has_the_defaults_a_scheduler_reads(api: Api) -> None:
    made = _create(api, {**pod("a"), "status": {"phase": "Running"}})
    assert made["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert made["metadata"]["generation"] == 1
    assert made["metadata"]["creationTimestamp"] == format_time(START)
    spec = made["spec"]
    assert (spec["schedulerName"], spec["priority"], spec["preemptionPolicy"]) == (
        "default-scheduler",
        0,
        "PreemptLowerPriority",
    )
    assert [toleration["key"] for toleration in spec["tolerations"]] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]


def test_limits_become_requests_and_host_network_ports_host_ports(api: Api) -> None:
    container = {
        "name": "c",
        "image": "i:1",
        "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}},
        "ports": [{"containerPort": 80}],
    }
    spec = _create(api, pod("a", containers=[container], hostNetwork=True))["spec"]
    made = spec["containers"][0]
    assert made["resources"]["requests"] == {"cpu": "500m", "memory": "1Gi"}
    assert made["ports"] == [{"containerPort": 80, "protocol": "TCP", "hostPort": 80}]
    assert made["imagePullPolicy"] == "IfNotPresent"


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ([{}], "BestEffort"),
        ([{"requests": {"example.com/gpu": "1"}}], "BestEffort"),
        ([{"requests": {"cpu": "1"}}], "Burstable"),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}}], "Guaranteed"),
        (
            [{"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m"}}],
            "Guaranteed",
        ),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1m"}}], "Burstable"),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}}, {}], "Burstable"),
    ],
)
def test_qos_class(resources: list[JsonObject], expected: str) -> None:
    assert qos_class({"containers": [{"resources": one} for one in resources]}) == expected


def test_priority_comes_from_the_class(api: Api) -> None:
    classes = api.resources.of_kind("scheduling.k8s.io/v1", "PriorityClass")
    for name, value, default in (("high", 7, False), ("usual", 3, True)):
        body = {"metadata": {"name": name}, "value": value, "globalDefault": default}
        api.create(classes, "", {**body, "preemptionPolicy": "Never"})
    assert _create(api, pod("a", priorityClassName="high"))["spec"]["priority"] == 7
    unnamed = _create(api, pod("b"))["spec"]
    assert (unnamed["priority"], unnamed["priorityClassName"]) == (3, "usual")
    assert unnamed["preemptionPolicy"] == "Never"
    with pytest.raises(ApiError, match="no PriorityClass with name nope was found") as raised:
        _create(api, pod("c", priorityClassName="nope"))
    assert raised.value.code == 403


def test_names_are_generated_and_namespaces_must_exist(api: Api) -> None:
    made = _create(api, {**pod(""), "metadata": {"generateName": "web-"}})
    assert made["metadata"]["name"].startswith("web-")
    assert len(made["metadata"]["name"]) == len("web-") + 5
    pods = api.resources.of_kind("v1", "Pod")
    with pytest.raises(ApiError, match='namespaces "nope" not found'):
        api.create(pods, "nope", pod("a"))
    with pytest.raises(ApiError, match="name or generateName is required"):
        _create(api, {"spec": {"containers": [{"name": "c"}]}})


def test_a_gated_pod_keeps_its_condition_when_ungated(api: Api) -> None:
    made = _create(api, pod("a", gates=("x.io/a", "b")))
    (condition,) = made["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "False")
    assert condition["reason"] == "SchedulingGated"
    drop = {"spec": {"schedulingGates": [{"name": "b", "$patch": "delete"}]}}
    halfway = _patch(api, "a", drop, STRATEGIC_PATCH)
    assert halfway["spec"]["schedulingGates"] == [{"name": "x.io/a"}]
    assert halfway["metadata"]["generation"] == 2
    free = _patch(api, "a", {"spec": {"schedulingGates": []}})
    assert "schedulingGates" not in free["spec"]
    assert free["status"]["conditions"] == [condition]


_QUALIFIED = "name part must consist of alphanumeric characters"
_BAD_PODS: list[tuple[JsonObject, str]] = [
    (pod("a", gates=("x io",)), _QUALIFIED),
    (pod("a", gates=("",)), "name part must be non-empty"),
    (pod("a", gates=("/x",)), "prefix part must be non-empty"),
    (pod("a", gates=("x" * 64,)), "must be no more than 63 bytes"),
    (pod("a", gates=("b", "b")), r'spec.schedulingGates\[1\]: Duplicate value: "b"'),
    (
        pod("a", gates=("b",), nodeName="n"),
        "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared",
    ),
    (pod("A_b"), "a lowercase RFC 1123 subdomain"),
    (pod("a", containers=[]), "spec.containers: Required value"),
    ({**pod("a"), "metadata": {"name": "a", "labels": {"k k": "v v"}}}, "metadata.labels"),
]


@pytest.mark.parametrize(("obj", "message"), _BAD_PODS)
def test_a_pod_that_is_not_valid(api: Api, obj: JsonObject, message: str) -> None:
    with pytest.raises(ApiError, match=message) as raised:
        _create(api, obj)
    assert raised.value.code == 422
    assert raised.value.status["details"]["causes"]
    assert api.store.count("pods") == 0


_TERM = {"matchExpressions": [{"key": "k", "operator": "Exists"}]}
_WIDER = {"matchExpressions": [{"key": "other", "operator": "Exists"}]}
_NARROWER = {"matchExpressions": [*_TERM["matchExpressions"], *_WIDER["matchExpressions"]]}


def _affinity(*terms: JsonObject) -> JsonObject:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [*terms]}}
    return {"nodeAffinity": required}


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ({"nodeSelector": {"k": "v", "z": "w"}}, ""),
        ({"nodeSelector": {"k": "w"}}, "only additions to spec.nodeSelector are allowed"),
        ({"nodeSelector": None}, "only additions to spec.nodeSelector are allowed"),
        ({"affinity": _affinity(_NARROWER)}, ""),
        ({"affinity": _affinity(_WIDER)}, "only additions are allowed"),
        ({"affinity": _affinity(_TERM, _TERM)}, "no additions/deletions to non-empty"),
        ({"affinity": None}, "no additions/deletions to non-empty"),
        ({"affinity": {"podAffinity": {}}}, "pod updates may not change fields other than"),
        ({"schedulingGates": [{"name": "g"}, {"name": "h"}]}, "found new scheduling gate 'h'"),
        ({"schedulerName": "x"}, "pod updates may not change fields other than"),
        ({"tolerations": [{"key": "q", "operator": "Exists"}]}, ""),
        ({"activeDeadlineSeconds": 5}, ""),
        ({"terminationGracePeriodSeconds": 1}, "pod updates may not change fields"),
    ],
)
def test_what_may_change_while_gated(api: Api, patch: JsonObject, message: str) -> None:
    _create(api, pod("a", gates=("g",), nodeSelector={"k": "v"}, affinity=_affinity(_TERM)))
    if not message:
        assert _patch(api, "a", {"spec": patch})["metadata"]["generation"] == 2
        return
    with pytest.raises(ApiError, match=message) as raised:
        _patch(api, "a", {"spec": patch})
    assert raised.value.code == 422


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ({"containers": [{"name": "c", "image": "other"}]}, ""),
        ({"nodeSelector": {"z": "w"}}, "changed: spec.nodeSelector"),
        ({"affinity": _affinity(_TERM)}, "changed: spec.affinity"),
        ({"nodeName": "n"}, "changed: spec.nodeName"),
        ({"schedulingGates": [{"name": "g"}]}, "only deletion is allowed"),
        ({"tolerations": []}, None),
    ],
)
def test_what_may_change_once_free(api: Api, patch: JsonObject, message: str | None) -> None:
    _create(api, pod("a", tolerations=[{"key": "t", "operator": "Exists"}]))
    if message == "":
        assert _patch(api, "a", {"spec": patch}, STRATEGIC_PATCH)["metadata"]["generation"] == 2
        return
    expected = message or "existing toleration can not be modified except its tolerationSeconds"
    with pytest.raises(ApiError, match=expected):
        _patch(api, "a", {"spec": patch})


def test_status_and_spec_are_written_apart(api: Api) -> None:
    _create(api, pod("a"))
    status = {"conditions": [{"type": "X", "status": "True"}], "nominatedNodeName": "n"}
    patched = _patch(
        api, "a", {"status": status, "spec": {"nodeName": "z"}}, STRATEGIC_PATCH, "status"
    )
    assert patched["status"]["nominatedNodeName"] == "n"
    assert "nodeName" not in patched["spec"]
    assert patched["metadata"]["generation"] == 1
    changed = _patch(api, "a", {"metadata": {"labels": {"l": "1"}}, "status": {"phase": "Failed"}})
    assert changed["status"]["phase"] == "Pending"
    assert changed["metadata"]["labels"] == {"l": "1"}


def test_a_patch_that_changes_nothing_makes_no_version(api: Api) -> None:
    _create(api, pod("a"))
    before = api.store.rv
    _patch(api, "a", {"metadata": {"labels": None}})
    assert api.store.rv == before


def test_binding_moves_the_pod_and_nothing_else(api: Api, clock: SimClock) -> None:
    _create(api, {**pod("a"), "metadata": {"name": "a", "labels": {"l": "1", "m": "1"}}})
    _patch(api, "a", {"status": {"nominatedNodeName": "n2"}}, MERGE_PATCH, "status")
    clock.advance(5)
    bound = _bind(api, "a", "n1", labels={"l": "2"}, annotations={"k": "v"})
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["metadata"]["labels"] == {"l": "2", "m": "1"}
    assert bound["metadata"]["annotations"] == {"k": "v"}
    assert bound["metadata"]["generation"] == 1
    assert "nominatedNodeName" not in bound["status"]
    (condition,) = bound["status"]["conditions"]
    assert condition["status"] == "True"
    assert condition["lastTransitionTime"] == format_time(START + 5)
    assert "reason" not in condition


@pytest.mark.parametrize(
    ("prepare", "code", "message"),
    [
        ("gated", 409, "pod a has non-empty .spec.schedulingGates"),
        ("bound", 409, 'pod a is already assigned to node "n0"'),
        ("deleting", 409, "pod a is being deleted, cannot be assigned to a host"),
        ("other uid", 409, "Precondition failed: UID in precondition: other"),
        ("missing", 404, 'pods "a" not found'),
    ],
)
def test_bindings_that_are_refused(api: Api, prepare: str, code: int, message: str) -> None:
    meta: JsonObject = {"uid": "other"} if prepare == "other uid" else {}
    made = pod("a", gates=("g",) if prepare == "gated" else ())
    if prepare == "deleting":
        made["metadata"]["finalizers"] = ["x.io/f"]
    if prepare != "missing":
        _create(api, made)
    if prepare == "bound":
        _bind(api, "a", "n0")
    if prepare == "deleting":
        api.delete(api.resources.of_kind("v1", "Pod"), "default", "a")
    before = api.store.rv
    with pytest.raises(ApiError, match=message) as raised:
        _bind(api, "a", "n1", **meta)
    assert raised.value.code == code
    assert api.store.rv == before


def test_unbound_pods_go_at_once_bound_ones_wait_for_their_kubelet(api: Api) -> None:
    pods = api.resources.of_kind("v1", "Pod")
    for name in ("a", "b", "done"):
        _create(api, pod(name))
    assert api.delete(pods, "default", "a")[1] is True
    _bind(api, "b")
    marked, gone = api.delete(pods, "default", "b")
    assert not gone
    assert marked.obj["metadata"]["deletionGracePeriodSeconds"] == 30
    assert marked.obj["metadata"]["deletionTimestamp"] == format_time(START + 30)
    shorter, _ = api.delete(pods, "default", "b", {"gracePeriodSeconds": 5})
    assert shorter.obj["metadata"]["deletionTimestamp"] == format_time(START + 5)
    longer, _ = api.delete(pods, "default", "b", {"gracePeriodSeconds": 60})
    assert longer.rv == shorter.rv
    assert api.delete(pods, "default", "b", {"gracePeriodSeconds": 0})[1] is True
    _bind(api, "done")
    _patch(api, "done", {"status": {"phase": "Succeeded"}}, MERGE_PATCH, "status")
    assert api.delete(pods, "default", "done")[1] is True


def test_finalizers_hold_an_object_until_the_last_is_gone(api: Api) -> None:
    pods = api.resources.of_kind("v1", "Pod")
    _create(api, {**pod("a"), "metadata": {"name": "a", "finalizers": ["x.io/f"]}})
    assert api.delete(pods, "default", "a")[1] is False
    assert api.store.count("pods") == 1
    _patch(api, "a", {"metadata": {"finalizers": None}})
    assert api.store.count("pods") == 0


def test_deletion_names_the_object_it_means(api: Api) -> None:
    pods = api.resources.of_kind("v1", "Pod")
    made = _create(api, pod("a"))
    for condition in ({"uid": "other"}, {"resourceVersion": "1"}):
        with pytest.raises(ApiError, match="in the precondition") as raised:
            api.delete(pods, "default", "a", {"preconditions": condition})
        assert raised.value.code == 409
    api.delete(pods, "default", "a", {"preconditions": {"uid": made["metadata"]["uid"]}})
    assert api.store.count("pods") == 0


def test_a_resize_changes_resources_only(api: Api) -> None:
    requests = {"requests": {"cpu": "1"}}
    _create(api, pod("a", containers=[{"name": "c", "image": "i", "resources": requests}]))
    container: JsonObject = {"name": "c", "image": "j", "resources": {"requests": {"cpu": "2"}}}
    patch = {"spec": {"schedulerName": "x", "containers": [container]}}
    made = _patch(api, "a", patch, STRATEGIC_PATCH, "resize")
    assert made["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "2"}}
    assert made["spec"]["containers"][0]["image"] == "i"
    assert made["spec"]["schedulerName"] == "default-scheduler"
    assert made["metadata"]["generation"] == 2
    container["resources"]["limits"] = {"cpu": "2", "memory": "1Gi"}
    container["resources"]["requests"] = {"cpu": "2", "memory": "1Gi"}
    with pytest.raises(ApiError, match="Pod QOS Class may not change as a result of resizing"):
        _patch(api, "a", patch, STRATEGIC_PATCH, "resize")


def test_eviction_respects_the_budget(api: Api) -> None:
    pods = api.resources.of_kind("v1", "Pod")
    budgets = api.resources.of_kind("policy/v1", "PodDisruptionBudget")
    for name in ("a", "b"):
        _create(api, {**pod(name), "metadata": {"name": name, "labels": {"app": "web"}}})
        _bind(api, name)
        _patch(api, name, {"status": {"phase": "Running"}}, MERGE_PATCH, "status")
    selector = {"matchLabels": {"app": "web"}}
    api.create(budgets, "default", {"metadata": {"name": "p"}, "spec": {"selector": selector}})
    allow = {"status": {"disruptionsAllowed": 1}}
    api.patch(budgets, "default", "p", allow, MERGE_PATCH, subresource="status")
    evict(api, pods, "default", "a", {}, WriteOptions())
    assert api.get(pods, "default", "a").obj["metadata"]["deletionTimestamp"]
    with pytest.raises(ApiError, match="disruption budget") as raised:
        evict(api, pods, "default", "b", {}, WriteOptions())
    assert raised.value.code == 429
    assert "deletionTimestamp" not in api.get(pods, "default", "b").obj["metadata"]


def test_a_dry_run_stores_nothing(api: Api) -> None:
    before = api.store.rv
    made = _create(api, pod("a"), WriteOptions(dry_run=True))
    assert made["metadata"]["uid"]
    assert api.store.rv == before


_SPREAD = {
    "maxSkew": 1,
    "topologyKey": "z",
    "whenUnsatisfiable": "DoNotSchedule",
    "fallbackCriteria": ["NodeProvisioningFailed"],
}


def test_stock_drops_the_unknown_field_and_warns(api: Api) -> None:
    options = WriteOptions(field_validation="Warn")
    made = _create(api, pod("a", topologySpreadConstraints=[dict(_SPREAD)], foo=1), options)
    assert "fallbackCriteria" not in made["spec"]["topologySpreadConstraints"][0]
    assert "foo" not in made["spec"]
    assert options.warnings == [
        'unknown field "spec.topologySpreadConstraints[0].fallbackCriteria"',
        'unknown field "spec.foo"',
    ]


def test_stock_refuses_the_unknown_field_when_strict(api: Api) -> None:
    with pytest.raises(ApiError) as raised:
        _create(
            api,
            pod("a", topologySpreadConstraints=[dict(_SPREAD)]),
            WriteOptions(field_validation="Strict"),
        )
    assert raised.value.status["message"] == (
        'Pod in version "v1" cannot be handled as a Pod: strict decoding error: '
        'unknown field "spec.topologySpreadConstraints[0].fallbackCriteria"'
    )


@pytest.mark.parametrize(("gate", "kept"), [(None, True), (True, True), (False, False)])
def test_native_keeps_fallback_criteria_while_its_gate_is_on(
    api: Api, gate: bool | None, kept: bool
) -> None:
    gates = {} if gate is None else {"PodTopologySpreadFallbackMode": gate}
    api.around = Surroundings(api.store, api.clock, "native", gates)
    made = _create(api, pod("a", topologySpreadConstraints=[dict(_SPREAD)]))
    assert ("fallbackCriteria" in made["spec"]["topologySpreadConstraints"][0]) is kept


def test_admission_hooks_run_in_order_and_may_refuse(api: Api) -> None:
    seen: list[str] = []

    def label(request: AdmissionRequest) -> None:
        seen.append("mutating")
        request.obj["metadata"].setdefault("labels", {})["added"] = "yes"

    def refuse(request: AdmissionRequest) -> None:
        seen.append("validating")
        if request.obj["metadata"]["labels"].get("added") and request.name == "b":
            raise forbidden("pods", "", request.name, "exceeded quota: q")

    api.admission.add("validating", "quota", refuse, tables=["pods"], operations=["CREATE"])
    api.admission.add("mutating", "label", label, tables=["pods"], operations=["CREATE"])
    assert _create(api, pod("a"))["metadata"]["labels"] == {"added": "yes"}
    assert seen == ["mutating", "validating"]
    with pytest.raises(ApiError, match='pods "b" is forbidden: exceeded quota: q'):
        _create(api, pod("b"))
    api.admission.remove("quota")
    _create(api, pod("b"))
    assert api.store.count("pods") == 2
