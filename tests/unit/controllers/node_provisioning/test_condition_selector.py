"""Selection of the pods that get the condition."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.api.pod import Pod, TopologySpreadConstraint
from scheduler.controllers.node_provisioning.condition_selector import ConditionSelector
from tests.unit.controllers.node_provisioning.world import ZONE, pod

HARD = TopologySpreadConstraint(topology_key=ZONE, when_unsatisfiable="DoNotSchedule")
KEY = "kubestow.io/topology-spread-fallback"


def annotated(value: str, *constraints: TopologySpreadConstraint) -> Pod:
    bare = pod(topology_spread_constraints=constraints)
    return msgspec.structs.replace(
        bare, metadata=msgspec.structs.replace(bare.metadata, annotations={KEY: value})
    )


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (pod(), True),
        (pod(topology_spread_constraints=(HARD,)), False),
        (pod(topology_spread_constraints=()), False),
        (annotated("*=NodeProvisioningFailed", HARD), True),
        (annotated("*=PreemptionFailed", HARD), False),
        (annotated("*=NodeProvisioningFailed"), False),
    ],
)
def test_pods_with_the_criterion(item: Pod, expected: bool) -> None:
    assert ConditionSelector(every_pod=False)(item) is expected
    assert ConditionSelector(every_pod=True)(item)


def test_default_constraints_are_for_pods_without_their_own() -> None:
    demand = ConditionSelector(every_pod=False, by_default=["kubestow"])
    assert demand(pod(topology_spread_constraints=()))
    assert not demand(pod(topology_spread_constraints=(HARD,)))
    assert not demand(pod(topology_spread_constraints=(), scheduler_name="other"))
