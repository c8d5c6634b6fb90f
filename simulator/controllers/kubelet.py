"""The fake kubelet: bound pods start, run for a while, finish, and go when deleted.

Pure: pods and times in, actions out; no store, no clock, no HTTP. The same state machine serves the
embedded cluster and a real API server, whoever carries its actions out. Annotations of a pod, all
in seconds:

- `kubestow.io/start-seconds`: from binding to Running (default: `Settings.start_seconds`);
- `kubestow.io/run-seconds`: from start to the end, whatever the restart policy (default: pods that
  may end, restart policy Never or OnFailure, take `Settings.run_seconds`; all others run for ever);
- `kubestow.io/terminate-seconds`: from SIGTERM to being gone; the sleep of a preStop hook comes
  before it, and both together take at most the grace period;
- `kubestow.io/exit-code`: not 0 makes the pod end Failed.

A deleted pod that finalizers hold ends first (Succeeded or Failed), so that it uses nothing any
more, and is then let go; the rest is up to whoever removes the finalizers.
"""

from __future__ import annotations

import heapq
import math
import zlib
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from simulator.objects import JsonObject, dig, format_time, parse_time

START_SECONDS: Final = "kubestow.io/start-seconds"
RUN_SECONDS: Final = "kubestow.io/run-seconds"
TERMINATE_SECONDS: Final = "kubestow.io/terminate-seconds"
EXIT_CODE: Final = "kubestow.io/exit-code"

_TERMINAL: Final = ("Succeeded", "Failed")


class Settings(NamedTuple):
    """Times, in seconds, for pods without annotations of their own."""

    start_seconds: float = 0.0
    run_seconds: float = 10.0
    """`math.inf`: until they are deleted."""
    terminate_seconds: float = 1.0


class PatchStatus(NamedTuple):
    """Apply a strategic merge patch to the status of a pod; not if its UID is another by now."""

    namespace: str
    name: str
    uid: str
    patch: JsonObject


class Remove(NamedTuple):
    """Delete a pod with grace period 0; not if its UID is another by now."""

    namespace: str
    name: str
    uid: str


Action: TypeAlias = PatchStatus | Remove


class KubeletDecision(NamedTuple):
    """The action for a pod now, or the time of the next decision (`due`, epoch seconds)."""

    action: Action | None = None
    due: float | None = None


def _seconds(pod: JsonObject, annotation: str) -> float | None:
    text = (dig(pod, "metadata", "annotations") or {}).get(annotation)
    try:
        return None if text is None else max(0.0, float(text))
    except ValueError:
        return None


def decide(pod: JsonObject, now: float, settings: Settings = Settings()) -> KubeletDecision:  # noqa: B008
    """Return the next action of a kubelet for one pod; none for a pod without a node."""
    meta = pod.get("metadata") or {}
    if not dig(pod, "spec", "nodeName"):
        return KubeletDecision()
    where = (str(meta.get("namespace", "")), str(meta.get("name", "")), str(meta.get("uid", "")))
    phase = dig(pod, "status", "phase") or "Pending"
    if meta.get("deletionTimestamp"):
        due = _gone_at(pod, settings)
        if due > now:
            return KubeletDecision(due=due)
        if not meta.get("finalizers"):
            return KubeletDecision(Remove(*where))
        if phase not in _TERMINAL:
            return KubeletDecision(PatchStatus(*where, _finished(pod, now)))
        # With a grace period of 0 it was let go already.
        return (
            KubeletDecision(Remove(*where))
            if meta.get("deletionGracePeriodSeconds")
            else KubeletDecision()
        )
    if phase == "Pending":
        due = _start_at(pod, now, settings)
        return (
            KubeletDecision(PatchStatus(*where, _running(pod, now)))
            if due <= now
            else KubeletDecision(due=due)
        )
    if phase == "Running":
        end = _end_at(pod, settings)
        if end is None:
            return KubeletDecision()
        return (
            KubeletDecision(PatchStatus(*where, _finished(pod, now)))
            if end <= now
            else KubeletDecision(due=end)
        )
    return KubeletDecision()


def _gone_at(pod: JsonObject, settings: Settings) -> float:
    deadline = parse_time(dig(pod, "metadata", "deletionTimestamp")) or 0.0
    phase = dig(pod, "status", "phase")
    if phase in _TERMINAL:
        return 0.0
    grace = float(dig(pod, "metadata", "deletionGracePeriodSeconds") or 0)
    wanted = _seconds(pod, TERMINATE_SECONDS)
    takes = settings.terminate_seconds if wanted is None else wanted
    if phase == "Running":
        takes += _pre_stop_sleep(pod)
    return deadline - grace + min(takes, grace)


def _pre_stop_sleep(pod: JsonObject) -> float:
    """Return the longest of all containers, which are stopped at the same time."""
    sleeps = [
        dig(container, "lifecycle", "preStop", "sleep", "seconds")
        for container in dig(pod, "spec", "containers") or ()
    ]
    return max((float(seconds) for seconds in sleeps if seconds), default=0.0)


def _start_at(pod: JsonObject, now: float, settings: Settings) -> float:
    wanted = _seconds(pod, START_SECONDS)
    takes = settings.start_seconds if wanted is None else wanted
    if not takes:
        return now
    bound = _scheduled_condition(pod) or {}
    since = bound.get("lastTransitionTime") or dig(pod, "metadata", "creationTimestamp")
    return (parse_time(since) or now) + takes


def _scheduled_condition(pod: JsonObject) -> JsonObject | None:
    for condition in dig(pod, "status", "conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "True":
            scheduled: JsonObject = condition
            return scheduled
    return None


def _end_at(pod: JsonObject, settings: Settings) -> float | None:
    runs = _seconds(pod, RUN_SECONDS)
    if runs is None:
        if dig(pod, "spec", "restartPolicy") not in ("Never", "OnFailure"):
            return None
        runs = settings.run_seconds
    if runs == math.inf:
        return None
    started = parse_time(dig(pod, "status", "startTime"))
    return None if started is None else started + runs


def _conditions(now: float, **held: bool) -> list[JsonObject]:
    return [
        {
            "type": name,
            "status": "True" if on else "False",
            "lastProbeTime": None,
            "lastTransitionTime": format_time(now),
        }
        for name, on in held.items()
    ]


def _container_statuses(
    pod: JsonObject, state: Callable[[JsonObject], JsonObject], ready: bool
) -> list[JsonObject]:
    return [
        {
            "name": container.get("name", ""),
            "image": container.get("image", ""),
            "imageID": "",
            "ready": ready,
            "started": ready,
            "restartCount": 0,
            "state": state(container),
        }
        for container in dig(pod, "spec", "containers") or []
    ]


def _running(pod: JsonObject, now: float) -> JsonObject:
    address = _address(str(dig(pod, "metadata", "uid") or ""))
    started = format_time(now)
    held = {"Initialized": True, "Ready": True, "ContainersReady": True}
    if _scheduled_condition(pod) is None:
        # No scheduler bound it: a static pod, or one that was created with its node.
        held["PodScheduled"] = True
    return {
        "phase": "Running",
        "startTime": started,
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": _conditions(now, **held),
        "containerStatuses": _container_statuses(
            pod, lambda _container: {"running": {"startedAt": started}}, True
        ),
    }


def _finished(pod: JsonObject, now: float) -> JsonObject:
    code = int(_seconds(pod, EXIT_CODE) or 0)
    reason = "Error" if code else "Completed"
    ended: JsonObject = {
        "terminated": {
            "exitCode": code,
            "reason": reason,
            "startedAt": dig(pod, "status", "startTime"),
            "finishedAt": format_time(now),
        }
    }
    return {
        "phase": "Failed" if code else "Succeeded",
        "conditions": _conditions(now, Initialized=True, Ready=False, ContainersReady=False),
        "containerStatuses": _container_statuses(pod, lambda _container: ended, False),
    }


def _address(uid: str) -> str:
    """Return a stable address of a pod; two pods may share one, because nothing routes to it."""
    number = zlib.crc32(uid.encode())
    return f"10.{number >> 16 & 127}.{number >> 8 & 255}.{(number & 255) or 1}"


class Kubelet:
    """All kubelets of a cluster: observe pods, return due actions. Owned by its caller.

    `nodes` returns whether a node has a kubelet; without it, every name has one.
    """

    def __init__(
        self, settings: Settings | None = None, nodes: Callable[[str], bool] | None = None
    ) -> None:
        self._settings = settings or Settings()
        self._nodes = nodes
        self._pods: dict[tuple[str, str], JsonObject] = {}
        self._due: list[tuple[float, int, tuple[str, str]]] = []
        self._pushed = 0

    def observe(self, pod: JsonObject, now: float) -> None:
        """Note that a pod was created or changed."""
        meta = pod["metadata"]
        key = (meta.get("namespace", ""), meta["name"])
        decision = decide(pod, now, self._settings)
        if decision == KubeletDecision():
            self._pods.pop(key, None)
            return
        self._pods[key] = pod
        self._push(now if decision.due is None else decision.due, key)

    def forget(self, namespace: str, name: str) -> None:
        """Note that a pod is gone."""
        self._pods.pop((namespace, name), None)

    def next_due(self) -> float | None:
        """Return the time of the next decision in epoch seconds; None: after a change of a pod."""
        return self._due[0][0] if self._due else None

    def due(self, now: float, limit: int = 256) -> list[Action]:
        """Return up to `limit` due actions; each pod must change before its next action."""
        actions: list[Action] = []
        while self._due and self._due[0][0] <= now and len(actions) < limit:
            _, _, key = heapq.heappop(self._due)
            pod = self._pods.get(key)
            if pod is None:
                continue
            decision = decide(pod, now, self._settings)
            if decision.action is None:
                if decision.due is not None:
                    self._push(decision.due, key)
            elif self._nodes is None or self._nodes(str(dig(pod, "spec", "nodeName"))):
                del self._pods[key]
                actions.append(decision.action)
        return actions

    def _push(self, due: float, key: tuple[str, str]) -> None:
        self._pushed += 1
        heapq.heappush(self._due, (due, self._pushed, key))
