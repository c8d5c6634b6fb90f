"""What a shape tells: derived facts, and which differences between pods make another shape."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.api import Pod, PodShape, PodShapes
from scheduler.api.node_selectors import compile_required_node_affinity
from scheduler.api.pod_key import PIN_PLACEHOLDER
from scheduler.api.requests import (
    Resources,
    assigned_requests,
    incoming_requests,
    non_zero_requests,
    scoring_requests,
)
from scheduler.api.selectors import SelectorError
from tests.unit.api.objects import container, pinned, pod, required

CPU: dict[str, Any] = {"requests": {"cpu": "1"}}
TOKEN = {"name": "kube-api-access-x7k2p"}
OWNER = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "name": "web",
    "uid": "r1",
    "controller": True,
}


def shape_of(spec: dict[str, Any] | None = None, **parts: Any) -> PodShape:
    return PodShapes().intern(pod(spec, **parts))


def same_shape(first: Pod, second: Pod) -> bool:
    shapes = PodShapes()
    return shapes.intern(first) is shapes.intern(second)


def status(requests: dict[str, str], **more: Any) -> dict[str, Any]:
    return {"containerStatuses": [{"name": "c", "resources": {"requests": requests}, **more}]}


BASE: dict[str, Any] = {"containers": [container(**CPU)]}


@pytest.mark.parametrize(
    ("spec", "parts"),
    [
        (BASE, {"metadata": {"name": "other", "uid": "v", "namespace": "elsewhere"}}),
        (BASE, {"metadata": {"labels": {"index": "7"}, "annotations": {"a": "b"}}}),
        ({**BASE, "nodeName": "n7"}, {}),
        ({**BASE, "schedulingGates": [{"name": "wait"}]}, {}),
        ({**BASE, "volumes": [TOKEN]}, {}),
        ({**BASE, "volumes": [{"name": "config", "configMap": {"name": "x"}}]}, {}),
        (BASE, {"status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}}),
        (BASE, {"status": status({"cpu": "1"})}),
        (BASE, {"status": status({"cpu": "1"}, allocatedResources={"cpu": "1"})}),
        (BASE, {"status": status({"cpu": "1000m"}, allocatedResources={"cpu": "1"})}),
        (BASE, {"status": status({"cpu": "500m"})}),
        (BASE, {"metadata": {"ownerReferences": [{**OWNER, "controller": False}]}}),
        (BASE, {"metadata": {"ownerReferences": [{**OWNER, "kind": "Job"}]}}),
    ],
)
def test_what_scheduling_does_not_read_shares_the_shape(
    spec: dict[str, Any], parts: dict[str, Any]
) -> None:
    assert same_shape(pod(BASE), pod(spec, **parts))


@pytest.mark.parametrize(
    ("spec", "parts"),
    [
        ({"containers": [container(requests={"cpu": "2"})]}, {}),
        ({"containers": [container(**CPU, image="other:1")]}, {}),
        ({**BASE, "schedulerName": "x"}, {}),
        ({**BASE, "priority": 1}, {}),
        ({**BASE, "preemptionPolicy": "Never"}, {}),
        ({**BASE, "nodeSelector": {"a": "b"}}, {}),
        ({**BASE, "nodeSelector": {}}, {}),
        ({**BASE, "tolerations": [{"operator": "Exists"}]}, {}),
        ({**BASE, "affinity": {"podAffinity": {}}}, {}),
        ({**BASE, "affinity": required()}, {}),
        ({**BASE, "affinity": pinned("n1")}, {}),
        ({**BASE, "topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 1}]}, {}),
        ({**BASE, "resourceClaims": [{"name": "gpu"}]}, {}),
        ({**BASE, "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}, {}),
        ({**BASE, "overhead": {"cpu": "1"}}, {}),
        ({**BASE, "resources": {"requests": {"cpu": "1"}}}, {}),
        ({**BASE, "hostNetwork": True}, {}),
        ({**BASE, "hostUsers": False}, {}),
        (BASE, {"status": status({"cpu": "2"})}),
        (BASE, {"metadata": {"ownerReferences": [OWNER]}}),
    ],
)
def test_what_scheduling_reads_makes_another_shape(
    spec: dict[str, Any], parts: dict[str, Any]
) -> None:
    assert not same_shape(pod(BASE), pod(spec, **parts))


def test_names_of_volumes_count_for_ephemeral_claims_only() -> None:
    def claim(name: str) -> Pod:
        return pod({"volumes": [{"name": name, "persistentVolumeClaim": {"claimName": "data"}}]})

    def ephemeral(name: str) -> Pod:
        return pod({"volumes": [{"name": name, "ephemeral": {"volumeClaimTemplate": {}}}]})

    assert same_shape(claim("a"), claim("b"))
    assert not same_shape(ephemeral("a"), ephemeral("b"))


def test_an_infeasible_resize_makes_another_shape_even_when_the_numbers_shrink() -> None:
    refused = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
    small = pod(BASE, status={**status({"cpu": "500m"}), "conditions": refused})
    shapes = PodShapes()
    assert shapes.intern(small) is not shapes.intern(pod(BASE))
    assert small.shape.assigned.milli_cpu == 500
    assert small.shape.requests.milli_cpu == 1000


def test_a_resize_that_is_over_returns_to_the_shape_of_the_siblings() -> None:
    shapes = PodShapes()
    template = shapes.intern(pod(BASE))
    shrinking = pod(BASE, status=status({"cpu": "2"}))
    assert shapes.intern(shrinking).assigned.milli_cpu == 2000
    assert shapes.intern(pod(BASE, status=status({"cpu": "1"}))) is template


def test_pods_of_a_daemon_set_share_one_shape_and_carry_their_node() -> None:
    shapes = PodShapes()
    pods = [pod({**BASE, "affinity": pinned(f"n{i}")}) for i in range(50)]
    assert len({shapes.intern(each).id for each in pods}) == 1
    assert [each.pin for each in pods] == [f"n{i}" for i in range(50)]
    shape = pods[0].shape
    assert shape.pinned
    assert shape.required_node_affinity is None
    assert shape.named_nodes is None


def test_what_a_pinned_pod_asks_besides_its_node_stays_in_the_shape() -> None:
    ssd = [{"key": "disk", "operator": "In", "values": ["ssd"]}]
    shape = shape_of({"affinity": pinned("n1", matchExpressions=ssd), "nodeSelector": {"os": "x"}})
    residue = shape.required_node_affinity
    assert residue is not None
    assert residue.matches({"disk": "ssd", "os": "x"}, "any-node")
    assert not residue.matches({"disk": "hdd", "os": "x"}, "n1")
    assert not residue.matches({"disk": "ssd"}, "n1")
    only_map = shape_of({"affinity": pinned("n1"), "nodeSelector": {"os": "x"}})
    assert only_map.required_node_affinity == compile_required_node_affinity({"os": "x"}, None)


def test_a_pinned_pod_keeps_its_own_affinity_and_the_shape_a_placeholder() -> None:
    shapes = PodShapes()
    first, second = pod({"affinity": pinned("n1")}), pod({"affinity": pinned("n2")})
    shapes.intern(first)
    shapes.intern(second)
    for each, name in ((first, "n1"), (second, "n2"), (first.shape, PIN_PLACEHOLDER)):
        affinity = each.spec.affinity
        assert affinity is not None
        assert affinity.node_affinity is not None
        assert affinity.node_affinity.required is not None
        (term,) = affinity.node_affinity.required.node_selector_terms
        assert term.match_fields[0].values == (name,)


NAME = "metadata.name"


def by_name(*values: str, operator: str = "In", key: str = NAME) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


@pytest.mark.parametrize(
    ("terms", "pin", "names"),
    [
        ([{"matchFields": [by_name("a")]}], "a", None),
        ([{"matchFields": [by_name("a")]}] * 2, "a", None),
        ([{"matchFields": [by_name("a")]}, {"matchFields": [by_name("b")]}], "", {"a", "b"}),
        ([{"matchFields": [by_name("a", "b")]}], "", {"a", "b"}),
        ([{"matchFields": [by_name("a"), by_name("b")]}], "", set()),
        ([{"matchFields": [by_name("a", operator="NotIn")]}], "", None),
        ([{"matchFields": [by_name("a", key="spec.x")]}], "", None),
        ([{"matchFields": [by_name("a")]}, {}], "", None),
        ([], "", None),
    ],
)
def test_which_terms_pin_a_pod_or_name_its_nodes(
    terms: list[dict[str, Any]], pin: str, names: set[str] | None
) -> None:
    subject = pod({"affinity": required(*terms)})
    shape = PodShapes().intern(subject)
    assert (subject.pin, shape.pinned) == (pin, bool(pin))
    assert shape.named_nodes == names


def test_derived_facts_are_computed_once() -> None:
    shape = shape_of({"nodeSelector": {"a": "b"}})
    assert shape.required_node_affinity is shape.required_node_affinity
    assert shape.scoring is shape.scoring
    with pytest.raises(AttributeError, match="no attribute 'colour'"):
        shape.colour  # type: ignore[attr-defined] # noqa: B018


def test_a_plain_pod_asks_nothing_of_its_node() -> None:
    shape = shape_of()
    assert shape.requests == Resources()
    assert shape.required_node_affinity is None
    assert shape.preferred_node_affinity is None
    assert (shape.host_ports, shape.claims, shape.required_features) == ((), (), ())
    assert (shape.priority, shape.scheduler_name, shape.preemption_policy) == (0, "", None)


def test_facts_of_a_rich_pod() -> None:
    shape = shape_of(
        {
            "containers": [
                container(
                    ports=[{"containerPort": 1, "hostPort": 80}],
                    restartPolicyRules=[{"action": "RestartAllContainers"}],
                )
            ],
            "volumes": [
                {"name": "v", "persistentVolumeClaim": {"claimName": "data"}},
                TOKEN,
                {"name": "e", "ephemeral": {"volumeClaimTemplate": {}}},
            ],
            "hostNetwork": True,
            "hostUsers": False,
            "priority": 7,
            "tolerations": [{"operator": "Exists"}],
            "resourceClaims": [{"name": "gpu"}],
            "topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 1}],
            "affinity": {"podAffinity": {}},
        },
        metadata={"ownerReferences": [OWNER]},
    )
    assert [each.port for each in shape.host_ports] == [80]
    assert shape.images.names == ("app:1",)
    assert shape.claims == ("data",)
    assert [each.name for each in shape.volumes] == ["v", "e"]
    assert shape.required_features == (
        "RestartAllContainersOnContainerExits",
        "UserNamespacesHostNetworkSupport",
    )
    assert shape.priority == 7
    assert len(shape.tolerations) == 1
    assert len(shape.resource_claims) == 1
    assert len(shape.topology_spread_constraints) == 1
    assert shape.affinity is not None
    assert shape.controller_owner is not None
    assert shape.controller_owner.uid == "r1"


def test_a_bad_preferred_term_is_found_when_scoring_not_when_interning() -> None:
    bad = {"matchExpressions": [{"key": "a b", "operator": "Exists"}]}
    terms = [{"weight": 1, "preference": bad}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}
    preferred = shape_of({"affinity": affinity}).preferred_node_affinity
    assert preferred is not None
    with pytest.raises(SelectorError, match="a b"):
        preferred.score({}, "n")


AMOUNTS = st.dictionaries(
    st.sampled_from(["cpu", "memory", "example.com/gpu"]),
    st.sampled_from(["0", "1", "1000m", "2", "3"]),
)
RESOURCES = st.fixed_dictionaries({"requests": AMOUNTS})


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    """Pods of few templates in every state of a resize, pinned or not."""
    names = ["a", "b"]
    sidecar = st.sampled_from([{}, {"restartPolicy": "Always"}])
    one = st.fixed_dictionaries({"name": st.just("i"), "resources": RESOURCES})
    statuses = st.lists(
        st.fixed_dictionaries(
            {"name": st.sampled_from([*names, "i"])},
            optional={"resources": RESOURCES, "allocatedResources": AMOUNTS},
        ),
        max_size=3,
    )
    spec: dict[str, Any] = {
        "containers": [{"name": each, "resources": draw(RESOURCES)} for each in names],
        "initContainers": [{**draw(one), **draw(sidecar)}] if draw(st.booleans()) else [],
    }
    if draw(st.booleans()):
        spec["resources"] = draw(RESOURCES)
    node = draw(st.sampled_from(["", "n1", "n2"]))
    if node:
        disk = [{"key": "disk", "operator": "Exists"}]
        more = {"matchExpressions": disk} if draw(st.booleans()) else {}
        spec["affinity"] = pinned(node, **more)
    reason = draw(st.sampled_from(["Deferred", "Infeasible"]))
    state: dict[str, Any] = {
        "containerStatuses": draw(statuses),
        "initContainerStatuses": draw(statuses),
        "conditions": [{"type": "PodResizePending", "status": "True", "reason": reason}],
        "allocatedResources": draw(AMOUNTS),
    }
    if draw(st.booleans()):
        state["resources"] = draw(RESOURCES)
    return pod(spec, status=state)


def facts(subject: Pod) -> list[object]:
    """Everything a shape says of its pods, computed from the pod alone."""
    affinity = subject.spec.affinity
    terms = affinity.node_affinity.required if affinity and affinity.node_affinity else None
    required_affinity = compile_required_node_affinity(subject.spec.node_selector, terms)
    labels: list[dict[str, str]] = [{}, {"disk": "ssd"}]
    return [
        incoming_requests(subject),
        assigned_requests(subject),
        non_zero_requests(subject),
        scoring_requests(subject),
        [required_affinity.matches(each, name) for each in labels for name in ("n1", "n2")],
    ]


def facts_by_shape(subject: Pod) -> list[object]:
    shape = subject.shape
    labels: list[dict[str, str]] = [{}, {"disk": "ssd"}]
    residue = shape.required_node_affinity
    return [
        shape.requests,
        shape.assigned,
        shape.non_zero,
        shape.scoring,
        [
            (residue is None or residue.matches(each, name))
            and (not shape.pinned or name == subject.pin)
            for each in labels
            for name in ("n1", "n2")
        ],
    ]


@given(st.lists(pods(), min_size=1, max_size=4))
def test_a_shape_says_of_each_of_its_pods_what_the_pod_itself_would_say(group: list[Pod]) -> None:
    shapes = PodShapes()
    for subject in group:
        alone = facts(subject)
        shapes.intern(subject)
        assert facts_by_shape(subject) == alone
        # Sharing must not change what the pod says of itself either.
        assert facts(subject) == alone
