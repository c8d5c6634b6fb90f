"""The imitation of Kueue."""

from __future__ import annotations

import pytest

from simulator.admission import AdmissionRequest
from simulator.controllers.kueue import (
    ADMISSION_GATE,
    QUEUE_LABEL,
    TERMINATION_TARGET,
    KueueSettings,
    parse_settings,
)
from simulator.deferral import MARK_ANNOTATION
from simulator.objects import dig
from simulator.store import StoreChange
from tests.unit.simulator.quotas import HOLD, Bench

_LABELS = {QUEUE_LABEL: "team"}
_POLICY_LABEL = "kubestow.io/deferred-quota"
_GATE = {"name": ADMISSION_GATE}


def mark_gated(request: AdmissionRequest) -> None:
    """Policy P5 of manifests/components/deferred-quota-mark, for `AdmissionChain.add`."""
    namespace = request.store.get("namespaces", "", request.namespace)
    labels = dig(namespace.obj, "metadata", "labels") if namespace is not None else None
    if (labels or {}).get(_POLICY_LABEL) != "enforced" or request.subresource:
        return
    if dig(request.obj, "spec", "schedulingGates"):
        request.obj["metadata"].setdefault("annotations", {})[MARK_ANNOTATION] = "true"


def _bench(**settings: object) -> Bench:
    kueue = parse_settings("") if not settings else KueueSettings(**settings)  # type: ignore[arg-type]
    return Bench(controllers=["quota", "kueue"], kueue=kueue)


def _gates(bench: Bench, name: str) -> list[str]:
    return [gate["name"] for gate in bench.stored(name)["spec"].get("schedulingGates", ())]


def _open(bench: Bench) -> list[str]:
    pods = bench.api.store.items("pods")
    return [one.name for one in pods if not one.obj["spec"].get("schedulingGates")]


def test_pods_are_let_go_a_batch_at_a_time_in_order_of_creation() -> None:
    bench = _bench(batch=2, every_seconds=10.0)
    for name in ("c", "a", "b"):
        bench.pod(name, gates=[_GATE], labels=_LABELS)
    bench.settle()
    assert _open(bench) == ["a", "c"]
    bench.clock.advance(10)
    bench.settle()
    assert _open(bench) == ["a", "b", "c"]


def test_gate_and_selector_change_in_one_write_and_other_gates_stay() -> None:
    bench = _bench(node_selector={"pool": "gpu"})
    changes: list[StoreChange] = []
    bench.cluster.store.subscribe("pods", lambda _table, change: changes.append(change))
    bench.pod("p", gates=[_GATE, HOLD], labels=_LABELS, nodeSelector={"zone": "a"})
    bench.settle()
    assert [change.type for change in changes] == ["ADDED", "MODIFIED"]
    spec = changes[1].version.obj["spec"]
    assert spec["nodeSelector"] == {"zone": "a", "pool": "gpu"}
    assert _gates(bench, "p") == [HOLD["name"]]


def test_who_asks_for_the_gate_gets_it() -> None:
    bench = _bench(batch=0, add_gate=True)
    bench.pod("mine", labels=_LABELS)
    bench.pod("other")
    assert _gates(bench, "mine") == [ADMISSION_GATE]
    assert _gates(bench, "other") == []


def test_only_so_many_are_admitted_at_a_time() -> None:
    bench = _bench(batch=5, max_admitted=1)
    for name in ("a", "b"):
        bench.pod(name, gates=[_GATE], labels=_LABELS)
    bench.settle()
    assert _open(bench) == ["a"]
    bench.bind("a")
    bench.status("a", {"phase": "Succeeded"})
    bench.clock.advance(1)
    bench.settle()
    assert _open(bench) == ["a", "b"]


def _marked(bench: Bench, name: str) -> bool:
    return (bench.stored(name)["metadata"].get("annotations") or {}).get(MARK_ANNOTATION) == "true"


@pytest.mark.parametrize("enforced", [True, False])
def test_rc6_policy_p5_marks_a_pod_that_the_webhook_gates(enforced: bool) -> None:
    """It ran before the webhook, in vain, and is run again because the webhook changed the pod."""
    bench = _bench(batch=0, add_gate=True)
    if enforced:
        bench.enforce()
    admission = bench.cluster.admission
    admission.add("policy", "p5", mark_gated, tables=["pods"], operations=["CREATE"])
    bench.pod("queued", labels=_LABELS)
    bench.pod("gated", gates=[HOLD])
    bench.pod("plain")
    assert [_marked(bench, name) for name in ("queued", "gated", "plain")] == [
        enforced, enforced, False
    ]  # fmt: skip


def test_rc6_a_policy_whose_match_conditions_were_false_is_not_run_again() -> None:
    """P5 as it was: the reason why it has no matchConditions."""
    bench = _bench(batch=0, add_gate=True)
    bench.enforce()
    bench.cluster.admission.add(
        "policy", "p5", mark_gated, tables=["pods"], operations=["CREATE"],
        condition=lambda request: bool(dig(request.obj, "spec", "schedulingGates")),
    )  # fmt: skip
    bench.pod("queued", labels=_LABELS)
    bench.pod("gated", gates=[HOLD])
    assert [_marked(bench, name) for name in ("queued", "gated")] == [False, True]


def test_rc7_a_pod_that_is_not_ready_in_time_is_deleted_for_good() -> None:
    bench = _bench(every_seconds=100.0, pods_ready_timeout_seconds=30.0)
    changes: list[StoreChange] = []
    bench.cluster.store.subscribe("pods", lambda _table, change: changes.append(change))
    bench.pod("a", gates=[_GATE], labels=_LABELS)
    bench.settle()
    bench.clock.advance(29)
    bench.settle()
    assert _gates(bench, "a") == []
    bench.clock.advance(1)
    bench.settle()
    assert [change.type for change in changes][-1] == "DELETED"
    found = changes[-1].version.obj["status"]["conditions"]
    assert TERMINATION_TARGET in [condition["type"] for condition in found]
    bench.clock.advance(1000)
    bench.settle()
    assert bench.api.store.items("pods") == []


def test_rc7_a_running_pod_that_is_not_ready_gets_its_grace_period() -> None:
    bench = _bench(pods_ready_timeout_seconds=30.0)
    bench.pod("a", gates=[_GATE], labels=_LABELS)
    bench.settle()
    bench.bind("a")
    bench.clock.advance(30)
    bench.settle()
    assert bench.stored("a")["metadata"]["deletionGracePeriodSeconds"] == 30


def test_a_ready_pod_is_left_alone() -> None:
    bench = _bench(pods_ready_timeout_seconds=30.0)
    bench.pod("a", gates=[_GATE], labels=_LABELS)
    bench.settle()
    bench.bind("a")
    bench.status("a", {"conditions": [{"type": "Ready", "status": "True"}]})
    bench.clock.advance(60)
    bench.settle()
    assert bench.stored("a")["metadata"].get("annotations", {}) == {}


@pytest.mark.parametrize("text", ["batch=many", "nonsense=1", "addGate=7"])
def test_bad_settings_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\$|unknown field"):
        parse_settings(text)


def test_settings_change_while_it_runs() -> None:
    bench = _bench(batch=0)
    bench.pod("a", gates=[_GATE], labels=_LABELS)
    bench.settle()
    assert _open(bench) == []
    bench.cluster.kueue.adjust({"batch": 1})
    bench.settle()
    assert _open(bench) == ["a"]
    with pytest.raises(ValueError, match="0 or more"):
        bench.cluster.kueue.adjust({"batch": -1})
