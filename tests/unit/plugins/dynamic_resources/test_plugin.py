"""DynamicResources for pods without claims, and its rejection of others."""

from __future__ import annotations

import datetime as dt

from plugins import DynamicResources
from plugins.dynamic_resources.plugin import DynamicResourcesArgs
from scheduler.framework import SKIP, Code, CycleState, NodeToStatus
from tests.unit.plugins.clusters import Cluster, final_scores, node, pod, raw_scores, rejected


def test_a_pod_without_claims_is_skipped() -> None:
    cluster = Cluster([node("a"), node("b")])
    plugin = DynamicResources(None, cluster.handle())

    assert plugin.pre_enqueue(pod()) is None
    assert plugin.pre_filter(CycleState(), pod(), cluster.table) is SKIP
    assert rejected(plugin, cluster, pod()) == {}
    assert raw_scores(plugin, cluster, pod()) == [0, 0]
    assert final_scores(plugin, cluster, pod()) == [0, 0]
    assert plugin.pre_bind_pre_flight(CycleState(), pod(), "a") is SKIP


def test_a_pod_with_claims_is_refused_with_its_reason() -> None:
    cluster = Cluster([node()])
    plugin = DynamicResources(None, cluster.handle())
    subject = pod({"resourceClaims": [{"name": "gpu"}, {"name": "nic"}]})

    status = plugin.pre_filter(CycleState(), subject, cluster.table)

    assert status is not None
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.skip_post_filter
    assert status.message.startswith(
        "pod uses resource claims (gpu, nic), which kubestow cannot allocate"
    )


def test_post_filter_after_pre_filter_has_nothing_to_free() -> None:
    cluster = Cluster()
    plugin = DynamicResources(None, cluster.handle())
    state = CycleState()
    plugin.pre_filter(state, pod(), cluster.table)

    result = plugin.post_filter(state, pod(), NodeToStatus())

    assert result.status is not None
    assert (result.status.code, result.status.message) == (
        Code.UNSCHEDULABLE,
        "no new claims to deallocate",
    )
    assert result.nominating is None


def test_post_filter_without_pre_filter_is_an_error() -> None:
    plugin = DynamicResources(None, Cluster().handle())

    result = plugin.post_filter(CycleState(), pod(), NodeToStatus())

    assert result.status is not None
    assert (result.status.code, result.status.message) == (Code.ERROR, "not found")


def test_timeouts_are_checked() -> None:
    second = dt.timedelta(seconds=1)
    bad = DynamicResourcesArgs(filter_timeout=-second, binding_timeout=second / 2)
    good = DynamicResourcesArgs(filter_timeout=0 * second, binding_timeout=second)

    assert [
        (path, message.rpartition(": ")[2]) for path, message in DynamicResources.validate_args(bad)
    ] == [
        ("filterTimeout", "must be zero or positive"),
        ("bindingTimeout", "must be at least 1 second"),
    ]
    assert not list(DynamicResources.validate_args(good))
