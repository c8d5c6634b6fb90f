"""The autoscaler simulator in virtual time: scale-ups, events, timeouts."""

from __future__ import annotations

import random
from typing import Any

import pytest

from simulator.api import Api
from simulator.clock import SimClock
from simulator.controllers.event_recorder import COMBINED, SPAM_SECONDS
from simulator.objects import JsonObject
from tests.unit.simulator.autoscaling import Town, group, spread


@pytest.fixture
def town(api: Api, clock: SimClock) -> Town:
    """Zone a with a node and one pod of app=a; the only node of zone b is on cordon."""
    made = Town(api, clock)
    made.node("a1", "a")
    made.node("b0", "b", unschedulable=True)
    made.pod("first", "a1")
    return made


def wait_strictly(town: Town, name: str = "second", **spec: Any) -> None:
    town.pod(name, topologySpreadConstraints=[spread()], **spec)


def test_without_groups_it_is_silent_and_asks_for_no_time(town: Town) -> None:
    wait_strictly(town)
    town.pass_time(60)
    assert (town.autoscaler.next_due(), town.events()) == (None, [])


def test_a_group_grows_and_its_node_comes_after_a_while(town: Town) -> None:
    town.configure(group("b", max=3, provisionSeconds=30))
    wait_strictly(town)
    town.pass_time(10)
    assert town.events("Pod", "second") == [
        ("TriggeredScaleUp", "pod triggered scale-up: [{b 0->1 (max: 3)}]")
    ]
    town.pass_time(29)
    assert town.nodes() == ["a1", "b0"]
    town.pass_time(1)
    assert town.nodes() == ["a1", "b-1", "b0"]
    # The pod fits there; whether the scheduler has seen it yet is not the autoscaler's affair.
    town.pass_time(60)
    assert town.events("ConfigMap") == [
        ("ScaledUpGroup", "Scale-up: setting group b size to 1 instead of 0 (max: 3)"),
        ("ScaledUpGroup", "Scale-up: group b size set to 1 instead of 0 (max: 3)"),
    ]
    assert town.reasons("Pod") == ["TriggeredScaleUp"]


def test_a_pod_that_fits_on_a_node_gets_no_event(town: Town) -> None:
    town.configure(group("b"))
    town.pod("second", topologySpreadConstraints=[spread(maxSkew=2)])
    town.pass_time(20)
    assert town.events() == []


def test_the_new_node_follows_the_template(town: Town, api: Api) -> None:
    taints = [{"key": "k", "value": "v", "effect": "NoSchedule"}]
    template = {"labels": {"x": "y"}, "taints": taints, "allocatable": {"cpu": 8, "pods": "5"}}
    town.configure({"name": "g", "zone": "b", "template": template, "min": 1})
    town.pass_time(40)
    node = api.get(api.resources.of_kind("v1", "Node"), "", "g-1").obj
    labels = node["metadata"]["labels"]
    assert (labels["topology.kubernetes.io/zone"], labels["x"]) == ("b", "y")
    assert labels["kubestow.io/node-group"] == "g"
    assert labels["kubernetes.io/hostname"] == "g-1"
    assert node["spec"]["taints"] == taints
    assert node["status"]["allocatable"] == {"cpu": "8", "pods": "5"}


def test_a_stocked_out_group_is_tried_fails_and_is_left_alone(town: Town) -> None:
    town.configure(group("b", state="stockout", max=3), limitEvents=False)
    wait_strictly(town)
    town.pass_time(10)
    assert town.reasons("Pod") == ["TriggeredScaleUp"]
    town.pass_time(30)
    *begun, (reason, message) = town.events("ConfigMap", "cluster-autoscaler-status")
    assert [each for each, _ in begun] == ["ScaledUpGroup", "ScaledUpGroup"]
    assert reason == "ScaleUpFailed"
    assert message.startswith("Failed adding 1 nodes to group b due to ")
    assert "; source errors: " in message
    assert town.events("Pod", "second")[-1] == (
        "NotTriggerScaleUp",
        "pod didn't trigger scale-up: 1 in backoff after failed scale-up",
    )
    town.pass_time(299)
    assert town.reasons("ConfigMap")[2:] == ["ScaleUpFailed"]
    town.pass_time(12)
    town.pass_time(30)
    assert town.nodes() == ["a1", "b0"]
    assert town.reasons("Pod").count("TriggeredScaleUp") == 1, "counted, not written"
    assert town.autoscaler.describe()["groups"][0]["backoffUntil"]


def test_a_refused_request_causes_no_event_on_pods_in_that_loop(town: Town) -> None:
    town.configure(group("b", state="refuse"))
    wait_strictly(town)
    town.pass_time(10)
    assert town.reasons("Pod") == []
    (begun, _), (reason, message) = town.events("ConfigMap")
    assert (begun, reason) == ("ScaledUpGroup", "FailedToScaleUpGroup")
    assert message.startswith("Scale-up failed for group b: ")
    town.pass_time(10)
    assert town.reasons("Pod") == ["NotTriggerScaleUp"]


def test_a_node_that_never_comes_is_given_up_after_fifteen_minutes(town: Town) -> None:
    town.configure(group("b", state="hang"))
    wait_strictly(town)
    town.pass_time(10 + 899)
    assert town.reasons("Pod") == ["TriggeredScaleUp"]
    town.pass_time(1)
    assert town.events("ConfigMap")[2:] == [
        ("ScaleUpTimedOut", "Nodes added to group b failed to register within 15m0s")
    ]
    town.pass_time(10)
    assert town.reasons("Pod") == ["TriggeredScaleUp", "NotTriggerScaleUp"]


@pytest.mark.parametrize(
    ("fields", "spec", "message"),
    [
        ({"max": 0}, {}, "1 max node group size reached"),
        ({}, {"cpu": "5"}, "1 Insufficient cpu"),
        ({}, {"nodeSelector": {"disk": "ssd"}},
         "1 node(s) didn't match Pod's node affinity/selector"),
        ({"zone": "a"}, {}, "1 node(s) didn't match pod topology spread constraints"),
        ({"zone": ""}, {},
         "1 node(s) didn't match pod topology spread constraints (missing required label)"),
        ({"template": {"taints": [{"key": "k"}], "allocatable": {"cpu": "4", "pods": "9"}}}, {},
         "1 node(s) had untolerated taint(s)"),
        ({"state": "off"}, {}, ""),
    ],
)  # fmt: skip
def test_a_pod_that_no_group_can_help_gets_the_reason(
    town: Town, fields: dict[str, Any], spec: dict[str, Any], message: str
) -> None:
    town.configure({**group("b"), **fields})
    wait_strictly(town, **spec)
    town.pass_time(10)
    assert town.events() == [("NotTriggerScaleUp", f"pod didn't trigger scale-up: {message}")]


def test_reasons_of_several_groups_are_counted(town: Town) -> None:
    town.configure(group("a"), group("b", max=0), group("c", max=0))
    wait_strictly(town)
    town.pass_time(10)
    [(_, message)] = town.events()
    assert set(message.removeprefix("pod didn't trigger scale-up: ").split(", ")) == {
        "2 max node group size reached",
        "1 node(s) didn't match pod topology spread constraints",
    }


def test_the_first_group_that_fits_grows_and_the_others_wait(town: Town) -> None:
    town.configure(group("small"), group("b"), group("c"))
    town.pod("picky", nodeSelector={"topology.kubernetes.io/zone": "c"})
    town.pod("hopeless", nodeSelector={"disk": "ssd"})
    wait_strictly(town, nodeSelector={"topology.kubernetes.io/zone": "b"})
    town.pass_time(10)
    # In the order of groups; a loop in which one grew sends no event about the rest.
    assert town.events("Pod") == [
        ("TriggeredScaleUp", "pod triggered scale-up: [{b 0->1 (max: 10)}]")
    ]
    town.pass_time(10)
    assert town.reasons("Pod") == ["TriggeredScaleUp", "TriggeredScaleUp"]
    town.pass_time(10)
    assert town.reasons("Pod") == ["TriggeredScaleUp", "TriggeredScaleUp", "NotTriggerScaleUp"]


def test_as_many_nodes_come_as_the_pods_need(town: Town) -> None:
    town.configure(group("b", max=10))
    selector = {"topology.kubernetes.io/zone": "b"}
    for number in range(9):
        town.pod(f"p{number}", nodeSelector=selector)
    town.pass_time(10)
    assert {message for _, message in town.events("Pod")} == {
        "pod triggered scale-up: [{b 0->3 (max: 10)}]"
    }
    town.pass_time(30)
    assert town.nodes() == ["a1", "b-1", "b-2", "b-3", "b0"]


def test_the_cluster_does_not_grow_over_its_limit(town: Town) -> None:
    town.configure(group("b"), maxNodesTotal=2)
    wait_strictly(town)
    town.pass_time(10)
    assert town.events() == [
        ("MaxNodesTotalReached", "Max total nodes in cluster reached: 2"),
        ("NotTriggerScaleUp", "pod didn't trigger scale-up: max total nodes in cluster reached"),
    ]


@pytest.mark.parametrize(
    "unlooked",
    [
        {"waiting": False},
        {"schedulingGates": [{"name": "example.com/g"}]},
    ],
)
def test_pods_without_an_unschedulable_condition_are_ignored(
    town: Town, unlooked: dict[str, Any]
) -> None:
    town.configure(group("b"))
    wait_strictly(town, **unlooked)
    town.pass_time(20)
    assert town.events() == []


def test_a_nominated_pod_is_left_to_preemption_and_counts_on_its_node(town: Town) -> None:
    town.configure(group("b"))
    wait_strictly(town)
    town.status("second", nominatedNodeName="a1")
    town.pass_time(20)
    assert town.events() == []
    town.pod("big", cpu="3", nodeSelector={"topology.kubernetes.io/zone": "a"})
    town.pass_time(10)
    assert town.reasons() == ["NotTriggerScaleUp"], "2 of 4 CPUs are taken on a1"


def test_a_pod_gets_a_reason_once_in_five_minutes(town: Town) -> None:
    """Suppressed repeats count: the next event that is sent has the total."""
    town.configure(group("b", max=0))
    wait_strictly(town)
    town.pass_time(SPAM_SECONDS)
    assert _counts(town) == [1]
    town.pass_time(20)
    assert _counts(town) == [31]


def test_with_duplicates_recorded_a_pod_gets_25_events_and_then_few(town: Town) -> None:
    town.configure(group("b", max=0), limitEvents=False)
    wait_strictly(town)
    town.pass_time(250)
    assert _counts(town) == [25]
    town.pass_time(50)
    assert _counts(town) == [25]
    town.pass_time(10)
    assert _counts(town) == [31], "five minutes after the first one more is sent"
    town.pass_time(SPAM_SECONDS - 10)
    assert _counts(town) == [31]


def test_another_message_of_the_same_reason_is_left_out_as_well(town: Town) -> None:
    """The next group takes over, without an event on the pod."""
    town.configure(group("b", state="stockout"), group("c", zone="b"))
    wait_strictly(town, nodeSelector={"topology.kubernetes.io/zone": "b"})
    town.pass_time(60)
    assert town.events("Pod") == [
        ("TriggeredScaleUp", "pod triggered scale-up: [{b 0->1 (max: 10)}]")
    ]
    assert town.events("ConfigMap")[-2:] == [
        ("ScaledUpGroup", "Scale-up: setting group c size to 1 instead of 0 (max: 10)"),
        ("ScaledUpGroup", "Scale-up: group c size set to 1 instead of 0 (max: 10)"),
    ]


def test_similar_events_about_groups_are_combined_after_ten(town: Town) -> None:
    town.configure(*(group(f"g{number}", zone="b", state="refuse") for number in range(7)))
    wait_strictly(town, nodeSelector={"topology.kubernetes.io/zone": "b"})
    for number in range(7):
        town.configure(*(group(f"g{other}", zone="b", state="refuse" if other >= number else "off")
                         for other in range(7)))  # fmt: skip
        town.pass_time(10)
    town.configure(*(group(f"z{number}", zone="b") for number in range(1)))
    for name in ("x", "y"):
        town.pod(name, cpu="4", nodeSelector={"topology.kubernetes.io/zone": "b"})
        town.pass_time(10)
    messages = [message for reason, message in town.events("ConfigMap")
                if reason == "ScaledUpGroup"]  # fmt: skip
    assert [each for each in messages if each.startswith(COMBINED)] == [
        f"{COMBINED}Scale-up: group z0 size set to 3 instead of 2 (max: 10)"
    ], "one event, which goes on changing"


def _counts(town: Town) -> list[int]:
    return [each.obj["count"] for each in town.api.store.items("events")]


def test_an_event_names_source_and_pod(town: Town) -> None:
    town.configure(group("b"))
    wait_strictly(town)
    town.pass_time(10)
    [event] = [
        each.obj
        for each in town.api.store.items("events")
        if each.obj["involvedObject"]["kind"] == "Pod"
    ]
    assert event["source"] == {"component": "cluster-autoscaler"}
    assert event["reportingComponent"] == "cluster-autoscaler"
    assert (event["type"], event["metadata"]["namespace"]) == ("Normal", "default")
    pod = town.api.get(town.api.resources.of_kind("v1", "Pod"), "default", "second").obj
    assert event["involvedObject"]["uid"] == pod["metadata"]["uid"]


def test_a_new_state_ends_the_backoff(town: Town) -> None:
    town.configure(group("b", state="refuse"))
    wait_strictly(town)
    town.pass_time(20)
    town.configure(group("b", state="ok"))
    town.pass_time(40)
    assert "b-1" in town.nodes()


def test_stock_writes_no_condition(town: Town) -> None:
    town.configure(group("b", state="refuse"))
    wait_strictly(town)
    town.pass_time(30)
    assert town.condition("second") is None


def test_native_writes_the_condition_in_each_loop(town: Town) -> None:
    town.go_native()
    town.configure(group("b", state="stockout"))
    wait_strictly(town)
    town.pass_time(10)
    assert town.condition("second") == ("True", "TriggeredScaleUp")
    town.pass_time(30)
    assert town.condition("second") == ("False", "ScaleUpBackoff")
    pod = town.api.get(town.api.resources.of_kind("v1", "Pod"), "default", "second")
    [entry] = pod.obj["metadata"]["managedFields"]
    assert (entry["manager"], entry["subresource"]) == ("cluster-autoscaler", "status")
    town.pass_time(60)
    again = town.api.get(town.api.resources.of_kind("v1", "Pod"), "default", "second")
    assert again.rv == pod.rv, "an equal condition is not written again"


def test_native_simulates_a_relaxed_pod_relaxed(town: Town) -> None:
    town.go_native()
    town.configure(group("b", state="refuse"), group("a"), limitEvents=False)
    town.pod("second", cpu="4", topologySpreadConstraints=[spread(["NodeProvisioningFailed"])])
    town.pass_time(10)
    assert town.reasons() == ["ScaledUpGroup", "FailedToScaleUpGroup"]
    town.pass_time(10)
    assert town.condition("second") == ("False", "ScaleUpBackoff")
    # Strictly only zone b would do; relaxed, another node in zone a does.
    town.pass_time(10)
    assert town.events("Pod")[-1][1] == "pod triggered scale-up: [{a 0->1 (max: 10)}]"


def test_stock_goes_on_simulating_the_strict_rule(town: Town) -> None:
    """F12: an autoscaler that knows no criteria never builds where only the relaxed pod fits."""
    town.configure(group("b", state="refuse"), group("a"), limitEvents=False)
    town.pod("second", cpu="4", topologySpreadConstraints=[spread(["NodeProvisioningFailed"])])
    town.status("second", conditions=[{"type": "NodeProvisioningInProgress", "status": "False"}])
    town.pass_time(120)
    assert town.nodes() == ["a1", "b0"]
    assert "TriggeredScaleUp" not in town.reasons()


def karpenter(town: Town, *groups: JsonObject, **settings: Any) -> None:
    town.configure(*groups, flavor="karpenter", **settings)


def claims(town: Town) -> dict[str, dict[str, str]]:
    """Conditions of each NodeClaim."""
    return {
        each.name: {one["type"]: one["status"] for one in each.obj["status"]["conditions"]}
        for each in town.api.store.items("nodeclaims.karpenter.sh")
    }


def test_karpenter_nominates_and_reports_missing_capacity(town: Town) -> None:
    karpenter(town, group("b", state="stockout", provisionSeconds=5))
    wait_strictly(town)
    town.pass_time(10)
    [(name, conditions)] = claims(town).items()
    assert (name.startswith("b-"), conditions["Launched"]) == (True, "Unknown")
    assert town.events() == [("Nominated", f"Pod should schedule on: nodeclaim/{name}")]
    town.pass_time(5)
    [(reason, message)] = town.events("NodeClaim", name)
    assert reason == "InsufficientCapacityError"
    assert message.startswith(f"NodeClaim {name} event: insufficient capacity, ")
    assert claims(town) == {}, "deleted"
    town.pass_time(10)
    reason, message = town.events("Pod", "second")[-1]
    assert reason == "FailedScheduling"
    assert message.startswith("Failed to schedule pod, ")
    assert {each.obj["source"]["component"] for each in town.api.store.items("events")} == {
        "karpenter"
    }


def test_karpenter_nominates_before_it_is_refused(town: Town) -> None:
    karpenter(town, group("b", state="refuse"))
    wait_strictly(town)
    town.pass_time(10)
    assert town.reasons() == ["Nominated", "InsufficientCapacityError"]
    assert claims(town) == {}


def test_karpenters_next_claim_is_nominated_in_no_event(town: Town) -> None:
    """RC1: only the claim itself shows it."""
    karpenter(town, group("b", state="refuse"), group("c", zone="b"))
    wait_strictly(town, nodeSelector={"topology.kubernetes.io/zone": "b"})
    town.pass_time(20)
    assert town.reasons() == ["Nominated", "InsufficientCapacityError"]
    [(name, conditions)] = claims(town).items()
    assert name.startswith("c-")
    assert conditions == {
        "Launched": "True", "Registered": "Unknown", "Initialized": "Unknown", "Ready": "Unknown"
    }  # fmt: skip
    town.pass_time(30)
    assert set(claims(town)[name].values()) == {"True"}
    assert name in town.nodes()


def test_karpenter_repeats_a_nomination_for_a_claim_that_does_not_come(town: Town) -> None:
    """RC5: about every two minutes, and the claim goes without an event after a quarter hour."""
    karpenter(town, group("b", state="hang"))
    wait_strictly(town)
    times = []
    for second in range(900):
        before = _counts(town)
        town.pass_time(1)
        if _counts(town) != before:
            times.append(second + 1)
    assert times == [10, 140, 270, 400, 530, 660, 790]
    assert town.reasons() == ["Nominated"]
    town.pass_time(10)
    assert (claims(town), town.reasons()) == ({}, ["Nominated", "FailedScheduling"])


def test_karpenter_nominates_ten_pods_at_once_and_hides_the_others(town: Town) -> None:
    """Those beyond the rate stay hidden as long as if they had been sent."""
    karpenter(town, group("b", state="hang", max=20))
    for number in range(30):
        town.pod(f"p{number:02}", nodeSelector={"topology.kubernetes.io/zone": "b"})
    town.pass_time(10)
    assert len(town.reasons()) == 10
    town.pass_time(120)
    assert len(town.reasons()) == 10
    town.pass_time(10)
    assert len(town.reasons()) == 10, "the same ten are the first again"
    assert sum(_counts(town)) == 20


def test_karpenter_names_the_claim_on_which_each_pod_is_to_run(town: Town) -> None:
    karpenter(town, group("b", max=10))
    for name in ("p", "q"):
        town.pod(name, cpu="4", nodeSelector={"topology.kubernetes.io/zone": "b"})
    town.pass_time(10)
    messages = {message for _, message in town.events("Pod")}
    assert messages == {f"Pod should schedule on: nodeclaim/{name}" for name in claims(town)}
    assert len(messages) == 2


def test_karpenter_provides_for_all_pods_in_one_loop_and_tells_the_others(town: Town) -> None:
    karpenter(town, group("b"), group("c"))
    town.pod("there", nodeSelector={"topology.kubernetes.io/zone": "c"})
    town.pod("hopeless", nodeSelector={"disk": "ssd"})
    town.pod("here", nodeSelector={"topology.kubernetes.io/zone": "b"})
    town.pass_time(10)
    assert sorted(name[0] for name in claims(town)) == ["b", "c"]
    assert sorted(town.reasons("Pod")) == ["FailedScheduling", "Nominated", "Nominated"]


def test_a_malformed_pod_stops_nothing(town: Town) -> None:
    town.configure(group("b"))
    expressions = [{"key": "x", "operator": "Nope", "values": []}]
    town.pod("odd", topologySpreadConstraints=[
        spread(labelSelector={"matchExpressions": expressions})
    ])  # fmt: skip
    town.pod("worse", cpu="lots")
    wait_strictly(town)
    town.pass_time(10)
    assert town.reasons("Pod") == ["TriggeredScaleUp"]


@pytest.mark.parametrize("seed", range(20))
def test_it_never_promises_more_than_a_group_may_have(api: Api, clock: SimClock, seed: int) -> None:
    """Random pods and states: sizes stay within their limits, strict spread decides."""
    source = random.Random(seed)
    town = Town(api, clock)
    states = ["ok", "refuse", "stockout", "hang", "off"]
    groups = [
        group(zone, state=source.choice(states), max=source.randint(0, 3), min=0,
              provisionSeconds=source.randint(1, 40))
        for zone in "abc"
    ]  # fmt: skip
    town.configure(*groups, maxNodesTotal=source.choice([0, 3]))
    for number in range(12):
        constraints = [spread()] if source.random() < 0.7 else []
        town.pod(f"p{number}", cpu=str(source.randint(1, 5)), topologySpreadConstraints=constraints)
        town.pass_time(source.randint(1, 60))
        for described in town.autoscaler.describe()["groups"]:
            assert described["size"] <= described["max"]
        assert not town.autoscaler.settings.max_nodes_total or len(town.nodes()) <= 3
