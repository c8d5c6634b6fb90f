"""A ResourceQuota plugin with a handle that records what the plugin does."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from plugins import ResourceQuota
from plugins.resource_quota.plugin import GATE
from scheduler.api import Pod
from scheduler.framework import (
    CycleState,
    Handle,
    QueuedPodInfo,
    Status,
)
from tests.unit.plugins.resource_quota.objects import pod, quota

CPU = "requests.cpu-millis"
EXCEEDED = (
    "quota exceeded: q, requested: requests.cpu=1, used: requests.cpu=1, limited: requests.cpu=1"
)


class RecordingHandle:
    """The parts of a handle that the plugin uses; records every call."""

    def __init__(self) -> None:
        self.callbacks: dict[str, Callable[..., None]] = {}
        self.timed: list[Any] = []
        self.recorded: list[tuple[str, str, str]] = []
        self.counted: list[tuple[str, ...]] = []
        self.gauges: dict[tuple[str, ...], float] = {}
        self.observed: list[float] = []
        self.woken: list[str] = []
        self.rechecked: list[str] = []
        self.activated: list[str] = []
        self.relabelled: list[tuple[str, str]] = []
        self.waited_for: list[list[str]] = []
        self.kept: dict[str, Any] = {}
        self.pods: dict[str, Pod] = {}
        self.nominated: dict[str, str] = {}
        self.time = 1000.0

    def on_object(self, plural: str, callback: Callable[..., None]) -> None:
        self.callbacks[plural] = callback

    def on_nomination(self, callback: Callable[..., None]) -> None:
        self.callbacks["nomination"] = callback

    def on_synced(self, callback: Callable[..., None]) -> None:
        self.callbacks["synced"] = callback

    def on_time(self, work: Any) -> Callable[[], None]:
        self.timed.append(work)
        return lambda: None

    def record(self, regarding: Any, kind: str, reason: str, action: str, note: str) -> None:
        name = regarding.metadata.name if isinstance(regarding, Pod) else regarding.name
        assert kind == "Warning"
        assert action
        self.recorded.append((name, reason, note))

    def count(self, *labels: str) -> None:
        self.counted.append(labels)

    def gauge(self, *labels: str, value: float) -> None:
        self.gauges[labels] = value

    def observe(self, *labels: str, value: float) -> None:
        assert labels
        self.observed.append(value)

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time - 1000

    def wake(self, uids: Any, plugin: str) -> None:
        assert plugin == "ResourceQuota"
        self.woken.extend(uids)

    def recheck(self, uids: Any) -> None:
        self.rechecked.extend(uids)

    def activate(self, pods: Any) -> None:
        self.activated.extend(each.metadata.name for each in pods)

    def relabel(self, pod: Pod, reason: str, message: str) -> None:
        assert message.startswith("quota exceeded: ")
        self.relabelled.append((pod.metadata.name, reason))

    async def status_written(self, uids: Any) -> None:
        self.waited_for.append([*uids])

    def shared(self, name: str, make: Callable[[], Any]) -> Any:
        if name not in self.kept:
            self.kept[name] = make()
        return self.kept[name]

    def as_handle(self, *, gate: bool = True) -> Handle:
        parts = {
            "feature_gates": {GATE: gate},
            "subscriptions": self,
            "metrics": self,
            "events": self,
            "clock": self,
            "wake": self.wake,
            "recheck": self.recheck,
            "activate": self.activate,
            "relabel": self.relabel,
            "api": self,
            "shared": self.shared,
            "listers": {"pods": SimpleNamespace(list=self.pods.values)},
            "nominator": SimpleNamespace(node_of=lambda uid: self.nominated.get(uid, "")),
        }
        return cast("Handle", SimpleNamespace(**parts))


class PluginFixture:
    """A plugin in a process that has listed all pods and quotas."""

    def __init__(self, *, synced: bool = True) -> None:
        self.handle = RecordingHandle()
        self.plugin = ResourceQuota(None, self.handle.as_handle())
        assert self.plugin.enforcement is not None
        self.ledger = self.plugin.enforcement.ledger
        if synced:
            self.handle.callbacks["synced"]()

    def deliver(self, *objects: Any) -> None:
        """Deliver new objects, as a watch does."""
        for each in objects:
            plural = "pods" if isinstance(each, Pod) else "resourcequotas"
            if isinstance(each, Pod):
                self.handle.pods[each.uid] = each
            self.handle.callbacks[plural](None, each)

    def deliver_change(self, old: Pod, new: Pod) -> None:
        """Deliver a changed pod."""
        self.handle.pods[new.uid] = new
        self.handle.callbacks["pods"](old, new)

    def run(self) -> None:
        self.plugin.enforcement.run_due()  # type: ignore[union-attr]

    def attempt(self, subject: Pod, *, real: bool = True) -> Status | None:
        state = CycleState(self.handle.time)
        state.info = QueuedPodInfo(subject, self.handle.time) if real else None
        return self.plugin.pre_filter(state, subject, cast("Any", None))


def full() -> PluginFixture:
    """A limit of one core, taken."""
    fixture = PluginFixture()
    fixture.deliver(quota(hard={CPU: 1000}), pod("running", node="n"))
    return fixture


def info_of(subject: Pod, *rejectors: str, gated: bool = False) -> QueuedPodInfo:
    info = QueuedPodInfo(subject, 0.0, unschedulable_plugins=set(rejectors))
    info.gating_plugin = "ResourceQuota" if gated else ""
    return info
