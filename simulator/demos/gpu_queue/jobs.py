"""The states of the GPU jobs, from the store's changes alone.

Audited at every change: bound GPUs never exceed the limit, and no held pod is Unschedulable.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from rich.console import Group
from rich.table import Table
from rich.text import Text

from simulator.demos.board import Board
from simulator.demos.gpu_queue.objects import GPU, JOBS, KEY, LIMIT, QUOTA
from simulator.objects import JsonObject, dig
from simulator.store import StoreChange

HELD_REASON: Final = "ResourceQuotaValidated"
EVENT_REASON: Final = "ResourceQuotaExceeded"
_STYLES: Final = {
    "gated": "blue",
    "let go": "cyan",
    "held": "yellow",
    "running": "green",
    "done": "dim",
    "story": "bold",
}
_LAST_NEWS: Final = 8


@dataclass(slots=True)
class _Job:
    state: str = ""
    gpus: int = 0
    node: str = ""
    why: str = ""
    since: float = 0.0
    was_held: bool = False


class JobBoard(Board):
    """A board that also has the jobs' states and the peak of bound GPUs."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(clock)
        self._jobs: dict[str, _Job] = {}
        self._events: set[str] = set()
        self.published = ""
        """`status.used` of the quota, as the scheduler wrote it last."""
        self.peak = 0
        """The most GPUs that were bound at one moment."""

    def observe(self, table: str, change: StoreChange) -> None:
        """Count a write to the store; a subscriber of it."""
        obj = change.version.obj
        if table == "resourcequotas":
            if change.version.name == QUOTA:
                self.published = str((dig(obj, "status", "used") or {}).get(KEY, ""))
        elif table == "events":
            if obj.get("reason") == EVENT_REASON:
                self._events.add(str(dig(obj, "involvedObject", "name")))
        elif change.type != "DELETED":
            self._observe_pod(obj)
        self.notify()

    def _observe_pod(self, pod: JsonObject) -> None:
        name = _job_of(pod)
        if not name:
            return
        job = self._jobs.setdefault(name, _Job(gpus=_gpus(pod)))
        condition = _scheduled(pod)
        if condition.get("reason") == "Unschedulable":
            self.fault(f"{name} is Unschedulable, for which an autoscaler would buy a node")
        state = _state(pod, condition)
        job.why = str(condition.get("message", "")) if state == "held" else ""
        if state == job.state:
            return
        before, job.state, job.since = job.state, state, self.elapsed()
        job.node = str(pod["spec"].get("nodeName") or "")
        job.was_held = job.was_held or state == "held"
        self._audit()
        self.add(state, f"{name}{self._detail(job, before)}")

    def _detail(self, job: _Job, before: str) -> str:
        if job.state == "held":
            return f": {job.why}"
        if job.state == "running":
            after = " (was held)" if before == "held" or job.was_held else ""
            return f" on {job.node}, {self.bound} of {LIMIT} GPUs in use{after}"
        return ""

    def _audit(self) -> None:
        self.peak = max(self.peak, self.bound)
        if self.bound > LIMIT:
            self.fault(f"{self.bound} GPUs are bound at once, the limit is {LIMIT}")

    @property
    def bound(self) -> int:
        """Return the GPUs of pods that have a node and have not ended."""
        return sum(job.gpus for job in self._jobs.values() if job.state == "running")

    def count(self, state: str) -> int:
        """Return the number of jobs in a state."""
        return sum(1 for job in self._jobs.values() if job.state == state)

    def finished(self) -> bool:
        """Whether every job is done, or a fault was found."""
        return bool(self.faults) or self.count("done") == JOBS

    def problems(self) -> list[str]:
        """Return a sentence for everything that did not go as promised."""
        problems = [*self.faults]
        if self.count("done") != JOBS:
            stuck = [
                f"{name} ({job.state})" for name, job in self._jobs.items() if job.state != "done"
            ]
            problems.append(f"{self.count('done')} of {JOBS} jobs are done, not {', '.join(stuck)}")
        elif self.peak != LIMIT:
            problems.append(
                f"at most {self.peak} GPUs were in use at once, {LIMIT} could have been"
            )
        held = {name for name, job in self._jobs.items() if job.was_held}
        if len(held) != JOBS - LIMIT:
            problems.append(f"{len(held)} jobs were seen held by quota, not {JOBS - LIMIT}")
        elif len(self._events) < len(held):
            problems.append(
                f"{len(self._events)} pods have an event {EVENT_REASON}, not {len(held)}"
            )
        return problems

    def __str__(self) -> str:
        held = sum(1 for job in self._jobs.values() if job.was_held)
        return (
            f"kubestow demo gpu-queue: {self.count('done')} done, {held} held on the way, "
            f"at most {self.peak} of {LIMIT} GPUs in use"
        )

    def __rich__(self) -> Group:
        table = Table(box=None, header_style="bold", pad_edge=False)
        for name in ("JOB", "STATE", "NODE", "WHY"):
            table.add_column(name, no_wrap=name != "WHY")
        for name, job in sorted(self._jobs.items(), key=lambda item: _number(item[0])):
            style = _STYLES.get(job.state, "")
            table.add_row(Text(name), Text(job.state, style), Text(job.node), Text(job.why, "dim"))
        bar = Text("█" * self.bound, "green").append("░" * max(0, LIMIT - self.bound), "dim")
        title = Text("GPU quota  ").append_text(bar)
        title.append(f"  {self.bound} of {LIMIT} bound")
        if self.published:
            title.append(f", {self.published} published in the quota's status")
        lines = [Text(str(line), "dim") for line in [*self.news][-_LAST_NEWS:]]
        return Group(title, Text(), table, Text(), *lines)


def _job_of(pod: JsonObject) -> str:
    return str((dig(pod, "metadata", "labels") or {}).get("job-name", ""))


def _number(name: str) -> int:
    digits = name.rpartition("-")[2]
    return int(digits) if digits.isdigit() else 0


def _gpus(pod: JsonObject) -> int:
    return sum(
        int(dig(one, "resources", "requests", GPU) or 0) for one in pod["spec"]["containers"]
    )


def _scheduled(pod: JsonObject) -> JsonObject:
    for condition in dig(pod, "status", "conditions") or ():
        if condition.get("type") == "PodScheduled":
            found: JsonObject = condition
            return found
    return {}


def _state(pod: JsonObject, condition: JsonObject) -> str:
    if dig(pod, "status", "phase") in ("Succeeded", "Failed"):
        return "done"
    if pod["spec"].get("nodeName"):
        return "running"
    if pod["spec"].get("schedulingGates"):
        return "gated"
    return "held" if condition.get("reason") == HELD_REASON else "let go"
