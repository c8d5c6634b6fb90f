"""NodeDeclaredFeatures: upstream's `nodedeclaredfeatures.go`, and its hints."""

from __future__ import annotations

import pytest

from plugins import NodeDeclaredFeatures
from scheduler.api import Pod
from scheduler.framework import SKIP, ActionType, ClusterEvent, Code, CycleState, EventResource
from scheduler.framework.events import NODE_ADD
from tests.unit.api.objects import container
from tests.unit.plugins.clusters import Cluster, hint, node, pod, statuses

RESTART = "RestartAllContainersOnContainerExits"
USER_NAMESPACES = "UserNamespacesHostNetworkSupport"
NODE_FEATURE = ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_DECLARED_FEATURE)
POD_LABEL = ClusterEvent(EventResource.TARGET_POD, ActionType.UPDATE_POD_LABEL)


def needy(uid: str = "u") -> Pod:
    rules = [{"action": "RestartAllContainers"}]
    return pod(
        {
            "containers": [container(restartPolicyRules=rules)],
            "hostNetwork": True,
            "hostUsers": False,
        },
        metadata={"uid": uid},
    )


@pytest.mark.parametrize(
    ("declared", "passes"),
    [
        pytest.param([RESTART, USER_NAMESPACES, "Unknown"], True, id="more than needed"),
        pytest.param([RESTART], False, id="some missing"),
        pytest.param([], False, id="none declared"),
    ],
)
def test_filter(declared: list[str], passes: bool) -> None:
    cluster = Cluster([node("n", declaredFeatures=declared)])

    status = statuses(NodeDeclaredFeatures(None, cluster.handle()), cluster, needy())["n"]

    assert (status is None) is passes
    if status is not None:
        assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        assert status.reasons == ("node(s) didn't match Pod's required features",)


@pytest.mark.parametrize(
    ("subject", "gate", "skips"),
    [(pod(), True, True), (needy(), True, False), (needy(), False, True)],
)
def test_pre_filter(subject: Pod, gate: bool, skips: bool) -> None:
    cluster = Cluster([node("n")])
    plugin = NodeDeclaredFeatures(None, cluster.handle(NodeDeclaredFeatures=gate))

    assert plugin.pre_filter(CycleState(), subject, cluster.table) is (SKIP if skips else None)
    assert (statuses(plugin, cluster, subject)["n"] is None) is skips


def test_hints() -> None:
    plugin = NodeDeclaredFeatures(None, Cluster().handle())
    bare, declaring = node(), node(declaredFeatures=[RESTART])

    assert hint(plugin, NODE_ADD, needy(), None, bare)
    assert hint(plugin, NODE_FEATURE, needy(), bare, declaring)
    assert not hint(plugin, NODE_FEATURE, needy(), declaring, declaring)
    assert hint(plugin, POD_LABEL, needy(), needy(), pod())
    assert not hint(plugin, POD_LABEL, needy(), needy(), needy())
    assert not hint(plugin, POD_LABEL, needy(), needy(), pod(metadata={"uid": "another"}))
