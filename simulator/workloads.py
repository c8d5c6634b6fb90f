"""Deployments, ReplicaSets, StatefulSets, DaemonSets and Jobs on their way in: visible defaults.

The controllers that act on them are in `simulator.controllers`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from scheduler.api.stored.pods import default_spec
from simulator.custom_resources import DEFINITIONS, DefinitionStrategy
from simulator.device_strategies import (
    CLAIMS,
    ClaimStrategy,
    ClaimTemplateStrategy,
    DeviceClassStrategy,
    SliceStrategy,
)
from simulator.errors import FieldCause, invalid_value, required_field
from simulator.objects import JsonObject, dig
from simulator.pods import PodStrategy
from simulator.quota_objects import QuotaStrategy
from simulator.resources import Resource
from simulator.selectors import matches_selector
from simulator.spread_constraints import validate_spread
from simulator.strategies import (
    BudgetStrategy,
    NamespaceStrategy,
    NodeStrategy,
    PriorityClassStrategy,
    ServiceStrategy,
    Strategy,
    Surroundings,
    VolumeStrategy,
)

TEMPLATE: Final = ("spec", "template", "spec")


class WorkloadStrategy(Strategy):
    """A kind with a pod template and a selector that must match it."""

    def __init__(self, **defaults: object) -> None:
        self._defaults = defaults

    def default(self, obj: JsonObject, around: Surroundings) -> None:
        """Fill in defaults of the template and of the kind."""
        super().default(obj, around)
        spec = obj.setdefault("spec", {})
        for name, value in self._defaults.items():
            spec.setdefault(name, value)
        pod_spec = dig(spec, "template", "spec")
        if isinstance(pod_spec, dict):
            default_spec(pod_spec)

    def validate_create(self, obj: JsonObject, around: Surroundings) -> list[FieldCause]:
        """Check metadata, and that the selector exists and matches the template."""
        causes = super().validate_create(obj, around)
        spec = obj["spec"]
        labels = dig(spec, "template", "metadata", "labels") or {}
        if not spec.get("selector"):
            causes.append(required_field("spec.selector"))
        elif not matches_selector(spec["selector"], labels):
            why = "`selector` does not match template `labels`"
            causes.append(invalid_value("spec.template.metadata.labels", str(labels), why))
        return causes + _validate_template(obj)

    def validate_update(
        self, obj: JsonObject, old: JsonObject, around: Surroundings
    ) -> list[FieldCause]:
        """Check metadata, and the template as on create."""
        return super().validate_update(obj, old, around) + _validate_template(obj)


def _validate_template(obj: JsonObject, path: tuple[str, ...] = TEMPLATE) -> list[FieldCause]:
    spec = dig(obj, *path)
    return validate_spread(spec, ".".join(path)) if isinstance(spec, dict) else []


class DeploymentStrategy(WorkloadStrategy):
    """Deployments: the rolling update's two numbers besides."""

    def default(self, obj: JsonObject, around: Surroundings) -> None:
        """Fill in strategy and template."""
        super().default(obj, around)
        strategy = obj["spec"].setdefault("strategy", {})
        if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", "25%")
            rolling.setdefault("maxSurge", "25%")


class JobStrategy(WorkloadStrategy):
    """Jobs: the selector and the labels of the template follow from the UID."""

    def default(self, obj: JsonObject, around: Surroundings) -> None:
        """Fill in counts, template and the generated selector."""
        super().default(obj, around)
        spec = obj["spec"]
        if "completions" not in spec and "parallelism" not in spec:
            spec["completions"] = 1
        spec.setdefault("parallelism", 1)

    def prepare_create(self, obj: JsonObject, resource: Resource, around: Surroundings) -> None:
        """Generate selector and labels."""
        super().prepare_create(obj, resource, around)
        spec, meta = obj["spec"], obj["metadata"]
        if spec.get("manualSelector"):
            return
        labels = {
            "batch.kubernetes.io/controller-uid": meta.get("uid", ""),
            "batch.kubernetes.io/job-name": meta.get("name", ""),
            "controller-uid": meta.get("uid", ""),
            "job-name": meta.get("name", ""),
        }
        template = spec.setdefault("template", {}).setdefault("metadata", {})
        template["labels"] = {**(template.get("labels") or {}), **labels}
        meta["labels"] = {**labels, **(meta.get("labels") or {})}
        uid_label = "batch.kubernetes.io/controller-uid"
        spec["selector"] = {"matchLabels": {uid_label: labels[uid_label]}}


class ReplicationControllerStrategy(WorkloadStrategy):
    """ReplicationControllers: their selector is a plain map, which nothing here checks."""

    def validate_create(self, obj: JsonObject, around: Surroundings) -> list[FieldCause]:
        """Check metadata and template."""
        return Strategy.validate_create(self, obj, around) + _validate_template(obj)


class CronJobStrategy(Strategy):
    """CronJobs are kept and checked; no controller here makes Jobs of them."""

    _PATH: Final = ("spec", "jobTemplate", *TEMPLATE)

    def default(self, obj: JsonObject, around: Surroundings) -> None:
        """Fill in defaults of the template and of the kind."""
        super().default(obj, around)
        spec = obj.setdefault("spec", {})
        for name, value in (("concurrencyPolicy", "Allow"), ("suspend", False)):
            spec.setdefault(name, value)
        pod_spec = dig(obj, *self._PATH)
        if isinstance(pod_spec, dict):
            default_spec(pod_spec)

    def validate_create(self, obj: JsonObject, around: Surroundings) -> list[FieldCause]:
        """Check metadata and template."""
        return super().validate_create(obj, around) + _validate_template(obj, self._PATH)

    def validate_update(
        self, obj: JsonObject, old: JsonObject, around: Surroundings
    ) -> list[FieldCause]:
        """Check metadata and template."""
        causes = super().validate_update(obj, old, around)
        return causes + _validate_template(obj, self._PATH)


PLAIN: Final = Strategy()
STRATEGIES: Final[Mapping[str, Strategy]] = {
    "pods": PodStrategy(),
    DEFINITIONS: DefinitionStrategy(),
    "namespaces": NamespaceStrategy(),
    "nodes": NodeStrategy(),
    "services": ServiceStrategy(),
    "persistentvolumes": VolumeStrategy(),
    "persistentvolumeclaims": VolumeStrategy(),
    "resourcequotas": QuotaStrategy(),
    CLAIMS: ClaimStrategy(),
    "resourceclaimtemplates.resource.k8s.io": ClaimTemplateStrategy(),
    "deviceclasses.resource.k8s.io": DeviceClassStrategy(),
    "resourceslices.resource.k8s.io": SliceStrategy(),
    "replicationcontrollers": ReplicationControllerStrategy(replicas=1),
    "poddisruptionbudgets.policy": BudgetStrategy(),
    "priorityclasses.scheduling.k8s.io": PriorityClassStrategy(),
    "deployments.apps": DeploymentStrategy(
        replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600
    ),
    "replicasets.apps": WorkloadStrategy(replicas=1),
    "statefulsets.apps": WorkloadStrategy(
        replicas=1, podManagementPolicy="OrderedReady", revisionHistoryLimit=10
    ),
    "daemonsets.apps": WorkloadStrategy(revisionHistoryLimit=10),
    "cronjobs.batch": CronJobStrategy(),
    "jobs.batch": JobStrategy(
        backoffLimit=6, completionMode="NonIndexed", suspend=False, manualSelector=False
    ),
}
"""The strategy of each table; `PLAIN` for the rest."""
