"""PreEnqueue plugins: they decide whether a pod may enter the active queue.

Invariant: a plugin that raises gates the pod like one that rejects it; no exception escapes. The
caller updates the pod's record and moves the pod.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from scheduler.api.pod import Pod
from scheduler.framework.plugin import PreEnqueuePlugin
from scheduler.framework.queued import QueuedPodInfo
from scheduler.framework.status import Code, Status, error, status_or_none
from scheduler.queue.metrics import QueueMetrics
from scheduler.queue.queueing_hints import PluginErrorListener
from scheduler.queue.unschedulable_pods import SignatureGroup

PRE_ENQUEUE: Final = "PreEnqueue"

_SUCCESS: Final = Status(Code.SUCCESS)
#: Durations of single plugins are observed in every tenth run, as upstream samples ten percent.
_SAMPLE_EVERY: Final = 10


class PreEnqueueRunner:
    """The PreEnqueue plugins of all profiles."""

    def __init__(
        self,
        plugins: Mapping[str, Sequence[PreEnqueuePlugin]],
        metrics: QueueMetrics,
        timer: Callable[[], float] | None = None,
        on_error: PluginErrorListener | None = None,
    ) -> None:
        """`timer` returns seconds, to measure runs; None measures nothing."""
        self.replace(plugins)
        self._metrics = metrics
        self._timer = timer
        self._on_error = on_error
        #: Number since the start.
        self.runs = self.errors = 0

    def replace(self, plugins: Mapping[str, Sequence[PreEnqueuePlugin]]) -> None:
        """Run these plugins from now on."""
        self._plugins = {profile: tuple(found) for profile, found in plugins.items()}
        #: (profile, plugin name) -> the plugin, if it has the optional method `held`.
        self._with_held: dict[tuple[str, str], Any] = {
            (profile, plugin.name): plugin
            for profile, found in self._plugins.items()
            for plugin in found
            if callable(getattr(plugin, "held", None))
        }

    def run(self, info: QueuedPodInfo) -> tuple[str, Status] | None:
        """Return the first rejection and its plugin; None if all plugins admit the pod.

        The plugin that gates the pod at present runs first: if it still rejects, no other runs.
        """
        profile = info.pod.spec.scheduler_name
        plugins = self._plugins.get(profile, ())
        if info.gating_plugin:
            plugins = tuple(sorted(plugins, key=lambda plugin: plugin.name != info.gating_plugin))
        self.runs += 1
        timer = self._timer
        if timer is None and not plugins:
            return None
        sampled = timer if self.runs % _SAMPLE_EVERY == 0 else None
        run_started = timer() if timer else 0.0
        rejection: tuple[str, Status] | None = None
        for plugin in plugins:
            started = sampled() if sampled else 0.0
            status = self._call(plugin, info.pod)
            if sampled:
                label = (status or _SUCCESS).code.label
                self._metrics.plugin_duration(plugin.name, label, sampled() - started)
            if status is not None:
                rejection = plugin.name, status
                break
        if timer:
            outcome = rejection[1] if rejection else _SUCCESS
            self._metrics.pre_enqueue_duration(profile, outcome.code.label, timer() - run_started)
        return rejection

    def may_ungate(self, group: SignatureGroup, changed: object) -> list[QueuedPodInfo]:
        """Return the members of a gated group that an event about `changed` may ungate.

        These are all members except those that the gating plugin's method `held` returns.
        """
        sample = group.sample
        plugin = self._with_held.get((sample.pod.spec.scheduler_name, sample.gating_plugin))
        if plugin is None:
            return list(group.members.values())
        try:
            held = plugin.held(changed)
            return [info for uid, info in group.members.items() if uid not in held]
        except Exception as cause:  # noqa: BLE001 - boundary: plugin call
            self.errors += 1
            self.report(plugin.name, PRE_ENQUEUE, sample.pod, cause)
            return list(group.members.values())

    def report(self, plugin: str, what: str, pod: Pod, cause: Exception) -> None:
        """Pass an exception of a plugin to `on_error`, for the log."""
        if self._on_error:
            self._on_error(plugin, what, pod, cause)

    def _call(self, plugin: PreEnqueuePlugin, pod: Pod) -> Status | None:
        try:
            status = status_or_none(plugin.pre_enqueue(pod))
        except Exception as cause:  # noqa: BLE001 - boundary: plugin call
            self.errors += 1
            self.report(plugin.name, PRE_ENQUEUE, pod, cause)
            return error(cause).by(plugin.name)
        if status is None or status.success:
            return None
        if status.code is Code.ERROR:
            self.errors += 1
        return status.by(plugin.name)
