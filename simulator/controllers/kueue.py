"""A small imitation of Kueue: gated pods of a queue are let go, a few at a time.

A pod with the label `kueue.x-k8s.io/queue-name` and the gate `kueue.x-k8s.io/admission` waits here.
Letting it go is one patch, as Kueue does it: its gate goes and node selectors come in the same
write; gates of others stay. A pod that is not ready in time is deleted for good, as Kueue deletes
plain pods (`pkg/controller/jobs/pod/pod_controller.go`); who owns it may make a new one. With
`addGate` the gate is put on by a mutating webhook, so that authors need the label only.

Not here: cluster queues, flavours, cohorts, preemption, workloads of several pods.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from simulator.admission import AdmissionRequest
from simulator.api import MERGE_PATCH, STRATEGIC_PATCH, Api
from simulator.controllers.workloads import is_ready
from simulator.errors import ApiError
from simulator.objects import JsonObject, dig, format_time
from simulator.store import StoreChange

QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
ADMISSION_GATE: Final = "kueue.x-k8s.io/admission"
TERMINATION_TARGET: Final = "TerminationTarget"
"""Condition of a pod that is deleted because its workload was evicted."""

_Key = tuple[str, str]
"""Namespace, name."""


class KueueSettings(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """Settings of the imitation."""

    batch: int = 1
    """Pods released at a time; 0 releases none."""
    every_seconds: float = 1.0
    """Between two times."""
    max_admitted: int = 0
    """Pods let go and not finished at one moment; 0: any number."""
    node_selector: dict[str, str] = {}
    """Added to a pod that is let go."""
    pods_ready_timeout_seconds: float = 0.0
    """From being let go to Ready; a pod that takes longer is deleted. 0: for ever."""
    add_gate: bool = False
    """Whether pods with the label get the gate at creation."""


class KueueController:
    """The controller, and its webhook (`gate`)."""

    def __init__(self, api: Api, settings: KueueSettings | None = None) -> None:
        self._api = api
        self._pods = api.resources.of_kind("v1", "Pod")
        self._settings = settings or KueueSettings()
        self._waiting: dict[_Key, None] = {}
        self._admitted: dict[_Key, float] = {}
        self._next_batch = 0.0

    def settings(self) -> JsonObject:
        """Return the settings that can be changed while it runs."""
        settings: JsonObject = msgspec.to_builtins(self._settings)
        return settings

    def adjust(self, wanted: JsonObject) -> None:
        """Change settings. Raises ValueError."""
        made = msgspec.convert({**self.settings(), **wanted}, KueueSettings)
        if min(made.batch, made.every_seconds, made.max_admitted) < 0:
            raise ValueError("batch, everySeconds and maxAdmitted are 0 or more")
        if made.pods_ready_timeout_seconds < 0:
            raise ValueError("podsReadyTimeoutSeconds is 0 or more")
        self._settings = made
        self._next_batch = 0.0

    def gate(self, request: AdmissionRequest) -> None:
        """Add the gate to a new pod of a queue, if the settings require it."""
        if not self._settings.add_gate or request.subresource:
            return
        if not _queue_of(request.obj) or _is_gated(request.obj):
            return
        spec = request.obj["spec"]
        if not spec.get("nodeName"):
            spec["schedulingGates"] = [
                *(spec.get("schedulingGates") or ()),
                {"name": ADMISSION_GATE},
            ]

    def observe(self, table: str, change: StoreChange, now: float) -> None:
        """Follow the pods of queues."""
        if table != "pods":
            return
        pod = change.version.obj
        key = (change.version.namespace, change.version.name)
        if change.type == "DELETED" or not _queue_of(pod):
            self._waiting.pop(key, None)
            self._admitted.pop(key, None)
        elif _is_gated(pod):
            self._waiting.setdefault(key)
            self._admitted.pop(key, None)
        else:
            self._waiting.pop(key, None)
            if dig(pod, "status", "phase") in ("Succeeded", "Failed"):
                self._admitted.pop(key, None)
            else:
                self._admitted.setdefault(key, now)

    def next_due(self) -> float | None:
        """Return the time of the next batch, or of the next pod's timeout."""
        dues = []
        if self._room():
            dues.append(self._next_batch)
        if self._settings.pods_ready_timeout_seconds:
            late = [since for key, since in self._admitted.items() if not self._is_ready(key)]
            dues += [min(late) + self._settings.pods_ready_timeout_seconds] if late else []
        return min(dues, default=None)

    def work(self, now: float, limit: int) -> None:
        """Delete what is late, then let a batch go."""
        timeout = self._settings.pods_ready_timeout_seconds
        for key, since in list(self._admitted.items()):
            if timeout and now >= since + timeout and not self._is_ready(key):
                self._evict(key, now)
        if now >= self._next_batch and self._room():
            self._next_batch = now + self._settings.every_seconds
            for key in list(self._waiting)[: self._room()]:
                self._let_go(key)

    def _room(self) -> int:
        """Return the number of pods that may be admitted now."""
        room = min(self._settings.batch, len(self._waiting))
        if self._settings.max_admitted:
            room = min(room, self._settings.max_admitted - len(self._admitted))
        return max(0, room)

    def _is_ready(self, key: _Key) -> bool:
        found = self._api.store.get("pods", *key)
        return found is None or is_ready(found.obj)

    def _let_go(self, key: _Key) -> None:
        found = self._api.store.get("pods", *key)
        self._waiting.pop(key, None)
        if found is None:
            return
        spec = found.obj["spec"]
        gates = [gate for gate in spec["schedulingGates"] if gate.get("name") != ADMISSION_GATE]
        patch: dict[str, Any] = {"schedulingGates": gates or None}
        if self._settings.node_selector:
            patch["nodeSelector"] = dict(self._settings.node_selector)
        try:
            self._api.patch(self._pods, *key, {"spec": patch}, MERGE_PATCH)
        except ApiError:
            # Refused (a selector that contradicts the pod's): to the end of the queue.
            self._waiting[key] = None

    def _evict(self, key: _Key, now: float) -> None:
        self._admitted.pop(key, None)
        condition: JsonObject = {
            "type": TERMINATION_TARGET,
            "status": "True",
            "reason": "WorkloadEvictedDueToPodsReadyTimeout",
            "message": "Exceeded the PodsReady timeout",
            "lastTransitionTime": format_time(now),
        }
        patch = {"status": {"conditions": [condition]}}
        try:
            self._api.patch(self._pods, *key, patch, STRATEGIC_PATCH, subresource="status")
            self._api.delete(self._pods, *key)
        except ApiError:
            # Another client was faster.
            return


def parse_settings(text: str) -> KueueSettings:
    """Read `name=value,...`, with node selectors as `nodeSelector.KEY=value`.

    Raises ValueError.

    >>> parse_settings("batch=2,addGate=true,nodeSelector.pool=gpu").node_selector
    {'pool': 'gpu'}
    """
    given: JsonObject = {}
    for part in filter(None, text.split(",")):
        name, _, value = part.partition("=")
        field, dot, key = name.partition(".")
        if field == "nodeSelector" and dot:
            given.setdefault(field, {})[key] = value
        else:
            given[name] = {"true": True, "false": False}.get(value, value)
    return msgspec.convert(given, KueueSettings, strict=False)


def _queue_of(pod: JsonObject) -> str:
    return str((dig(pod, "metadata", "labels") or {}).get(QUEUE_LABEL, ""))


def _is_gated(pod: JsonObject) -> bool:
    gates = dig(pod, "spec", "schedulingGates") or ()
    return any(gate.get("name") == ADMISSION_GATE for gate in gates)
