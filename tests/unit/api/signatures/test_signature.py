"""The values a signature derives, and which differences between pods change it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.api import Pod, PodSignature, PodSignatures
from scheduler.api.node_selectors import compile_required_node_affinity
from scheduler.api.requests import (
    Resources,
    assigned_requests,
    incoming_requests,
    non_zero_requests,
    scoring_requests,
)
from scheduler.api.selectors import SelectorError
from scheduler.api.signatures.key import PIN_PLACEHOLDER
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


def signature_of(spec: dict[str, Any] | None = None, **parts: Any) -> PodSignature:
    return PodSignatures().intern(pod(spec, **parts))


def same_signature(first: Pod, second: Pod) -> bool:
    signatures = PodSignatures()
    return signatures.intern(first) is signatures.intern(second)


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
def test_what_scheduling_does_not_read_shares_the_signature(
    spec: dict[str, Any], parts: dict[str, Any]
) -> None:
    assert same_signature(pod(BASE), pod(spec, **parts))


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
def test_what_scheduling_reads_makes_another_signature(
    spec: dict[str, Any], parts: dict[str, Any]
) -> None:
    assert not same_signature(pod(BASE), pod(spec, **parts))


def test_names_of_volumes_count_for_ephemeral_claims_only() -> None:
    def claim(name: str) -> Pod:
        return pod({"volumes": [{"name": name, "persistentVolumeClaim": {"claimName": "data"}}]})

    def ephemeral(name: str) -> Pod:
        return pod({"volumes": [{"name": name, "ephemeral": {"volumeClaimTemplate": {}}}]})

    assert same_signature(claim("a"), claim("b"))
    assert not same_signature(ephemeral("a"), ephemeral("b"))


def test_an_infeasible_resize_makes_another_signature_even_when_the_numbers_shrink() -> None:
    infeasible = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
    small = pod(BASE, status={**status({"cpu": "500m"}), "conditions": infeasible})
    signatures = PodSignatures()
    assert signatures.intern(small) is not signatures.intern(pod(BASE))
    assert small.signature.assigned.milli_cpu == 500
    assert small.signature.requests.milli_cpu == 1000


def test_a_resize_that_is_over_returns_to_the_signature_of_the_siblings() -> None:
    signatures = PodSignatures()
    template = signatures.intern(pod(BASE))
    shrinking = pod(BASE, status=status({"cpu": "2"}))
    assert signatures.intern(shrinking).assigned.milli_cpu == 2000
    assert signatures.intern(pod(BASE, status=status({"cpu": "1"}))) is template


def test_pods_of_a_daemon_set_share_one_signature_and_carry_their_node() -> None:
    signatures = PodSignatures()
    pods = [pod({**BASE, "affinity": pinned(f"n{i}")}) for i in range(50)]
    assert len({signatures.intern(each).id for each in pods}) == 1
    assert [each.pin for each in pods] == [f"n{i}" for i in range(50)]
    signature = pods[0].signature
    assert signature.pinned
    assert signature.required_node_affinity is None
    assert signature.named_nodes is None


def test_other_requirements_of_a_pinned_pod_stay_in_the_signature() -> None:
    ssd = [{"key": "disk", "operator": "In", "values": ["ssd"]}]
    signature = signature_of(
        {"affinity": pinned("n1", matchExpressions=ssd), "nodeSelector": {"os": "x"}}
    )
    residue = signature.required_node_affinity
    assert residue is not None
    assert residue.matches({"disk": "ssd", "os": "x"}, "any-node")
    assert not residue.matches({"disk": "hdd", "os": "x"}, "n1")
    assert not residue.matches({"disk": "ssd"}, "n1")
    only_map = signature_of({"affinity": pinned("n1"), "nodeSelector": {"os": "x"}})
    assert only_map.required_node_affinity == compile_required_node_affinity({"os": "x"}, None)


def test_a_pinned_pod_keeps_its_own_affinity_and_the_signature_a_placeholder() -> None:
    signatures = PodSignatures()
    first, second = pod({"affinity": pinned("n1")}), pod({"affinity": pinned("n2")})
    signatures.intern(first)
    signatures.intern(second)
    for each, name in ((first, "n1"), (second, "n2"), (first.signature, PIN_PLACEHOLDER)):
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
    signature = PodSignatures().intern(subject)
    assert (subject.pin, signature.pinned) == (pin, bool(pin))
    assert signature.named_nodes == names


def test_derived_values_are_computed_once() -> None:
    signature = signature_of({"nodeSelector": {"a": "b"}})
    assert signature.required_node_affinity is signature.required_node_affinity
    assert signature.scoring is signature.scoring
    with pytest.raises(AttributeError, match="no attribute 'colour'"):
        signature.colour  # type: ignore[attr-defined] # noqa: B018


def test_a_plain_pod_requires_nothing_of_its_node() -> None:
    signature = signature_of()
    assert signature.requests == Resources()
    assert signature.required_node_affinity is None
    assert signature.preferred_node_affinity is None
    assert (signature.host_ports, signature.claims, signature.required_features) == ((), (), ())
    assert (signature.priority, signature.scheduler_name, signature.preemption_policy) == (
        0,
        "",
        None,
    )


def test_derived_values_of_a_pod_with_everything() -> None:
    signature = signature_of(
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
    assert [each.port for each in signature.host_ports] == [80]
    assert signature.images == ("app:1",)
    assert signature.claims == ("data",)
    assert [each.name for each in signature.volumes] == ["v", "e"]
    assert signature.required_features == (
        "RestartAllContainersOnContainerExits",
        "UserNamespacesHostNetworkSupport",
    )
    assert signature.priority == 7
    assert len(signature.tolerations) == 1
    assert len(signature.resource_claims) == 1
    assert len(signature.topology_spread_constraints) == 1
    assert signature.affinity is not None
    assert signature.controller_owner is not None
    assert signature.controller_owner.uid == "r1"


def test_a_bad_preferred_term_is_found_when_scoring_not_when_interning() -> None:
    bad = {"matchExpressions": [{"key": "a b", "operator": "Exists"}]}
    terms = [{"weight": 1, "preference": bad}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}
    preferred = signature_of({"affinity": affinity}).preferred_node_affinity
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
    """All values of a signature, computed from the pod alone."""
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


def facts_by_signature(subject: Pod) -> list[object]:
    signature = subject.signature
    labels: list[dict[str, str]] = [{}, {"disk": "ssd"}]
    residue = signature.required_node_affinity
    return [
        signature.requests,
        signature.assigned,
        signature.non_zero,
        signature.scoring,
        [
            (residue is None or residue.matches(each, name))
            and (not signature.pinned or name == subject.pin)
            for each in labels
            for name in ("n1", "n2")
        ],
    ]


@given(st.lists(pods(), min_size=1, max_size=4))
def test_values_of_a_signature_are_those_of_each_of_its_pods(
    group: list[Pod],
) -> None:
    signatures = PodSignatures()
    for subject in group:
        alone = facts(subject)
        signatures.intern(subject)
        assert facts_by_signature(subject) == alone
        # Sharing must not change the values of the pod itself either.
        assert facts(subject) == alone
