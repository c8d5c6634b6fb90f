"""AppLimit counts the pods of an app on a node, and wakes pods when one of them goes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from examples.scalar_filter.app_limit import AppLimit, AppLimitArgs
from scheduler.api import Pod
from scheduler.framework import ActionType, ClusterEvent, CycleState, EventResource
from scheduler.testing import PluginCase, check_plugin_contract
from tests.unit.plugins.clusters import Cluster, hint, node
from tests.unit.plugins.clusters import pod as make_pod

POD_GONE = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE)
POD_RELABELLED = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.UPDATE_POD_LABEL)
OWN_LABELS = ClusterEvent(EventResource.TARGET_POD, ActionType.UPDATE_POD_LABEL)
NODE_ADD = ClusterEvent(EventResource.NODE, ActionType.ADD)


def app(app: str | None, namespace: str = "default", uid: str = "u") -> Pod:
    labels = {} if app is None else {"app": app}
    return make_pod(metadata={"labels": labels, "namespace": namespace, "uid": uid})


def plugin(cluster: Cluster, limit: int = 2) -> AppLimit:
    return AppLimit(AppLimitArgs(limit=limit), cluster.handle())


@pytest.mark.parametrize(
    ("placed", "incoming", "full"),
    [
        ([], app("web"), False),
        ([app("web")], app("web"), False),
        ([app("web"), app("web")], app("web"), True),
        ([app("web"), app("web")], app("db"), False),
        ([app("web"), app("web", "other")], app("web"), False),
        ([app(None), app(None)], app(None), False),
    ],
    ids=["empty", "room", "full", "other app", "other namespace", "without the label"],
)
def test_a_node_takes_so_many_pods_of_an_app(
    placed: Sequence[Pod], incoming: Pod, full: bool
) -> None:
    cluster = Cluster([node("n1")], {"n1": placed})
    status = plugin(cluster).filter(CycleState(), incoming, cluster.table.node_info(0))
    assert (status is not None) is full
    if status is not None:
        assert status.message == "node(s) had 2 pods of the same app"


@pytest.mark.parametrize(
    ("event", "old", "new", "wakes"),
    [
        (POD_GONE, app("web"), None, True),
        (POD_GONE, app("db"), None, False),
        (POD_GONE, app("web", "other"), None, False),
        (POD_RELABELLED, app("web"), app("db"), True),
        (POD_RELABELLED, app("db"), app("web"), False),
        (OWN_LABELS, app("web"), app("db"), True),
        (OWN_LABELS, app("web"), app("web"), False),
        (OWN_LABELS, app("web", uid="v"), app("db", uid="v"), False),
        (NODE_ADD, None, node("n2"), True),
    ],
)
def test_a_rejected_pod_of_web_wakes(
    event: ClusterEvent, old: object, new: object, wakes: bool
) -> None:
    assert hint(plugin(Cluster()), event, app("web"), old, new) is wakes


def test_the_contract_holds() -> None:
    placed = {"n1": [app("web"), app("web")], "n2": [app("db")]}
    cluster = Cluster([node("n1"), node("n2"), node("n3")], placed)
    pods = [cluster.intern(app(name)) for name in ("web", "db", None)]
    check_plugin_contract(plugin(cluster, limit=1), PluginCase(cluster.table, pods))


@pytest.mark.parametrize(
    ("args", "paths"),
    [
        (AppLimitArgs(), []),
        (AppLimitArgs(label="example.com/app", limit=1), []),
        (AppLimitArgs(limit=0), ["limit"]),
        (AppLimitArgs(label="no key!", limit=-1), ["label", "limit"]),
    ],
)
def test_arguments_are_checked(args: AppLimitArgs, paths: list[str]) -> None:
    assert [path for path, _ in AppLimit.validate_args(args)] == paths
