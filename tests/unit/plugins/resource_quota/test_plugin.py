"""Construction, arguments and messages of the plugin."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, cast

import pytest

from plugins import ResourceQuota
from plugins.resource_quota.arguments import ResourceQuotaArgs, argument_problems
from plugins.resource_quota.messages import parse_violated_pairs
from scheduler.framework import (
    SKIP,
    ConfigurationError,
    CycleState,
)
from tests.unit.plugins.resource_quota.objects import pod
from tests.unit.plugins.resource_quota.plugin_fixture import (
    EXCEEDED,
    RecordingHandle,
    info_of,
)


@pytest.mark.parametrize("mode", ["DeferredKeys", "Off"])
def test_the_plugin_is_inert_without_its_gate_or_when_it_is_off(mode: str) -> None:
    handle = RecordingHandle()
    args = ResourceQuotaArgs(quota_mode=mode)
    plugin = ResourceQuota(args, handle.as_handle(gate=mode == "Off"))
    subject = pod("p", deferred=True)
    state = CycleState()
    assert handle.callbacks == {}
    assert plugin.pre_enqueue(subject) is None
    assert plugin.pre_filter(state, subject, cast("Any", None)) is SKIP
    assert plugin.reserve(state, subject, "n") is None
    plugin.unreserve(state, subject, "n")
    plugin.post_bind(state, subject, "n")
    assert plugin.pod_conditions(subject, info_of(subject)) == ()
    assert plugin.events_to_register() == ()


def test_all_profiles_share_one_ledger_and_must_agree() -> None:
    handle = RecordingHandle()
    first, second = (ResourceQuota(None, handle.as_handle()) for _ in range(2))
    assert first.enforcement is second.enforcement
    with pytest.raises(ConfigurationError, match="the same in all profiles"):
        ResourceQuota(ResourceQuotaArgs(quota_mode="Both"), handle.as_handle())


@pytest.mark.parametrize(
    ("args", "paths"),
    [
        (ResourceQuotaArgs(), []),
        (ResourceQuotaArgs(hold_after=timedelta(minutes=1)), []),
        (ResourceQuotaArgs(fairness="HoldAfter"), []),
        (ResourceQuotaArgs(quota_mode="Sometimes"), ["quotaMode"]),
        (ResourceQuotaArgs(fairness="Much", reservation="Paper"), ["fairness", "reservation"]),
        (
            ResourceQuotaArgs(fairness="None", hold_after=timedelta(minutes=1)),
            ["holdAfter"],
        ),
        (ResourceQuotaArgs(hold_after=timedelta(0), max_hold=timedelta(-1)),
         ["holdAfter", "maxHold"]),
    ],
)  # fmt: skip
def test_arguments(args: ResourceQuotaArgs, paths: list[str]) -> None:
    assert [path for path, _ in argument_problems(args)] == paths


def test_hold_after_chooses_fairness_and_has_a_default() -> None:
    assert ResourceQuotaArgs(hold_after=timedelta(minutes=1)).fairness == "HoldAfter"
    assert ResourceQuotaArgs(fairness="HoldAfter").hold_after == timedelta(minutes=10)
    assert ResourceQuotaArgs().fairness == "None"


def test_messages_can_be_read_back() -> None:
    text = f"{EXCEEDED} (exceeds the quota even when empty); status unknown for quota: r, "
    assert parse_violated_pairs(text + "resources: cpu,memory") == {
        ("q", "requests.cpu"),
        ("r", "cpu"),
        ("r", "memory"),
    }
    assert parse_violated_pairs("0/1 nodes are available: Insufficient cpu.") == frozenset()
