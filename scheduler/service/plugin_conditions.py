"""Conditions of plugins in the status of a pending pod (`PodConditionsPlugin`).

They are collected when PodScheduled=False is written and become part of the same PATCH; this module
writes nothing itself. If a plugin raises, only its own condition is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import structlog

from scheduler.api.meta import Condition
from scheduler.api.pod import Pod
from scheduler.engine import Framework
from scheduler.framework import QueuedPodInfo

_log = structlog.get_logger(__name__)

ConditionSource = Callable[[Pod, QueuedPodInfo], Sequence[Condition]]
"""`source(pod, info)` returns the conditions of plugins for a pod that is not scheduled."""

_NOT_THEIRS: Final = frozenset(
    ("PodScheduled", "Ready", "Initialized", "ContainersReady", "DisruptionTarget")
)


class PluginConditions:
    """Collects the conditions of the plugins of a pod's profile."""

    def __init__(self, frameworks: Mapping[str, Framework]) -> None:
        self.replace(frameworks)

    def replace(self, frameworks: Mapping[str, Framework]) -> None:
        """Use the plugins of these profiles from now on."""
        self._plugins: dict[str, tuple[Any, ...]] = {
            name: tuple(
                plugin
                for plugin in framework.plugins.values()
                if callable(getattr(plugin, "pod_conditions", None))
            )
            for name, framework in frameworks.items()
        }

    def __call__(self, pod: Pod, info: QueuedPodInfo) -> Sequence[Condition]:
        """Return all conditions in plugin order; of those with equal types, only the first."""
        plugins = self._plugins.get(pod.spec.scheduler_name)
        if not plugins:
            return ()
        found: dict[str, Condition] = {}
        for plugin in plugins:
            try:
                for each in plugin.pod_conditions(pod, info):
                    if each.type in _NOT_THEIRS:
                        raise ValueError(f"condition {each.type} is not a plugin's to write")
                    found.setdefault(each.type, each)
            except Exception:  # noqa: BLE001 - boundary: plugin call
                _log.exception("plugin raised", plugin=plugin.name, where="pod_conditions",
                               pod=pod.key)  # fmt: skip
        return tuple(found.values())
