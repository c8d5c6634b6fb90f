"""Feature gates: their table, their state, and the `--feature-gates` flag.

The table holds the gates kube-scheduler v1.37 reads and our own. A `FeatureGates` value is
immutable and always consistent: locked gates have their value, and no gate is on without the
gates it needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from scheduler.framework.field_errors import did_you_mean
from scheduler.framework.status import ConfigurationError
from scheduler.sanitizing.go_values import GO_BOOLEANS


class Stage(Enum):
    """Maturity of a feature."""

    ALPHA = "Alpha"
    BETA = "Beta"
    GA = "GA"


@dataclass(frozen=True, slots=True)
class FeatureGate:
    """One switch."""

    name: str
    stage: Stage
    default: bool
    #: The default cannot be changed.
    locked: bool = False
    #: Gates that must be on for this one to be on.
    requires: tuple[str, ...] = ()
    #: The feature, if kubestow lacks it: the gate cannot be switched on, and groups leave it off.
    lacking: str = ""


def _alpha(name: str, *requires: str, lacking: str = "") -> FeatureGate:
    return FeatureGate(name, Stage.ALPHA, False, requires=requires, lacking=lacking)


def _beta(name: str, *requires: str, default: bool = True, lacking: str = "") -> FeatureGate:
    return FeatureGate(name, Stage.BETA, default, requires=requires, lacking=lacking)


def _ga(name: str, *requires: str, locked: bool = True) -> FeatureGate:
    return FeatureGate(name, Stage.GA, True, locked, requires)


UPSTREAM_GATES: Final = (
    _beta("SchedulerPopFromBackoffQ"),
    _beta("SchedulerAsyncPreemption"),
    _beta("SchedulerAsyncAPICalls", default=False),
    _beta("OpportunisticBatching"),
    _beta("NominatedNodeNameForExpectation"),
    _ga("NodeDeclaredFeatures"),
    _ga("DynamicResourceAllocation"),
    _ga("DRAAdminAccess"),
    _ga("DRAPrioritizedList"),
    _ga("DRAResourceClaimDeviceStatus"),
    _beta("DRASchedulerFilterTimeout"),
    _beta("DRAConsumableCapacity"),
    _beta("DRADeviceBindingConditions"),
    _ga("DRADeviceTaints", locked=False),
    _ga("DRAExtendedResource"),
    _beta("DRAPartitionableDevices"),
    _ga("DRADeviceTaintRules", "DRADeviceTaints", locked=False),
    _alpha("DRAListTypeAttributes", lacking="device attributes with lists as values"),
    _alpha("DRANodeAllocatableResources", lacking="devices that stand for resources of the node"),
    _beta(
        "DRAWorkloadResourceClaims",
        "GenericWorkload",
        default=False,
        lacking="resource claims of pod groups",
    ),
    # On in v1.37 only with `--min-compatibility-version=1.37`.
    _beta(
        "DRAFractionalCapacityRange",
        "DRAConsumableCapacity",
        default=False,
        lacking="ranges of capacity requests in thousandths",
    ),
    _alpha("DRADerivedAttributes", lacking="attributes that requests derive from others"),
    _alpha(
        "DRADeviceCompatibilityGroups",
        "DRAPartitionableDevices",
        lacking="devices that can be used only together with others of a group",
    ),
    _alpha(
        "DRAOptionalNodeOperations",
        "NodeDeclaredFeatures",
        lacking="devices that the kubelet does not prepare",
    ),
    _alpha("DRAPartitionableDevicesType"),
    # These two concern API server and controllers; kube-scheduler accepts them as well.
    _beta("DRAResourceClaimGranularStatusAuthorization"),
    _alpha("DRAResourcePoolStatus"),
    _ga("InPlacePodVerticalScaling"),
    _alpha(
        "InPlacePodVerticalScalingSchedulerPreemption",
        "InPlacePodVerticalScaling",
        lacking="preemption for pods whose resize the kubelet has deferred",
    ),
    _beta("InPlacePodLevelResourcesVerticalScaling"),
    _beta("PodLevelResources"),
    _ga("PodObservedGenerationTracking"),
    _beta("MatchLabelKeysInPodTopologySpread"),
    _beta("MatchLabelKeysInPodTopologySpreadSelectorMerge"),
    _ga("MatchLabelKeysInPodAffinity"),
    _ga("NodeInclusionPolicyInPodTopologySpread"),
    _alpha("TaintTolerationComparisonOperators"),
    _beta("StorageCapacityScoring"),
    _ga("VolumeAttributesClass"),
    _beta("VolumeLimitScaling"),
    _beta("GenericWorkload", default=False),
    _alpha("TopologyAwareWorkloadScheduling", "GenericWorkload"),
    _alpha(
        "CompositePodGroup",
        "GenericWorkload",
        "TopologyAwareWorkloadScheduling",
        lacking="groups of pod groups",
    ),
    # The API server keeps the field if it is on, and what it keeps is respected here.
    _alpha("PodGroupPreemptionPolicy", "GenericWorkload"),
    # Speed only; kubestow has an index for hints, and evaluates affinity by node anyway.
    _alpha("SchedulerPreQueueingHints"),
    _alpha("InterPodAffinityHostnameFastPath"),
    _beta("CoordinatedLeaderElection", default=False),
    _beta("ComponentFlagz"),
    _beta("ComponentStatusz"),
    _alpha("NativeHistograms"),
)
"""The gates of v1.37 (`kube_features.go: defaultVersionedKubernetesFeatureGates`)."""

OWN_GATES: Final = (
    # In both KEPs alpha and off by default, because they concern every pod and quota. On here:
    # without the annotation, or a quota with kubestow's keys, they change nothing.
    _beta("PodTopologySpreadFallbackMode"),
    _beta("ResourceQuotaDeferredEnforcement"),
    # Removed upstream, after it was locked to on; manifests and charts still name it.
    _ga("PodSchedulingReadiness", locked=False),
    # Removed upstream in v1.37; can be switched off here, for a cluster in which a hint is wrong.
    _ga("SchedulerQueueingHints", locked=False),
)
"""Gates that kubestow adds: KEP-3990 and KEP-5465; KEP-3521 and KEP-4247, which cannot be switched
off upstream any more."""

GATES: Final[Mapping[str, FeatureGate]] = {
    gate.name: gate for gate in (*UPSTREAM_GATES, *OWN_GATES)
}

_GROUPS: Final = {"AllAlpha": Stage.ALPHA, "AllBeta": Stage.BETA}


class FeatureGates(Mapping[str, bool]):
    """The state of every gate. Immutable."""

    __slots__ = ("_set", "_state")

    def __init__(self, changes: Mapping[str, bool] | None = None) -> None:
        """Defaults with `changes` (which may hold `AllAlpha` and `AllBeta`).

        Raises:
            ConfigurationError: names every unknown, locked or unsupported change.
        """
        self._set: Final = dict(changes or {})
        self._state: Final = {name: gate.default for name, gate in GATES.items()}
        problems = list(self._apply())
        if not problems:
            problems = list(self._missing_requirements())
        if problems:
            raise ConfigurationError(problems)

    @classmethod
    def parse(cls, flag: str | Iterable[str]) -> FeatureGates:
        """Read `A=true,B=false`, or several such texts where the flag was repeated.

        >>> FeatureGates.parse("StorageCapacityScoring=false").enabled("StorageCapacityScoring")
        False
        """
        changes: dict[str, bool] = {}
        problems: list[str] = []
        for text in [flag] if isinstance(flag, str) else flag:
            for part in filter(None, (part.strip() for part in text.split(","))):
                name, equals, value = (piece.strip() for piece in part.partition("="))
                if not equals:
                    problems.append(f'--feature-gates: "{part}" has no value; write {part}=true')
                elif value not in GO_BOOLEANS:
                    problems.append(
                        f'--feature-gates: "{name}={value}": the value must be true or false'
                    )
                else:
                    changes[name] = GO_BOOLEANS[value]
        try:
            gates = cls(changes)
        except ConfigurationError as error:
            raise ConfigurationError([*problems, *error.problems]) from None
        if problems:
            raise ConfigurationError(problems)
        return gates

    def enabled(self, name: str) -> bool:
        """Whether a gate is on. KeyError for a name that is not in the table."""
        return self._state[name]

    @property
    def changes(self) -> Mapping[str, bool]:
        """Gates as set, groups included, in the order given."""
        return dict(self._set)

    def __getitem__(self, name: str) -> bool:
        return self._state[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._state)

    def __len__(self) -> int:
        return len(self._state)

    def __repr__(self) -> str:
        changes = ",".join(f"{name}={str(on).lower()}" for name, on in self._set.items())
        return f"FeatureGates({changes!r})"

    def _apply(self) -> Iterator[str]:
        for group, stage in _GROUPS.items():
            if group in self._set:
                on = self._set[group]
                members = (gate for gate in GATES.values() if gate.stage is stage)
                self._state.update((gate.name, on and not gate.lacking) for gate in members)
        for name, on in self._set.items():
            if name in _GROUPS:
                continue
            gate = GATES.get(name)
            if gate is None:
                hint = did_you_mean(name, [*GATES, *_GROUPS])
                yield f"--feature-gates: unrecognized feature gate: {name}{hint}"
            elif gate.locked and on is not gate.default:
                yield (
                    f"--feature-gates: cannot set feature gate {name} to {str(on).lower()}, "
                    f"feature is locked to {str(gate.default).lower()}"
                )
            elif gate.lacking and on:
                yield (
                    f"--feature-gates: cannot set feature gate {name} to true, kubestow does not "
                    f"support {gate.lacking}; remove {name}=true"
                )
            else:
                self._state[name] = on

    def _missing_requirements(self) -> Iterator[str]:
        for gate in GATES.values():
            if not self._state[gate.name]:
                continue
            for needed in gate.requires:
                if not self._state[needed]:
                    yield (
                        f"--feature-gates: {gate.name} needs {needed}, which is off; "
                        f"add {needed}=true or remove {gate.name}=true"
                    )
