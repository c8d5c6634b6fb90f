"""kube-scheduler on a control plane, and optionally kubestow, given one pod after the other.

A decision is assembled from the requests that the scheduler sent (outcome, message, nomination) and
from its log (victims, and at verbosity 10 the weighted score of every plugin on every node).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from benchmarks.fuzz.proxy import Write, WriteProxy
from devtools.control_plane.control_plane import ApiServerOptions, ControlPlane
from devtools.control_plane.kubestow import start_kubestow

Object = dict[str, Any]

OPTIONS: Final = ApiServerOptions(
    disabled_admission_plugins=(
        "ServiceAccount", "TaintNodesByCondition", "Priority", "StorageObjectInUseProtection",
        "RuntimeClass", "DefaultTolerationSeconds", "NodeRestriction",
    )
)  # fmt: skip
"""Admission plugins that need a controller or would change the drawn pods."""

_SCORE: Final = re.compile(
    r'"Plugin scored node for pod" pod="(\S+)" plugin="(\S+)" node="(\S+)" score=(-?\d+)'
)
_TOTAL: Final = re.compile(
    r'"Calculated node\'s final score for pod" pod="(\S+)" node="(\S+)" score=(-?\d+)'
)
_FAILED: Final = re.compile(r'"Plugin Failed" err=.* pod="(\S+)" plugin="\S+" node="(\S+)"')
_EVICTED: Final = re.compile(
    r'"Preemptor Pod preempted victim Pod" preemptor="(\S+)" victim="(\S+)" node="\S+"'
)
_TIMEOUT_SECONDS: Final = 8.0
_QUIET_SECONDS: Final = 0.08
"""How long no further victim may be evicted before they count as complete."""
_EVICTION_SECONDS: Final = 0.5
"""For the first eviction."""


@dataclass(slots=True)
class Verdict:
    """The decision of kube-scheduler for one pod."""

    scheduled: bool = False
    #: `Unschedulable`, or `SchedulerError` when an attempt failed for another reason.
    reason: str = ""
    node: str = ""
    message: str = ""
    nominated: str = ""
    victims: set[str] = field(default_factory=set)
    #: Weighted, by plugin and node.
    scores: dict[str, dict[str, int]] = field(default_factory=dict)
    totals: dict[str, int] = field(default_factory=dict)


class KubeScheduler:
    """Collects kube-scheduler's decisions, one pod at a time."""

    def __init__(self, control_plane: ControlPlane) -> None:
        self._control_plane = control_plane
        self.proxy = WriteProxy(control_plane.url, control_plane.admin_token, self._record)
        self._writes: list[Write] = []
        self._arrived = asyncio.Event()
        self._read = 0
        #: What kube-scheduler logged since the pod in question was created.
        self._log: list[str] = []
        #: The node that kube-scheduler last nominated, by namespace and name of the pod.
        self.nominations: dict[tuple[str, str], str] = {}

    async def start(self, config: Mapping[str, Any]) -> None:
        """Run kube-scheduler behind the proxy."""
        await self.proxy.start()
        plane = self._control_plane
        path = plane.files.directory / "fuzz.kubeconfig"
        path.write_text(json.dumps(_kubeconfig(self.proxy.port)))
        connection = {
            "kubeconfig": str(path), "contentType": "application/json", "qps": 5000, "burst": 5000,
        }  # fmt: skip
        await asyncio.to_thread(
            lambda: plane.start_scheduler(
                {**config, "clientConnection": connection},
                ["--vmodule=schedule_one=10,executor=2"],
                kubeconfig=path,
                feature_gates={"OpportunisticBatching": False},
            )
        )

    async def start_ours(self, config: Mapping[str, Any]) -> None:
        """Run kubestow behind the same proxy."""
        plane = self._control_plane
        path = plane.files.directory / "fuzz.kubeconfig"
        await asyncio.to_thread(lambda: start_kubestow(plane, config, kubeconfig=path))

    async def decide(self, pod: Object, *, keep: bool = False) -> tuple[Object, Verdict]:
        """Create a pod, wait for the decision, delete the pod; the pod as stored, the decision.

        With `keep` it stays if a node is nominated for it.
        """
        space = pod["metadata"]["namespace"]
        path = f"/api/v1/namespaces/{space}/pods"
        self._writes.clear()
        self._read_on()
        self._log.clear()
        stored = await self.proxy.call("POST", path, pod)
        name = stored["metadata"]["name"]
        verdict = Verdict()
        try:
            verdict = await self._verdict(space, name)
        finally:
            if not (keep and verdict.nominated):
                await self.proxy.call("DELETE", f"{path}/{name}", {"gracePeriodSeconds": 0})
        self._read_log(f"{space}/{name}", verdict)
        return stored, verdict

    def _record(self, write: Write) -> None:
        if write.subresource == "status" and "nominatedNodeName" in write.body["status"]:
            node = write.body["status"]["nominatedNodeName"]
            self.nominations[write.namespace, write.name] = node or ""
        if write.resource != "events":
            self._writes.append(write)
            self._arrived.set()

    async def _verdict(self, space: str, name: str) -> Verdict:
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            while (patch := self._patch(space, name)) is None:
                self._arrived.clear()
                await self._arrived.wait()
        condition = patch["status"]["conditions"][0]
        verdict = Verdict(
            reason=condition.get("reason", ""),
            message=condition.get("message", ""),
            nominated=patch["status"].get("nominatedNodeName") or "",
        )
        refused = [w for w in self._writes if w.subresource == "binding" or "volume" in w.resource]
        verdict.scheduled = bool(refused) and verdict.reason != "Unschedulable"
        for write in refused:
            if write.subresource == "binding":
                verdict.node = write.body["target"]["name"]
        if verdict.nominated:
            verdict.victims = await self._victims(f"{space}/{name}")
        return verdict

    def _patch(self, space: str, name: str) -> Any:
        for write in self._writes:
            mine = (write.namespace, write.name) == (space, name)
            if mine and write.subresource == "status" and write.body["status"].get("conditions"):
                return write.body
        return None

    async def _victims(self, preemptor: str) -> set[str]:
        """Return the pods evicted for one pod, once no further one is for a while.

        The log names the preemptor, the requests do not: a pod that waits with a nomination may be
        tried again meanwhile, and evict pods of its own (`executor.go: NewExecutor`).
        """
        victims: set[str] = set()
        complete = False
        while not complete:
            complete = not await self._further_write(
                _QUIET_SECONDS if victims else _EVICTION_SECONDS
            )
            self._read_on()
            evicted = _EVICTED.findall("".join(self._log))
            victims = {victim for pod, victim in evicted if pod == preemptor}
        return victims

    async def _further_write(self, seconds: float) -> bool:
        """Wait for a request that writes; False when none arrives in time."""
        self._arrived.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._arrived.wait()
        except TimeoutError:
            return False
        return True

    def _read_on(self) -> None:
        """Read what has been added to the log."""
        with self._control_plane.files.logs.joinpath("kube-scheduler.log").open("rb") as log:
            log.seek(self._read)
            raw = log.read()
        self._read += len(raw)
        self._log.append(raw.decode(errors="replace"))

    def _read_log(self, key: str, verdict: Verdict) -> None:
        scores: dict[str, dict[str, int]] = defaultdict(dict)
        self._read_on()
        text = "".join(self._log)
        for pod, plugin, node, score in _SCORE.findall(text):
            if pod == key:
                scores[plugin][node] = int(score)
        verdict.totals = {n: int(score) for pod, n, score in _TOTAL.findall(text) if pod == key}
        verdict.scores = dict(scores)
        for pod, node in _FAILED.findall(text):
            if pod == key and verdict.scheduled and not verdict.node:
                verdict.node = node


def _kubeconfig(port: int) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }


@contextlib.asynccontextmanager
async def kube_scheduler(
    config: Mapping[str, Any], own: Mapping[str, Any] | None
) -> AsyncIterator[KubeScheduler]:
    """A control plane with kube-scheduler behind the proxy, for as long as the context lasts.

    `own`: configuration of a kubestow process to run beside it, if any.
    """
    plane = ControlPlane(options=OPTIONS)
    await asyncio.to_thread(plane.start)
    found = KubeScheduler(plane)
    try:
        await found.start(config)
        if own is not None:
            await found.start_ours(own)
        yield found
    finally:
        await asyncio.to_thread(plane.stop)
        await found.proxy.stop()
