"""Fallback from outside: combined rules against an ordinary `kubestow run`, default gates on."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from tests.integration.fallback.outside import CONDITION, Case, Server, until

NPF = "zone=NodeProvisioningFailed"
PF = "zone=PreemptionFailed"
BOTH = f"{NPF}+PreemptionFailed"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("outside")) as running:
        yield running


@pytest.fixture(scope="module")
def served(server: Server) -> Iterator[Server]:
    """With a scheduler that stays."""
    with server.scheduler():
        yield server


def test_story_3_the_balloons_are_in_the_wrong_zone_and_no_cpu_is_free(served: Server) -> None:
    case = Case(served, "balloons")
    case.node("z1", "Z1")
    case.node("z2", "Z2")
    case.pod("first", nodeName="balloons-z1", priorityClassName="higher")
    for number in range(3):
        case.other(f"balloon-{number}", "1", "z1")
    case.other("full", "4", "z2", "higher")
    case.pod("p", "2", fallback=PF, priorityClassName="high")
    case.until_bound("p", "z1")
    left = [number for number in range(3) if case.node_of(f"balloon-{number}")]
    assert len(left) == 1, "as many victims as needed"
    assert case.node_of("full") == "z2"


def test_s6_s7_gated_with_the_condition_set_it_is_strict_once(served: Server) -> None:
    case = Case(served, "gated")
    case.uneven()
    case.pod("p", fallback=BOTH, schedulingGates=[{"name": "wait"}])
    case.provisioning("p", "False")
    case.until_reason("p", "SchedulingGated")
    case.patch("p", {"spec": {"schedulingGates": None}})
    case.until_bound("p", "z1")
    assert case.attempts("p") == 2


def test_s6_held_for_quota_then_released_it_is_strict_once(served: Server) -> None:
    case = Case(served, "held")
    case.uneven()
    hard = "deferred.kubestow.io/requests.cpu-millis"
    quotas = f"{case.path}/resourcequotas"
    served("POST", quotas, {"metadata": {"name": "q"}, "spec": {"hard": {hard: "5000"}}})
    until(lambda: served("GET", f"{quotas}/q").get("status", {}).get("used"), "a count")
    case.pod("p", fallback=PF)
    case.until_reason("p", "ResourceQuotaValidated")
    assert case.attempts("p") == 0
    body = {"spec": {"hard": {hard: "6000"}}}
    served("PATCH", f"{quotas}/q", body, "application/merge-patch+json")
    case.until_bound("p", "z1")
    assert case.attempts("p") == 2


def test_s6_evictions_that_the_server_refuses_are_a_failed_preemption(served: Server) -> None:
    case = Case(served, "refused")
    case.uneven()
    rule = {"action": "error", "verb": "delete", "resource": "pods", "namespace": case.name}
    served("POST", "/_kubestow/faults", {**rule, "code": 403})
    case.pod("p", fallback=PF, priorityClassName="high")
    case.until_bound("p", "z1")
    (note,) = until(lambda: case.notes("p", "TopologySpreadFallback"), "an event")
    assert note.endswith("PreemptionFailed (evictions failed)")


def test_replicas_spread_as_far_as_there_is_room_and_no_further(served: Server) -> None:
    case = Case(served, "replicas")
    case.node("z1", "Z1", "20")
    case.node("z2", "Z2", "5")
    for number in range(16):
        case.pod(f"p-{number}", fallback=PF)
    names = [f"p-{number}" for number in range(16)]
    nodes = [until(partial(case.node_of, name), f"{name} is bound") for name in names]
    assert (nodes.count("z1"), nodes.count("z2")) == (11, 5)


def test_a34_conditions_that_come_while_pods_are_tried_are_not_lost(served: Server) -> None:
    case = Case(served, "in-flight")
    case.uneven()
    case.node("more", "Z1", "40")
    for number in range(25):
        case.pod(f"p-{number}", fallback=NPF)
        case.provisioning(f"p-{number}", "False")
    for number in range(25):
        until(partial(case.node_of, f"p-{number}"), f"p-{number} is bound")


def test_a_flapping_condition_causes_no_more_attempts_than_it_can_change(served: Server) -> None:
    case = Case(served, "flapping")
    case.uneven()
    selector = {"matchLabels": {"hated": "yes"}}
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
    hate = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    case.other("hates", "1", "z1", "higher", affinity=hate)
    case.pod("p", fallback=NPF, labels={"hated": "yes"})
    case.until_reason("p", "Unschedulable")
    for number in range(30):
        case.provisioning("p", "True" if number % 2 else "False")
    # Once this pod is bound, the scheduler has handled all earlier events.
    case.pod("fence", topologySpreadConstraints=[])
    case.until_bound("fence", "z1")
    assert case.attempts("p") <= 3


def test_a25_s11_a_scheduler_killed_during_an_eviction_evicts_no_other_pod(server: Server) -> None:
    case = Case(server, "latch", "second")
    for name in ("z1", "z1b"):
        case.node(name, "Z1")
        case.other(f"balloon-{name}", "3", name, terminationGracePeriodSeconds=3600)
    case.node("z2", "Z2")
    case.pod("first", nodeName="latch-z1", priorityClassName="higher")
    case.other("full", "4", "z2", "higher")

    def dying() -> list[str]:
        names = ("balloon-z1", "balloon-z1b")
        return [name for name in names if "deletionTimestamp" in case.get(name).get("metadata", {})]

    with server.scheduler("second") as kill:
        case.pod("p", "2", fallback=PF, priorityClassName="high")
        victims = until(dying, "a victim")
        until(lambda: case.condition("p", CONDITION).get("status") == "True", "soft")
        kill()
    (victim,) = victims
    before = case.attempts("p")
    with server.scheduler("second"):
        until(lambda: case.attempts("p") > before, "an attempt of the next process")
        case.pod("fence", "0", topologySpreadConstraints=[])
        until(lambda: case.node_of("fence"), "the fence")
        assert dying() == victims
        case.delete_at_once(victim)
        case.until_bound("p", victim.removeprefix("balloon-"))
        assert dying() == [], "the other balloon lives"
