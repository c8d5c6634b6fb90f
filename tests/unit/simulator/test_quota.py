"""Quota admission and the quota controller, in both personalities."""

from __future__ import annotations

import pytest

from simulator.admission import WriteOptions
from simulator.deferral import MARK_CONDITION
from simulator.errors import ApiError
from simulator.gates import QUOTA_GATE
from simulator.objects import JsonObject
from tests.unit.simulator.quotas import CPU_MILLIS, HOLD, Bench


def _mark(pod: JsonObject) -> str:
    conditions = pod["status"].get("conditions") or []
    return "".join(one["status"] for one in conditions if one["type"] == MARK_CONDITION)


# ------------------------------------------------------------------------------------- admission


def test_a_dry_run_is_checked_and_not_charged() -> None:
    bench = Bench()
    bench.quota({"requests.cpu": "2"})
    body = {
        "metadata": {"name": "p"},
        "spec": {
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}]
        },
    }
    bench.api.create(bench.pods, "default", body, WriteOptions(dry_run=True))
    assert bench.used() == {"requests.cpu": "0"}
    assert bench.refusal("p", "3")


def test_a_quota_without_usage_limits_nothing() -> None:
    bench = Bench(controllers=[])
    bench.quota({"requests.cpu": "1"})
    assert bench.refusal("p", "5") == ""


def test_missing_usage_is_refused_as_unknown() -> None:
    bench = Bench()
    bench.quota({"requests.cpu": "9", "pods": "9"})
    bench.patch_quota({"status": {"used": None}}, "status")
    why = "status unknown for quota: q, resources: pods,requests.cpu"
    assert bench.refusal("p", "1") == f'pods "p" is forbidden: {why}'


def test_charging_is_exact_and_stops_at_the_limit() -> None:
    bench = Bench()
    bench.quota({"requests.cpu": "1"})
    let_in = [bench.refusal(f"p{number}", "300m") == "" for number in range(6)]
    assert let_in == [True] * 3 + [False] * 3
    assert bench.used() == {"requests.cpu": "900m"}


def test_a_refusal_by_one_quota_charges_none() -> None:
    bench = Bench()
    bench.quota({"requests.cpu": "9"}, "a")
    bench.quota({"requests.cpu": "1"}, "b")
    assert "exceeded quota: b," in bench.refusal("p", "2")
    assert bench.used("a") == bench.used("b") == {"requests.cpu": "0"}


@pytest.mark.parametrize("personality", ["stock", "native"])
def test_growing_a_gated_pod_is_charged_where_gated_pods_are(personality: str) -> None:
    bench = Bench(personality=personality)
    bench.quota({"requests.cpu": "2"})
    bench.pod("p", "1", gates=[HOLD])

    def resize(cpu: str) -> None:
        patch = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}}
        bench.api.patch(
            bench.pods,
            "default",
            "p",
            patch,
            "application/strategic-merge-patch+json",
            subresource="resize",
        )

    if personality == "native":
        resize("3")
        assert bench.used() == {"requests.cpu": "0"}
        return
    with pytest.raises(ApiError, match=r"requested: requests\.cpu=2, used: requests\.cpu=1"):
        resize("3")
    resize("1500m")
    assert bench.used() == {"requests.cpu": "1500m"}


# ------------------------------------------------------------------------------------ controller


def test_limits_are_copied_and_usage_counted() -> None:
    bench = Bench()
    bench.pod("p", "500m")
    bench.quota({"requests.cpu": "2", "pods": "5", "count/pods": "5", "configmaps": "3"})
    assert bench.hard() == {
        "requests.cpu": "2",
        "pods": "5",
        "count/pods": "5",
        "configmaps": "3",
    }
    assert bench.used() == {
        "requests.cpu": "500m",
        "pods": "1",
        "count/pods": "1",
        "configmaps": "0",
    }


def test_what_ends_or_goes_frees_its_share() -> None:
    bench = Bench()
    bench.quota({"requests.cpu": "2", "pods": "5", "count/pods": "5"})
    bench.pod("a", "1")
    bench.pod("b", "1")
    bench.bind("a")
    bench.status("a", {"phase": "Succeeded"})
    bench.settle()
    assert bench.used() == {"requests.cpu": "1", "pods": "1", "count/pods": "2"}
    bench.delete("a")
    bench.delete("b")
    bench.settle()
    assert bench.used() == {"requests.cpu": "0", "pods": "0", "count/pods": "0"}


def test_an_overdue_deletion_is_noticed_by_the_resync_alone() -> None:
    bench = Bench(quota_resync_seconds=100.0)
    bench.quota({"requests.cpu": "2"})
    bench.pod("a", "1", terminationGracePeriodSeconds=10)
    bench.bind("a")
    bench.delete("a")
    bench.clock.advance(25)
    bench.settle()
    assert bench.used() == {"requests.cpu": "1"}
    bench.clock.advance(100)
    bench.settle()
    assert bench.used() == {"requests.cpu": "0"}


def test_a_deadline_moves_a_pod_between_scopes() -> None:
    bench = Bench()
    bench.quota({"requests.cpu": "2"}, "ends", scopes=["Terminating"])
    bench.quota({"requests.cpu": "2"}, "stays", scopes=["NotTerminating"])
    bench.pod("a", "1")
    bench.bind("a")
    assert (bench.used("ends"), bench.used("stays")) == (
        {"requests.cpu": "0"},
        {"requests.cpu": "1"},
    )
    bench.api.patch(
        bench.pods,
        "default",
        "a",
        {"spec": {"activeDeadlineSeconds": 60}},
        "application/merge-patch+json",
    )
    bench.settle()
    assert (bench.used("ends"), bench.used("stays")) == (
        {"requests.cpu": "1"},
        {"requests.cpu": "0"},
    )


def test_a_resize_that_happened_is_recounted() -> None:
    bench = Bench()
    bench.quota({"requests.cpu": "4"})
    bench.pod("a", "1")
    bench.bind("a")
    for cpu in ("1", "3"):
        held = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
        bench.status("a", {"containerStatuses": [held]})
    bench.settle()
    assert bench.used() == {"requests.cpu": "3"}


def test_binding_and_creating_cause_no_recount_in_stock() -> None:
    bench = Bench()
    bench.quota({"requests.cpu": "4"})
    bench.pod("a", "1")
    charged = bench.version()
    bench.bind("a")
    bench.settle()
    assert bench.version() == charged


def test_foreign_usage_is_kept_and_costs_no_write() -> None:
    bench = Bench(quota_resync_seconds=10.0)
    bench.quota({CPU_MILLIS: "1k", "pods": "5"})
    assert bench.used() == {"pods": "0"}
    bench.patch_quota({"status": {"used": {CPU_MILLIS: "700"}}}, "status")
    bench.pod("a", "3")
    bench.delete("a")
    bench.settle()
    assert bench.used() == {CPU_MILLIS: "700", "pods": "0"}
    before = bench.version()
    for _ in range(5):
        bench.clock.advance(11)
        bench.settle()
    assert bench.version() == before
    bench.patch_quota({"spec": {"hard": {CPU_MILLIS: "2k"}}})
    bench.settle()
    assert (bench.hard()[CPU_MILLIS], bench.used()[CPU_MILLIS]) == ("2k", "700")


def test_a_key_that_left_the_spec_leaves_the_status() -> None:
    bench = Bench()
    bench.quota({CPU_MILLIS: "1k", "pods": "5"})
    bench.patch_quota({"status": {"used": {CPU_MILLIS: "700"}}}, "status")
    bench.patch_quota({"spec": {"hard": {CPU_MILLIS: None}}})
    bench.settle()
    assert (bench.hard(), bench.used()) == ({"pods": "5"}, {"pods": "0"})


def test_a_controller_that_is_off_counts_later() -> None:
    bench = Bench()
    bench.quota({"requests.cpu": "4"})
    bench.pod("a", "1")
    bench.cluster.runner.switch("quota", False)
    bench.delete("a")
    bench.settle()
    assert bench.used() == {"requests.cpu": "1"}
    bench.cluster.runner.switch("quota", True)
    bench.settle()
    assert bench.used() == {"requests.cpu": "0"}


def test_settings_are_checked_before_they_change() -> None:
    bench = Bench()
    with pytest.raises(ValueError, match="a number above 0"):
        bench.cluster.quotas.adjust({"resyncSeconds": 0})
    bench.cluster.quotas.adjust({"resyncSeconds": 5})
    assert bench.cluster.quotas.settings() == {"resyncSeconds": 5.0}


# ---------------------------------------------------------------------------------------- native


def test_native_charges_a_gated_pod_once_it_has_a_node() -> None:
    bench = Bench(personality="native")
    bench.quota({"requests.cpu": "2", "pods": "5"})
    made = bench.pod("g", "5", gates=[HOLD])
    assert _mark(made) == "True"
    assert bench.used() == {"requests.cpu": "0", "pods": "1"}
    bench.ungate("g")
    unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    bench.status("g", {"conditions": [unschedulable]})
    bench.clock.advance(400)
    bench.settle()
    assert _mark(bench.stored("g")) == "True", "what a scheduler writes leaves the mark alone"
    assert bench.used() == {"requests.cpu": "0", "pods": "1"}
    bench.bind("g")
    bench.settle()
    assert bench.used() == {"requests.cpu": "5", "pods": "1"}


def test_native_stays_strict_with_pods_that_were_never_gated() -> None:
    bench = Bench(personality="native")
    bench.quota({"requests.cpu": "2"})
    assert _mark(bench.pod("a", "1")) == ""
    assert "exceeded quota: q" in bench.refusal("b", "2")
    assert bench.used() == {"requests.cpu": "1"}


def test_stock_has_no_mark() -> None:
    bench = Bench()
    assert _mark(bench.pod("g", "5", gates=[HOLD])) == ""


@pytest.mark.parametrize(
    ("server", "controllers", "used"),
    [(True, True, "0"), (True, False, "5"), (False, True, "0"), (False, False, "3")],
)
def test_the_gates_of_server_and_controllers_are_apart(
    server: bool, controllers: bool, used: str
) -> None:
    """K1: a controller without the gate counts what the server let in uncharged."""
    bench = Bench(
        feature_gates={QUOTA_GATE: server},
        controller_gates={QUOTA_GATE: controllers},
        quota_resync_seconds=10.0,
    )
    bench.quota({"requests.cpu": "3"})
    assert bool(bench.refusal("g", "5", gates=[HOLD])) is not server
    if not server:
        bench.pod("h", "3", gates=[HOLD])
    bench.clock.advance(11)
    bench.settle()
    assert bench.used() == {"requests.cpu": used}


def test_switching_the_controllers_gate_recounts() -> None:
    bench = Bench(personality="native")
    bench.quota({"requests.cpu": "2"})
    bench.pod("g", "5", gates=[HOLD])
    bench.cluster.gates["controllers"].change({QUOTA_GATE: False})
    bench.settle()
    assert bench.used() == {"requests.cpu": "5"}
    bench.cluster.gates["controllers"].change({QUOTA_GATE: True})
    bench.settle()
    assert bench.used() == {"requests.cpu": "0"}
