"""kube-scheduler and kubestow write the same conditions for pods that fit nowhere.

Messages are compared up to the part about preemption.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest

from devtools.control_plane.control_plane import ControlPlane
from devtools.control_plane.kubestow import start_kubestow
from tests.envtest.workload import Workload

pytestmark = pytest.mark.envtest("kube-scheduler")

THEIRS: Final = "default-scheduler"
OURS: Final = "kubestow"


def required(*expressions: dict[str, object]) -> dict[str, Any]:
    terms = [{"matchExpressions": list(expressions)}]
    node_affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": node_affinity}}


def port(number: int) -> dict[str, Any]:
    return {"container": {"ports": [{"containerPort": number, "hostPort": number}]}}


def extended(resource: str, amount: str) -> dict[str, Any]:
    amounts = {"requests": {resource: amount}, "limits": {resource: amount}}
    return {"container": {"resources": amounts}}


TOLERATE_ALL: Final = [{"operator": "Exists"}]
UNSCHEDULABLE: Final[dict[str, dict[str, Any]]] = {
    "too-large": {"cpu": "100"},
    "too-large-for-some": {"cpu": "3", "nodeSelector": {"disk": "hdd"}},
    "selector": {"nodeSelector": {"disk": "tape"}},
    "affinity": required({"key": "disk", "operator": "In", "values": ["ssd"]}),
    "affinity-gt": required({"key": "generation", "operator": "Gt", "values": ["7"]}),
    "affinity-field": {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {
                            "matchFields": [
                                {"key": "metadata.name", "operator": "In", "values": ["absent"]}
                            ]
                        }
                    ]
                }
            }
        }
    },
    "port": {**port(8080), "nodeSelector": {"disk": "hdd"}},
    "no-such-resource": extended("example.com/gpu", "1"),
    "tolerant-but-large": {"cpu": "9", "tolerations": TOLERATE_ALL},
    "memory": {"container": {"resources": {"requests": {"memory": "1Ti", "cpu": "50"}}}},
    "storage": {"container": {"resources": {"requests": {"ephemeral-storage": "1Ti"}}}},
}


@pytest.fixture
def work(control_plane: ControlPlane) -> Iterator[Workload]:
    with Workload(control_plane, "side-by-side") as workload:
        workload.node("alpha", cpu="2", labels={"disk": "hdd", "generation": "7"})
        workload.node("beta", cpu="2", labels={"disk": "hdd"}, unschedulable=True)
        taint = {"key": "dedicated", "value": "batch", "effect": "NoSchedule"}
        workload.node("gamma", cpu="2", taints=[taint])
        evict = {"key": "broken", "effect": "NoExecute"}
        workload.node("delta", cpu="4", taints=[evict], unschedulable=True)
        workload.node("full", cpu="8", pods=0, labels={"disk": "none"})
        workload.pod("squatter", cpu="1500m", scheduler_name="absent", **port(8080))
        workload.bind("squatter", "alpha")
        yield workload


def without_preemption(message: str) -> str:
    """Return the part of the message that filters and other PostFilter plugins wrote."""
    return message.partition(", preemption: ")[0]


def test_both_write_the_same_reasons_and_messages(
    control_plane: ControlPlane, work: Workload
) -> None:
    kube_scheduler = control_plane.start_scheduler(name="kube-scheduler-side-by-side")
    kubestow = start_kubestow(control_plane, name="kubestow-side-by-side")
    try:
        for name, spec in UNSCHEDULABLE.items():
            work.pod(f"{name}.theirs", scheduler_name=THEIRS, **spec)
            work.pod(f"{name}.ours", scheduler_name=OURS, **spec)
        conditions = {
            f"{name}.{whose}": work.until_rejected(f"{name}.{whose}")
            for name in UNSCHEDULABLE
            for whose in ("theirs", "ours")
        }
    finally:
        kube_scheduler.stop()
        kubestow.stop()
    theirs = {name: conditions[f"{name}.theirs"] for name in UNSCHEDULABLE}
    ours = {name: conditions[f"{name}.ours"] for name in UNSCHEDULABLE}
    assert {name: each["reason"] for name, each in ours.items()} == {
        name: each["reason"] for name, each in theirs.items()
    }
    assert {name: without_preemption(each["message"]) for name, each in ours.items()} == {
        name: without_preemption(each["message"]) for name, each in theirs.items()
    }
    assert len({each["message"] for each in ours.values()}) > len(UNSCHEDULABLE) / 2, (
        "no trivial texts"
    )
    assert {name: sorted(each) for name, each in ours.items()} == {
        name: sorted(each) for name, each in theirs.items()
    }
