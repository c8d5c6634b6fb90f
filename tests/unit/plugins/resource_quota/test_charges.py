"""Charges: the pods that count, in which quotas, and for how long (docs/deferred-quota.md)."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.api import Pod
from tests.unit.plugins.resource_quota.objects import LedgerFixture, pod, quota

CPU = "requests.cpu-millis"


@pytest.mark.parametrize(
    ("subject", "used"),
    [
        pytest.param(pod("p", gates=True), "0", id="Q1: gated"),
        pytest.param(pod("p", deferred=True), "0", id="Q3: gates gone, not scheduled"),
        pytest.param(pod("p", node="n", deferred=True), "1000", id="Q4: gates gone, scheduled"),
        pytest.param(pod("p"), "1000", id="Q2: never gated, pending"),
        pytest.param(pod("p", spec={"schedulerName": "other"}), "1000", id="other scheduler"),
        pytest.param(pod("p", node="n", status={"phase": "Running"}), "1000", id="running"),
        pytest.param(pod("p", node="n", status={"phase": "Succeeded"}), "0", id="B20: succeeded"),
        pytest.param(pod("p", node="n", status={"phase": "Failed"}), "0", id="B20: failed"),
        pytest.param(
            pod("p", metadata={"annotations": {"kubestow.io/quota-deferred": "true"}}),
            "0",
            id="annotation",
        ),
        pytest.param(
            pod(
                "p",
                status={"conditions": [{"type": "kubestow.io/QuotaDeferred", "status": "True"}]},
            ),
            "0",
            id="mark True",
        ),
        pytest.param(
            pod(
                "p",
                deferred=True,
                status={"conditions": [{"type": "kubestow.io/QuotaDeferred", "status": "False"}]},
            ),
            "1000",
            id="mark False overrides the reason",
        ),
        *(
            pytest.param(
                pod(
                    "p",
                    status={
                        "conditions": [{"type": "PodScheduled", "status": "False", "reason": why}]
                    },
                ),
                used,
                id=f"reason {why}",
            )
            for why, used in (
                ("ResourceQuotaValidated", "0"),
                ("ResourceQuotaExceeded", "0"),
                ("Unschedulable", "1000"),
            )
        ),
    ],
)
def test_which_pods_count(subject: Pod, used: str) -> None:
    fixture = LedgerFixture(quota())
    fixture.observe(subject)
    assert fixture.used() == {CPU: used}


def test_a_hold_by_this_scheduler_does_not_make_a_never_gated_pod_deferred() -> None:
    fixture = LedgerFixture(quota())
    fixture.observe(pod("p"))
    conditions = [{"type": "PodScheduled", "status": "False", "reason": "ResourceQuotaValidated"}]
    fixture.observe(pod("p", status={"conditions": conditions}))
    assert fixture.used() == {CPU: "1000"}


def test_a_deferred_pod_stays_deferred_when_its_reason_is_overwritten() -> None:
    fixture = LedgerFixture(quota())
    fixture.observe(pod("p", gates=True))
    other = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    fixture.observe(pod("p", status={"conditions": other}))
    assert fixture.used() == {CPU: "0"}


def test_a_held_pod_is_charged_nothing_and_excludes_no_other_pod() -> None:
    """A never-gated pod for 9 of 8: it used to hold every deferred pod of the namespace."""
    fixture = LedgerFixture(quota(hard={CPU: 8000}))
    assert fixture.enqueue(pod("huge", "9")) == []
    deferred = [pod(f"d{number}", "1", deferred=True) for number in range(4)]
    assert fixture.enqueue(*deferred) == [each.uid for each in deferred]
    assert fixture.used() == {CPU: "0"}
    for each in deferred:
        assert not fixture.ledger.reserve(each)
    # One that fits an empty quota, but not now.
    assert fixture.enqueue(pod("large", "8")) == []
    assert fixture.used() == {CPU: "4000"}
    assert fixture.enqueue(pod("small", "2", deferred=True), pod("plain", "2")) == [
        "small",
        "plain",
    ]


def test_a_pod_too_large_for_the_quota_is_charged_once_the_quota_grows() -> None:
    """It is another scheduler's, so that nothing here holds it."""
    fixture = LedgerFixture(quota(hard={CPU: 8000}))
    fixture.observe(pod("huge", "9"))
    assert fixture.used() == {CPU: "0"}
    fixture.ledger.set_quota(quota(hard={CPU: 9000}))
    fixture.ledger.validate()
    assert fixture.used() == {CPU: "9000"}
    fixture.ledger.set_quota(quota(hard={CPU: 8000}))
    fixture.ledger.validate()
    assert fixture.used() == {CPU: "0"}


def test_a_deleted_pod_counts_until_its_grace_has_passed_twice() -> None:
    fixture = LedgerFixture(quota(hard={CPU: 1000}))
    going = {"deletionTimestamp": "1970-01-01T00:17:00Z", "deletionGracePeriodSeconds": 30}
    fixture.observe(pod("running", node="n", metadata=going))
    fixture.enqueue(pod("held", deferred=True))
    assert fixture.ledger.next_due() == pytest.approx(1050.001)
    assert fixture.run(50) == []
    assert fixture.used() == {CPU: "1000"}
    assert fixture.run(0.01) == ["held"]
    assert fixture.used() == {CPU: "0"}
    fixture.observe(pod("running", node="n", metadata={**going, "labels": {"a": "b"}}))
    assert fixture.used() == {CPU: "0"}


def test_b15_active_deadline_moves_a_pod_between_quotas() -> None:
    fixture = LedgerFixture(
        quota("short", hard={CPU: 1000}, scopes=["Terminating"]),
        quota("long", hard={CPU: 1000}, scopes=["NotTerminating"]),
    )
    fixture.observe(pod("running", node="n"))
    fixture.enqueue(pod("held", deferred=True))
    assert (fixture.used("long"), fixture.used("short")) == ({CPU: "1000"}, {CPU: "0"})
    fixture.observe(pod("running", node="n", spec={"activeDeadlineSeconds": 60}))
    assert (fixture.used("long"), fixture.used("short")) == ({CPU: "0"}, {CPU: "1000"})
    assert fixture.run() == ["held"]


@pytest.mark.parametrize(
    ("spec", "parts", "covered"),
    [
        ({"scopes": ["Terminating"]}, {"activeDeadlineSeconds": 5}, True),
        ({"scopes": ["Terminating"]}, {}, False),
        ({"scopes": ["NotTerminating"]}, {}, True),
        ({"scopes": ["NotBestEffort"]}, {}, True),
        ({"scopes": ["BestEffort"]}, {}, False),
        ({"scopes": ["NotTerminating", "BestEffort"]}, {}, False),
        ({"scopes": ["PriorityClass"]}, {"priorityClassName": "high"}, True),
        ({"scopes": ["PriorityClass"]}, {}, False),
        ({"scopes": ["Unheard"]}, {}, False),
        (("In", ["high"]), {"priorityClassName": "high"}, True),
        (("In", ["high"]), {"priorityClassName": "low"}, False),
        (("In", ["high"]), {}, False),
        (("NotIn", ["high"]), {}, True),
        (("NotIn", ["high"]), {"priorityClassName": "high"}, False),
        (("DoesNotExist", []), {}, True),
        (("DoesNotExist", []), {"priorityClassName": "high"}, False),
        (("Exists", []), {"priorityClassName": "high"}, True),
        (
            {"scopes": ["CrossNamespacePodAffinity"]},
            {
                "affinity": {
                    "podAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [
                            {"topologyKey": "z", "namespaceSelector": {}}
                        ]
                    }
                }
            },
            True,
        ),
        (
            {"scopes": ["CrossNamespacePodAffinity"]},
            {
                "affinity": {
                    "podAntiAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [
                            {"weight": 1, "podAffinityTerm": {"topologyKey": "z"}}
                        ]
                    }
                }
            },
            False,
        ),
    ],
)
def test_b14_scopes(spec: Any, parts: dict[str, Any], covered: bool) -> None:
    if isinstance(spec, tuple):
        operator, values = spec
        each = {"scopeName": "PriorityClass", "operator": operator, "values": values}
        spec = {"scopeSelector": {"matchExpressions": [each]}}
    fixture = LedgerFixture(quota(hard={CPU: 0}, **spec))
    assert fixture.enqueue(pod("p", deferred=True, spec=parts)) == ([] if covered else ["p"])


@pytest.mark.parametrize(
    "key",
    [
        "requests.memory",
        "limits.cpu-millis",
        "requests.ephemeral-storage",
        "requests.hugepages-2Mi",
        "requests.nvidia.com_gpu",
    ],
)
def test_b12_each_compute_name_defers(key: str) -> None:
    fixture = LedgerFixture(quota(hard={key: 1}))
    amounts = {
        "cpu": "1",
        "memory": "1Gi",
        "ephemeral-storage": "1Gi",
        "hugepages-2Mi": "4Mi",
        "nvidia.com/gpu": "2",
    }
    wanting = {"containers": [{"name": "c", "resources": {"requests": amounts, "limits": amounts}}]}
    assert fixture.enqueue(pod("p", deferred=True, spec=wanting)) == []


def test_b13_a_pod_that_states_nothing_counts_as_nothing() -> None:
    fixture = LedgerFixture(quota(hard={CPU: 0}))
    assert fixture.enqueue(pod("p", deferred=True, requests={"memory": "1Gi"})) == ["p"]
