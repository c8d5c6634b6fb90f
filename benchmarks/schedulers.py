"""The schedulers under test, with the settings each is measured with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from devtools.control_plane.control_plane import ControlPlane, ManagedProcess
from devtools.control_plane.kubestow import start_kubestow

CLIENT_LIMITS: Final = {"qps": 5000, "burst": 5000}
"""Upstream's suite has the same; kube-scheduler's own default of 50 would measure the limiter."""

OURS: Final = "kubestow"


@dataclass(frozen=True, slots=True)
class Scheduler:
    """A scheduler and its settings."""

    label: str
    #: `kubestow` or `kube-scheduler`.
    program: str
    scheduler_name: str
    feature_gates: dict[str, bool] = field(default_factory=dict)
    percentage_of_nodes_to_score: int | None = None

    def start(
        self, control_plane: ControlPlane, arguments: Mapping[str, Any] | None = None
    ) -> ManagedProcess:
        """Start it and wait until it has synced; `arguments` are those of its plugins, by name."""
        config: dict[str, Any] = {"clientConnection": CLIENT_LIMITS}
        if arguments:
            given = [{"name": plugin, "args": args} for plugin, args in arguments.items()]
            config["profiles"] = [{"schedulerName": self.scheduler_name, "pluginConfig": given}]
        if self.percentage_of_nodes_to_score is not None:
            config["percentageOfNodesToScore"] = self.percentage_of_nodes_to_score
        if self.program == OURS:
            return start_kubestow(control_plane, config, feature_gates=self.feature_gates)
        return control_plane.start_scheduler(config, feature_gates=self.feature_gates)


SCHEDULERS: Final = {
    contender.label: contender
    for contender in (
        Scheduler(OURS, OURS, "kubestow"),
        Scheduler("kube-scheduler", "kube-scheduler", "default-scheduler"),
        Scheduler(
            "kube-scheduler, batching off",
            "kube-scheduler",
            "default-scheduler",
            {"OpportunisticBatching": False},
        ),
        Scheduler(
            "kube-scheduler, all nodes",
            "kube-scheduler",
            "default-scheduler",
            percentage_of_nodes_to_score=100,
        ),
    )
}
