"""One scenario with one scheduler: hostile pods come, an ordinary one behind them, and all go."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import msgspec

from benchmarks.hostile.delivery import DeliveryWatch
from benchmarks.hostile.probe import Probe
from benchmarks.measure import cpu_seconds, peak_memory
from benchmarks.schedulers import Scheduler
from devtools.control_plane.control_plane import ControlPlane, ManagedProcess
from devtools.hostile.case import HostileCase, JsonObject
from devtools.hostile.sending import HostileSender, message
from devtools.hostile.templates import NAMESPACE, namespace, node, pod

WRITERS: Final = 8
POLL_SECONDS: Final = 0.02
QUIET_CPU: Final = 0.2
"""Cores in use below which a scheduler counts as idle."""
DELETE_ATTEMPTS: Final = 10
ORDINARY: Final = "tenant"
"""The namespace of the ordinary pod."""


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """Measurements of one scenario with one scheduler. Seconds and MiB."""

    case: str
    scheduler: str
    pods: int
    nodes: int
    #: Bytes of JSON of one hostile pod.
    bytes: int
    #: Longest wait for /livez while nothing happened, and while the hostile pods were there.
    idle_block: float
    longest_block: float
    #: From the creation of the ordinary pod to its delivery by a watch of all pods, which is the
    #: API server's part, and from there to its binding; NaN if that took too long.
    delivery_delay: float
    ordinary_delay: float
    #: CPU from the first hostile pod until all was quiet again.
    cpu: float
    memory_before: float
    memory_peak: float
    memory_after: float
    #: Whether the process was still there in the end.
    alive: bool


class Session:
    """A control plane with nodes, and scenarios on it one after the other."""

    def __init__(self, control_plane: ControlPlane, nodes: int, patience: float) -> None:
        self._control_plane = control_plane
        self._nodes = nodes
        self._patience = patience
        with HostileSender(control_plane) as sender:
            sender.create_all(map(namespace, (NAMESPACE, ORDINARY)))
        self.create(node(f"node-{number:05d}") for number in range(nodes))

    def run(self, case: HostileCase, contender: Scheduler, pods: int, size: int) -> Measured:
        """Measure one case with a scheduler that is started for it."""
        scheduler = contender.start(self._control_plane)
        try:
            with (
                Probe(scheduler.port) as probe,
                HostileSender(self._control_plane) as sender,
                DeliveryWatch(self._control_plane) as watch,
            ):
                return self._measure(case, contender, scheduler, probe, watch, sender, pods, size)
        finally:
            scheduler.kill()
            self.clear()

    def _measure(
        self,
        case: HostileCase,
        contender: Scheduler,
        scheduler: ManagedProcess,
        probe: Probe,
        watch: DeliveryWatch,
        sender: HostileSender,
        pods: int,
        size: int,
    ) -> Measured:
        pid = scheduler.pid
        # The first pod makes it allocate what it needs anyway.
        self._bind_ordinary(sender, contender, watch, "first")
        self.until_quiet(scheduler)
        before, cpu = resident(pid), cpu_seconds(pid)
        probe.longest()
        time.sleep(1)
        idle = probe.longest()
        sender.create_all(case.beside(size, 0))
        hostile = [of(contender, case.object(size, serial)) for serial in range(pods)]
        self.create(hostile)
        delivery, delay = self._bind_ordinary(sender, contender, watch, "behind")
        self.until_quiet(scheduler)
        block = probe.longest() if scheduler.running else math.nan
        used = cpu_seconds(pid) - cpu if scheduler.running else math.nan
        peak = peak_memory(pid) if scheduler.running else math.nan
        self.clear()
        self.until_quiet(scheduler)
        return Measured(
            case=case.name,
            scheduler=contender.label,
            pods=pods,
            nodes=self._nodes,
            bytes=len(msgspec.json.encode(hostile[0])),
            idle_block=idle,
            longest_block=block,
            delivery_delay=delivery,
            ordinary_delay=delay,
            cpu=used,
            memory_before=before,
            memory_peak=peak,
            memory_after=resident(pid) if scheduler.running else math.nan,
            alive=scheduler.running,
        )

    def _bind_ordinary(
        self, sender: HostileSender, contender: Scheduler, watch: DeliveryWatch, name: str
    ) -> tuple[float, float]:
        """Create an ordinary pod; return seconds to its delivery, and from there to its binding."""
        made = pod(name, scheduler_name=contender.scheduler_name)
        made["metadata"]["namespace"] = ORDINARY
        sender.create_all([made])
        created = time.monotonic()
        while (waited := time.monotonic() - created) < self._patience:
            if msgspec.json.decode(sender.read(made).body)["spec"].get("nodeName"):
                # A scheduler may be quicker than the thread that watches.
                delivery = min(watch.delivered(name, self._patience) - created, waited)
                return max(delivery, 0.0), waited - max(delivery, 0.0)
            time.sleep(POLL_SECONDS)
        return watch.delivered(name, 0.0) - created, math.nan

    def until_quiet(self, scheduler: ManagedProcess) -> None:
        """Wait until the scheduler has used hardly any CPU for two seconds."""
        end = time.monotonic() + self._patience
        quiet = 0
        while quiet < 2 and scheduler.running and time.monotonic() < end:
            # Not reaped before this object asks for it: the figures of an ended process are there.
            before = cpu_seconds(scheduler.pid)
            time.sleep(1)
            quiet = quiet + 1 if cpu_seconds(scheduler.pid) - before < QUIET_CPU else 0

    def clear(self) -> None:
        """Delete all pods."""
        with HostileSender(self._control_plane) as sender:
            for each in (NAMESPACE, ORDINARY):
                for _ in range(DELETE_ATTEMPTS):
                    # The API server gives up after a minute, with part of them deleted.
                    reply = sender.delete_pods(each)
                    if reply.ok:
                        break
                else:
                    raise RuntimeError(f"cannot delete the pods of {each}: {message(reply)}")

    def create(self, objects: Iterable[JsonObject]) -> None:
        """Create objects over several connections."""
        todo = list(objects)
        parts = [todo[first::WRITERS] for first in range(WRITERS)]
        with ThreadPoolExecutor(WRITERS) as threads:
            list(threads.map(self._create_part, parts))

    def _create_part(self, objects: list[JsonObject]) -> None:
        with HostileSender(self._control_plane) as sender:
            sender.create_all(objects)


def of(contender: Scheduler, obj: JsonObject) -> JsonObject:
    """The pod as one of this scheduler's."""
    spec: dict[str, Any] = obj["spec"]
    obj["spec"] = {**spec, "schedulerName": contender.scheduler_name}
    return obj


def resident(pid: int) -> float:
    """Resident set of a process now, MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0
