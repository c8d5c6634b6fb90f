"""The check of a pod against its quotas, and the messages of violations."""

from __future__ import annotations

import pytest

from plugins.resource_quota.accounts import QuotaMode
from plugins.resource_quota.messages import message
from scheduler.api import Pod
from tests.unit.plugins.resource_quota.objects import LedgerFixture, pod, quota

CPU = "requests.cpu-millis"
NATIVE = {"=requests.cpu": "2", "=requests.storage": "0", "=pods": "0"}


def test_a_deferred_pod_counts_pending_pods_a_never_gated_one_does_not() -> None:
    fixture = LedgerFixture(quota())
    fixture.observe(pod("a"), pod("b"))
    assert fixture.enqueue(pod("deferred", deferred=True)) == []
    # The hard wall for never-gated pods: what is taken; other pending ones would deadlock them.
    assert fixture.enqueue(pod("c")) == ["c"]


def test_b18_a_resource_that_is_not_asked_for_does_not_matter() -> None:
    fixture = LedgerFixture(quota(hard={CPU: 1000, "requests.memory": 1}))
    fixture.observe(pod("big", "4", node="n", requests={"memory": "1Gi"}))
    assert fixture.enqueue(pod("p", deferred=True)) == ["p"]


@pytest.mark.parametrize(
    ("subject", "hard", "text"),
    [
        (
            pod("p", "1500m", deferred=True),
            {CPU: 2000},
            (
                "quota exceeded: q, requested: requests.cpu=1500m, used: requests.cpu=1, "
                "limited: requests.cpu=2"
            ),
        ),
        (
            pod("p", "3", deferred=True),
            {CPU: 2000},
            (
                "quota exceeded: q, requested: requests.cpu=3, used: requests.cpu=1, "
                "limited: requests.cpu=2 (exceeds the quota even when empty)"
            ),
        ),
        (
            pod("p", deferred=True, requests={"cpu": "2", "memory": "2Gi"}),
            {CPU: 2000, "requests.memory": 2**30},
            (
                "quota exceeded: q, requested: requests.cpu=2,requests.memory=2Gi, "
                "used: requests.cpu=1,requests.memory=0, "
                "limited: requests.cpu=2,requests.memory=1Gi (exceeds the quota even when empty)"
            ),
        ),
    ],
)
def test_b17_messages(subject: Pod, hard: dict[str, int], text: str) -> None:
    fixture = LedgerFixture(quota(hard=hard))
    fixture.observe(pod("running", node="n"), subject)
    assert message(fixture.ledger.violations(subject)) == text


def test_messages_list_quotas_in_the_order_of_their_names() -> None:
    fixture = LedgerFixture(quota("b"), quota("a", hard={CPU: 1000}))
    big = pod("p", "3", deferred=True)
    fixture.observe(big)
    first, second = message(fixture.ledger.violations(big)).split("; ")
    assert first.startswith("quota exceeded: a, ")
    assert second.startswith("quota exceeded: b, ")


def test_a_message_states_the_usage_that_the_quota_publishes() -> None:
    fixture = LedgerFixture(quota(hard={CPU: 8000}))
    assert fixture.enqueue(pod("first", "2"), pod("second", "1")) == ["first", "second"]
    (found,) = fixture.ledger.violations(pod("third", "9"))
    assert fixture.used() == {CPU: "3000"}
    assert found.used == 3 * 10**9
    (found,) = fixture.ledger.violations(pod("fourth", "9", deferred=True))
    assert found.used == 3 * 10**9


def test_b49_a_quota_of_built_in_names_only_is_not_ours() -> None:
    fixture = LedgerFixture(quota(hard={"=requests.cpu": "1", "=pods": "1"}))
    assert fixture.enqueue(pod("p", "9", deferred=True)) == ["p"]
    assert fixture.used() == {}


@pytest.mark.parametrize(
    ("status", "running", "text"),
    [
        pytest.param({"requests.cpu": "0"}, [], "", id="free"),
        pytest.param(
            {"requests.cpu": "1500m"},
            [],
            "quota exceeded: q, requested: requests.cpu=1, used: requests.cpu=1500m, "
            "limited: requests.cpu=2",
            id="more in the status",
        ),
        pytest.param(
            {"requests.cpu": "0"},
            [pod("r", "2", node="n")],
            "quota exceeded: q, requested: requests.cpu=1, used: requests.cpu=2, "
            "limited: requests.cpu=2",
            id="more in the ledger",
        ),
        pytest.param(
            {},
            [],
            "status unknown for quota: q, resources: requests.cpu",
            id="the controller has not run",
        ),
    ],
)
def test_native_mode(status: dict[str, str], running: list[Pod], text: str) -> None:
    fixture = LedgerFixture(quota(hard=NATIVE, status={"used": status}), mode=QuotaMode.NATIVE)
    subject = pod("p", deferred=True)
    fixture.observe(*running, subject)
    assert message(fixture.ledger.violations(subject)) == text
    assert not fixture.ledger.violations(pod("plain", "9"))


def test_native_mode_is_woken_by_the_status() -> None:
    fixture = LedgerFixture(quota(hard=NATIVE), mode=QuotaMode.NATIVE)
    fixture.enqueue(pod("p", deferred=True))
    fixture.ledger.set_quota(quota(hard=NATIVE, status={"used": {"requests.cpu": "0"}}))
    assert fixture.run() == ["p"]
