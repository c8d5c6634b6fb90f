"""Remedies name the least that has to change, in plain words and stable codes."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler import offline
from scheduler.explain.what_if.remedies import node_steps, pod_steps
from scheduler.explain.what_if.remedies.node_steps import MAX_TAINTS
from scheduler.explain.what_if.remedies.situation import Situation
from scheduler.explain.what_if.trial import WhatIfTrial
from scheduler.framework import Code, Status
from tests.unit.explain.what_if.busy_world import claim, mounting, volume

JsonObject = dict[str, Any]
SELECTOR = {"matchLabels": {"a": "b"}}
ZONE = "topology.kubernetes.io/zone"
TAINT = "dedicated=gpu:NoSchedule"


def world(node: JsonObject, pod: JsonObject, *others: JsonObject) -> offline.World:
    made = offline.World()
    made.add(node)
    for each in others:
        made.add(each)
    made.schedule()
    made.add(pod)
    made.schedule()
    return made


def affinity(kind: str, **required: Any) -> JsonObject:
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": [required]}
    return {"affinity": {kind: rule}}


CASES = {
    "large": (offline.node("n", cpu=4), offline.pod("p", cpu=10), "request at most 4 cpu"),
    "more": (offline.node("n", cpu=4), offline.pod("p", cpu=10), "give node n 6 more cpu"),
    "taint": (
        offline.node("n", taints=(TAINT,)),
        offline.pod("p"),
        "remove taint dedicated=gpu:NoSchedule from n",
    ),
    "tolerate": (
        offline.node("n", taints=(TAINT,)),
        offline.pod("p"),
        "let the pod tolerate dedicated=gpu:NoSchedule",
    ),
    "cordon": (
        offline.node("n", unschedulable=True),
        offline.pod("p"),
        "uncordon node n",
    ),
    "label": (
        offline.node("n"),
        offline.pod("p", spec={"nodeSelector": {"disk": "ssd"}}),
        "label node n with disk=ssd",
    ),
    "selector": (
        offline.node("n"),
        offline.pod("p", spec={"nodeSelector": {"disk": "ssd"}}),
        "drop nodeSelector disk=ssd",
    ),
    "gate": (
        offline.node("n"),
        offline.pod("p", spec={"schedulingGates": [{"name": "a/b"}]}),
        "remove scheduling gate a/b",
    ),
    "affinity": (
        offline.node("n"),
        offline.pod(
            "p",
            spec=affinity("podAffinity", topologyKey=ZONE, labelSelector=SELECTOR),
        ),
        "drop the required pod affinity",
    ),
    "claim": (
        offline.node("n"),
        offline.pod(
            "p",
            spec={"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
        ),
        (
            "create a storage class that binds with WaitForFirstConsumer, and create claim c with "
            "it (the volume must then be provisioned), or correct the name in the pod"
        ),
    ),
    "profile": (
        offline.node("n"),
        offline.pod("p", spec={"schedulerName": "somebody"}),
        "create the pod with schedulerName kubestow",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_each_reason_has_its_remedy(case: str) -> None:
    node, pod, expected = CASES[case]
    with world(node, pod) as made:
        found = made.remedies("default/p")
        assert expected in [each.text for each in found.remedies]
        assert all(each.node for each in found.remedies)
        assert [each.cost for each in found.remedies] == sorted(
            each.cost for each in found.remedies
        )


def test_a_node_with_as_many_pods_as_it_takes_gets_room_for_one_more() -> None:
    node = offline.node("n", cpu=4, pods=1)
    for cpu, expected in ((1, "room"), (5, "2 more cpu and room")):
        with world(node, offline.pod("p", cpu=cpu), offline.pod("old", cpu=1, node="n")) as made:
            texts = [each.text for each in made.remedies("default/p").remedies]
        assert f"give node n {expected} for one more pod" in texts


def test_a_node_gets_the_labels_that_the_volumes_of_bound_claims_demand() -> None:
    made_for = {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "disk", "operator": "In", "values": [kind]}]}
        for kind in ("fast", "slow")
    ]}  # fmt: skip
    bound = volume("v", "local", claimed="c")
    bound["spec"]["nodeAffinity"] = {"required": made_for}
    claimed = claim("c", "local", "v")
    with world(offline.node("n"), mounting("p", "c"), bound, claimed) as made:
        found = made.remedies("default/p")
    assert found.remedies[0].text == "label node n with disk=fast"
    # A node stays in its zone.
    bound["metadata"]["labels"] = {ZONE: "z1__z2"}
    with world(offline.node("n"), mounting("p", "c"), bound, claimed) as made:
        found = made.remedies("default/p")
    assert not [each.text for each in found.remedies if "label" in each.text]


def test_the_nodes_with_most_room_are_looked_at_first() -> None:
    with offline.World() as made:
        for free in range(1, 9):
            made.add(offline.node(f"n{free}", cpu=free, memory="64Gi"))
        made.add(offline.pod("p", cpu=10))
        made.schedule()
        texts = [each.text for each in made.remedies("default/p").remedies]
    assert texts[0] == "request at most 8 cpu"
    assert "give node n8 2 more cpu" in texts
    assert len([each for each in texts if each.startswith("request at most")]) == 1


def rival(name: str, **term: Any) -> JsonObject:
    """Return a pod on n that keeps pods with the label a=b away."""
    spec = affinity("podAntiAffinity", topologyKey=ZONE, labelSelector=SELECTOR, **term)
    return offline.pod(name, node="n", spec=spec)


def test_a_pod_that_keeps_this_one_away_is_evicted() -> None:
    node = offline.node("n", labels={ZONE: "z"})
    with world(node, offline.pod("p", labels={"a": "b"}), rival("old"), rival("other")) as made:
        evicted = "evict default/old, default/other, which must not be near this pod"
        assert evicted in [each.text for each in made.remedies("default/p").remedies]
    far = rival("far", namespaces=["elsewhere"])
    with world(node, offline.pod("p", labels={"a": "b"}), rival("old"), far) as made:
        evicted = "evict default/old, which must not be near this pod"
        assert evicted in [each.text for each in made.remedies("default/p").remedies]


def test_a_pod_that_this_one_keeps_away_is_evicted() -> None:
    node = offline.node("n", labels={ZONE: "z"})
    spec = affinity(
        "podAntiAffinity", topologyKey=ZONE, labelSelector=SELECTOR, namespaceSelector={}
    )
    old = offline.pod("old", node="n", labels={"a": "b"})
    with world(node, offline.pod("p", spec=spec), old) as made:
        texts = [each.text for each in made.remedies("default/p").remedies]
        assert "evict default/old, which must not be near this pod" in texts


def test_a_preference_that_cannot_be_read_is_dropped() -> None:
    bad = {"key": "gen", "operator": "Gt", "values": ["abc"]}
    preferred = [{"weight": 1, "preference": {"matchExpressions": [bad]}}]
    spec = {
        "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    }
    with world(offline.node("n"), offline.pod("p", spec=spec), offline.node("m")) as made:
        (only,) = made.remedies("default/p").remedies
        assert only.text == "drop the preferred node affinity, which is invalid"


def test_superfluous_steps_are_left_out() -> None:
    other = {"matchLabels": {"c": "d"}}
    terms = [
        {"topologyKey": key, "labelSelector": each}
        for key, each in ((ZONE, SELECTOR), ("rack", other))
    ]
    spec = {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}
    with world(offline.node("n", cpu=1), offline.pod("p", cpu=2, spec=spec)) as made:
        found = made.remedies("default/p").remedies
        assert found[0].text == "request at most 1 cpu, and drop the required pod affinity"


def test_two_changes_are_combined_where_one_does_not_suffice() -> None:
    node = offline.node("n", cpu=4, taints=(TAINT,), unschedulable=True)
    with world(node, offline.pod("p", cpu=2)) as made:
        found = made.remedies("default/p")
        texts = [each.text for each in found.remedies]
        assert "uncordon node n, and let the pod tolerate dedicated=gpu:NoSchedule" in texts, texts


@pytest.mark.parametrize("count", [MAX_TAINTS, MAX_TAINTS + 1])
def test_very_many_taints_are_no_mistake(count: int) -> None:
    node = offline.node("n", cpu=4, taints=tuple(f"key-{at}=x:NoSchedule" for at in range(count)))
    with world(node, offline.pod("p", cpu=2)) as made:
        texts = [each.text for each in made.remedies("default/p", limit=9).remedies]
        assert any("tolerate key-0=x" in each for each in texts) == (count == MAX_TAINTS), texts


def test_pods_in_the_way_are_named() -> None:
    low = offline.pod("low", cpu=3, node="n")
    with world(offline.node("n", cpu=4), offline.pod("p", cpu=2, priority=9), low) as made:
        # Preemption is under way already: nothing has to change.
        assert made.placements() == {"default/p": "n"}
    never = offline.pod("p", cpu=2, priority=9, spec={"preemptionPolicy": "Never"})
    with world(offline.node("n", cpu=4), never, low) as made:
        found = made.remedies("default/p", limit=9)
        assert "evict default/low from n" in [each.text for each in found.remedies]


def of_class(name: str, priority: int, **fields: Any) -> JsonObject:
    return offline.pod(
        name, priority=priority, spec={"priorityClassName": f"class-{priority}"}, **fields
    )


def test_the_lowest_priority_class_that_helps_is_named_with_its_victims() -> None:
    others = [
        of_class("low", 10, cpu=3, node="n"),
        *(of_class(f"c{each}", each, cpu="10m", node="m") for each in (5, 20, 30)),
    ]
    full = offline.node("m", cpu="100m")
    with world(offline.node("n", cpu=4), offline.pod("p", cpu=2), full, *others) as made:
        found = next(
            each for each in made.remedies("default/p").remedies if "RaisePriority" in each.codes
        )
    assert found.text == (
        "give the pod priorityClassName class-20 (20), so that preemption evicts default/low from n"
    )
    assert found.node == "n"
    paths = {each.path: each.value for each in found.steps[0].changes}
    assert paths == {"/spec/priorityClassName": "class-20", "/spec/priority": 20}


def test_a_pod_that_may_not_preempt_gets_leave_to() -> None:
    low = offline.pod("low", cpu=3, node="n")
    never = offline.pod("p", cpu=2, priority=9, spec={"preemptionPolicy": "Never"})
    with world(offline.node("n", cpu=4), never, low) as made:
        texts = [each.text for each in made.remedies("default/p").remedies]
    assert (
        "let the pod preempt others (its preemptionPolicy is Never), so that preemption evicts "
        "default/low from n" in texts
    )


def test_no_priority_is_named_that_would_not_help() -> None:
    low = offline.pod("low", cpu="100m", node="n")
    with world(offline.node("n", cpu=4), offline.pod("p", cpu=10), low) as made:
        codes = [
            code for each in made.remedies("default/p", limit=20).remedies for code in each.codes
        ]
    assert codes
    assert "RaisePriority" not in codes


def test_a_pod_of_another_scheduler_has_remedies_where_preemption_could_help() -> None:
    full = offline.pod("full", cpu=3)
    pod = offline.pod("p", cpu=3, spec={"schedulerName": "somebody"})
    with world(offline.node("n", cpu=4), pod, full) as made:
        found = made.remedies("default/p")
    assert [each.text for each in found.first] == ["create the pod with schedulerName kubestow"]
    assert str(found).startswith("<Remedies First create the pod with schedulerName kubestow. ")
    texts = [each.text for each in found.remedies]
    assert "evict default/full from n" in texts
    priority = "give the pod a priority class of at least 1"
    assert f"{priority}, so that preemption evicts default/full from n" in texts


def test_a_pod_for_which_room_is_being_made_needs_nothing() -> None:
    low = offline.pod("low", cpu=3, node="n", spec={"terminationGracePeriodSeconds": 60})
    with offline.World() as made:
        made.add_all([offline.node("n", cpu=4), low])
        made.schedule()
        made.add(offline.pod("p", cpu=2, priority=9))
        made.run(until=made.now + 5)
        first = made.remedies("default/p").remedies[0]
    assert first.codes == ("AwaitEnd",)
    assert first.text.startswith("wait until default/low has ended on n, at 2026-01-01T00:01:")


def test_changes_of_containers_name_the_field_and_leave_the_others() -> None:
    ports = [{"containerPort": 80, "hostPort": 80}, {"containerPort": 81}]
    spec = {
        "containers": [
            {"name": "small", "resources": {"requests": {"cpu": "100m"}}},
            {"name": "large", "resources": {"requests": {"cpu": "8"}}, "ports": ports},
        ]
    }
    holder = offline.pod("q", node="n", spec={"containers": [{"name": "c", "ports": ports[:1]}]})
    with world(offline.node("n", cpu=4), offline.pod("p", spec=spec), holder) as made:
        found = made.remedies("default/p").remedies
    paths = {
        each.path for one in found for step in one.steps for each in step.changes
        if each.path.startswith("/spec/containers")
    }  # fmt: skip
    assert paths == {
        "/spec/containers/1/resources/requests/cpu",
        "/spec/containers/1/ports/0/hostPort",
    }


def test_nothing_has_to_change_for_a_pod_that_fits() -> None:
    with offline.World() as made:
        made.add(offline.node("n"))
        made.add(offline.pod("p"))
        found = made.remedies("default/p")
        assert (found.fits, found.remedies) == ("n", ())


def test_a_pod_that_does_not_wait_has_no_remedies() -> None:
    with world(offline.node("n"), offline.pod("p")) as made:
        for name in ("default/p", "default/none"):
            with pytest.raises(LookupError, match="does not wait"):
                made.remedies(name)


def quota(cpu_millis: str) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "team-a", "namespace": "default"},
        "spec": {"hard": {"deferred.kubestow.io/requests.cpu-millis": cpu_millis}},
    }


def test_a_quota_that_is_too_small_is_raised() -> None:
    with world(offline.node("n", cpu=16), offline.pod("p", cpu=4), quota("2000")) as made:
        (only,) = made.remedies("default/p").remedies
        assert (only.codes, only.text) == (("RaiseQuota",), "quota team-a +2 requests.cpu")
        (change,) = only.steps[0].changes
        assert change.path == "/spec/hard/deferred.kubestow.io~1requests.cpu-millis"
        made.add(quota(change.value))
        made.schedule()
        assert made.placements() == {"default/p": "n"}


def test_a_quota_and_a_node_are_combined() -> None:
    node = offline.node("n", cpu=16, unschedulable=True)
    with world(node, offline.pod("p", cpu=4), quota("2000")) as made:
        texts = [each.text for each in made.remedies("default/p").remedies]
        assert "quota team-a +2 requests.cpu, and uncordon node n" in texts


def test_no_node_at_all_needs_one() -> None:
    with offline.World() as made:
        made.add(offline.pod("p", cpu=2))
        made.schedule()
        (only,) = made.remedies("default/p").remedies
        assert only.codes == ("AddNode",)


def test_the_steps_for_a_pod_with_very_many_rules_are_few() -> None:
    """Each step has all rules of its kind, so that their number would count twice."""
    many = 500
    hard = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": SELECTOR}
    term = {"labelSelector": SELECTOR}
    node_terms = [
        {"matchExpressions": [{"key": f"k{i}", "operator": "Exists"}]} for i in range(many)
    ]
    spec: JsonObject = {
        "topologySpreadConstraints": [{**hard, "topologyKey": f"z{i}"} for i in range(many)],
    }
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    spec["affinity"] = {
        "nodeAffinity": {required: {"nodeSelectorTerms": node_terms}},
        "podAffinity": {required: [{**term, "topologyKey": f"z{i}"} for i in range(many)]},
    }
    with world(offline.node("n"), offline.pod("p", spec=spec)) as made, made.trial() as trial:
        parts = trial._assembly.trial_parts()
        with WhatIfTrial(parts) as tried:
            pod = tried.find("Pod", "default/p")
            assert pod is not None
            framework = parts.engine.frameworks["kubestow"]
            status = Status(Code.UNSCHEDULABLE)
            row = parts.cache.table.rows[0]
            node = parts.cache.table.nodes[row]
            found = Situation(tried, parts.cache.table, framework, pod, status, node)
            steps = [*pod_steps.spread(found), *pod_steps.pod_affinity(found)]
            assert 50 < len(steps) < 150
            assert max(len(each.text) for each in steps) < 200
            labelled = [each.text for each in node_steps.node_affinity(found)]
            assert labelled[0] == "label node n with k0=true"


def replica(number: int, **fields: Any) -> JsonObject:
    """Return a pod of the Deployment `web`."""
    labels = {"pod-template-hash": "abc12", "app": "web"}
    made = offline.pod(f"web-abc12-{number}", labels=labels, **fields)
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-abc12", "uid": "u"}
    made["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    return made


def test_replicas_of_the_same_deployment_are_no_victims() -> None:
    other = offline.pod("other", cpu=3, node="m", priority=5)
    nodes = offline.node("n", cpu=4), offline.node("m", cpu=4)
    with offline.World() as made:
        made.add_all([*nodes, other, *(replica(number, cpu=3) for number in range(2))])
        made.schedule()
        pending = next(f"default/web-abc12-{n}" for n in (0, 1) if made.explain(
            f"default/web-abc12-{n}").node == "")  # fmt: skip
        found = made.remedies(pending, limit=20).remedies
        removed = {
            each.name for one in found for step in one.steps for each in step.changes
            if each.action == "remove"
        }  # fmt: skip
        texts = [each.text for each in found]
    assert removed == {"default/other"}
    assert not [text for text in texts if "evicts default/web" in text]


def test_required_anti_affinity_between_replicas_is_relaxed_for_all_of_them() -> None:
    required = affinity(
        "podAntiAffinity",
        topologyKey="kubernetes.io/hostname",
        labelSelector={"matchLabels": {"app": "web"}},
    )
    with offline.World() as made:
        made.add_all(
            [offline.node("n", cpu=4), *(replica(n, cpu=1, spec=required) for n in range(2))]
        )
        made.schedule()
        found = made.remedies("default/web-abc12-1").remedies
    # A change of the template does not change pods that run: they would keep the new ones away.
    deleted = "and delete the pods that run with the old one"
    assert [each.text for each in found] == [
        f"make the required pod anti-affinity of Deployment/web preferred, {deleted}",
        "add a node like n",
    ]
    paths = {(each.name, each.path.rpartition("/")[2]) for each in found[0].steps[0].changes}
    assert paths == {
        (f"default/web-abc12-{number}", f"{kind}DuringSchedulingIgnoredDuringExecution")
        for number in (0, 1) for kind in ("required", "preferred")
    }  # fmt: skip


def test_a_node_that_takes_pods_is_the_model_of_a_new_one() -> None:
    nodes = [offline.node("a", cpu=4, unschedulable=True), offline.node("b", cpu=4)]
    with offline.World() as made:
        made.add_all([*nodes, offline.node("c", cpu=4), offline.pod("p", cpu=96)])
        made.schedule()
        texts = [each.text for each in made.remedies("default/p").remedies]
    assert "add a node like b with at least 96 cpu" in texts
    assert len([text for text in texts if text.startswith("give node")]) == 1
