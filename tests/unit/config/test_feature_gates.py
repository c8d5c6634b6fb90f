"""Feature gates: the table, the flag, groups, locks and requirements."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from config import GATES, OWN_GATES, FeatureGates, Stage
from scheduler.framework.status import ConfigurationError


def refusal(*flags: str) -> tuple[str, ...]:
    with pytest.raises(ConfigurationError) as caught:
        FeatureGates.parse(flags)
    return caught.value.problems


def test_defaults_are_the_tables() -> None:
    assert dict(FeatureGates()) == {name: gate.default for name, gate in GATES.items()}


def test_alpha_is_off_and_a_lock_is_on() -> None:
    for gate in GATES.values():
        assert not (gate.stage is Stage.ALPHA and gate.default), gate.name
        assert gate.default or not gate.locked, gate.name
        assert set(gate.requires) <= set(GATES), gate.name


def test_our_own_gates() -> None:
    assert {gate.name: gate.default for gate in OWN_GATES} == {
        "PodTopologySpreadFallbackMode": True,
        "ResourceQuotaDeferredEnforcement": True,
        "PodSchedulingReadiness": True,
        "SchedulerQueueingHints": True,
    }


@pytest.mark.parametrize(
    ("flags", "changes"),
    [
        ([""], {}),
        (["StorageCapacityScoring=false"], {"StorageCapacityScoring": False}),
        ([" OpportunisticBatching = F , "], {"OpportunisticBatching": False}),
        (
            ["TaintTolerationComparisonOperators=1", "OpportunisticBatching=0"],
            {"TaintTolerationComparisonOperators": True, "OpportunisticBatching": False},
        ),
        (["StorageCapacityScoring=false,StorageCapacityScoring=true"], {}),
        (["NodeDeclaredFeatures=true"], {}),
        (
            ["TopologyAwareWorkloadScheduling=true,GenericWorkload=true"],
            {"TopologyAwareWorkloadScheduling": True, "GenericWorkload": True},
        ),
    ],
)
def test_flag(flags: list[str], changes: Mapping[str, bool]) -> None:
    expected = {name: gate.default for name, gate in GATES.items()} | dict(changes)
    assert dict(FeatureGates.parse(flags)) == expected


def test_groups_set_what_is_not_named() -> None:
    gates = FeatureGates.parse(
        "AllAlpha=true,AllBeta=false,GenericWorkload=true,NativeHistograms=false"
    )
    for name, gate in GATES.items():
        alpha = name != "NativeHistograms" and not gate.lacking
        expected = {Stage.ALPHA: alpha, Stage.BETA: name == "GenericWorkload"}
        assert gates.enabled(name) is expected.get(gate.stage, gate.default), name


def test_every_mistake_is_reported() -> None:
    assert refusal("StorageScoring=true,DRAAdminAccess=false,NodeDeclaredFeatures,A=maybe") == (
        '--feature-gates: "NodeDeclaredFeatures" has no value; write NodeDeclaredFeatures=true',
        '--feature-gates: "A=maybe": the value must be true or false',
        (
            "--feature-gates: unrecognized feature gate: StorageScoring; "
            'did you mean "StorageCapacityScoring"?'
        ),
        (
            "--feature-gates: cannot set feature gate DRAAdminAccess to false, "
            "feature is locked to true"
        ),
    )


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        (
            "TopologyAwareWorkloadScheduling=true",
            "TopologyAwareWorkloadScheduling needs GenericWorkload, which is off",
        ),
        ("GangScheduling=true", "unrecognized feature gate: GangScheduling"),
        ("SidecarContainers=true", "unrecognized feature gate: SidecarContainers"),
        (
            "DRADeviceTaints=false,DRADeviceTaintRules=true",
            "DRADeviceTaintRules needs DRADeviceTaints, which is off",
        ),
        ("AllAlpha=true", "TopologyAwareWorkloadScheduling needs GenericWorkload"),
        (
            "DRAListTypeAttributes=true",
            (
                "cannot set feature gate DRAListTypeAttributes to true, kubestow does not support "
                "device attributes with lists as values; remove DRAListTypeAttributes=true"
            ),
        ),
        ("AllAlpha=true,DRANodeAllocatableResources=true", "remove DRANodeAllocatableResources"),
        (
            "GenericWorkload=true,DRAWorkloadResourceClaims=true",
            "does not support resource claims of pod groups",
        ),
    ],
)
def test_a_gate_needs_its_requirements(flag: str, message: str) -> None:
    assert any(message in problem for problem in refusal(flag))


def test_asking_for_a_gate_outside_the_table_is_a_bug() -> None:
    with pytest.raises(KeyError):
        FeatureGates().enabled("NoSuchGate")


def test_changes_are_kept_for_display() -> None:
    gates = FeatureGates.parse("AllAlpha=false,StorageCapacityScoring=true")
    assert gates.changes == {"AllAlpha": False, "StorageCapacityScoring": True}
    assert repr(gates) == "FeatureGates('AllAlpha=false,StorageCapacityScoring=true')"
