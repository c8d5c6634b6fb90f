"""`kubestow demo gpu-queue`: the whole story in a process of its own, its board, its manifests."""

from __future__ import annotations

import re
import signal
from io import StringIO
from typing import Any

import pytest
import yaml
from rich.console import Console

from devtools.forked_commands import ForkedCommands
from simulator.demos.gpu_queue import objects
from simulator.demos.gpu_queue.jobs import JobBoard
from simulator.demos.gpu_queue.objects import GPU, JOBS, KEY, LIMIT, QUOTA
from simulator.objects import JsonObject
from simulator.store import StoreChange, Version
from tests.integration.demo.test_command import LIMIT as SECONDS
from tests.integration.demo.test_command import read_until, running
from tests.unit.repository.tree import ROOT

EXAMPLE = ROOT / "examples" / "gpu-queue"
MESSAGE = f"quota exceeded: {QUOTA}, requested: requests.{GPU}=1"


@pytest.mark.slow
def test_the_story_is_printed_in_order_as_plain_lines(virtual_demo: ForkedCommands) -> None:
    done = virtual_demo.run("gpu-queue")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    lines = done.stdout.splitlines()
    assert lines[-1] == (
        "kubestow demo gpu-queue: 10 done, 2 held on the way, at most 8 of 8 GPUs in use"
    )
    counts = {
        state: sum(1 for line in lines if re.match(rf" *\d+\.\d s  {state} ", line))
        for state in ("gated", "let go", "held", "running", "done")
    }
    assert counts == {"gated": 10, "let go": 10, "held": 2, "running": 10, "done": 10}
    held = [place for place, line in enumerate(lines) if MESSAGE in line]
    released = [place for place, line in enumerate(lines) if "(was held)" in line]
    assert max(held) < min(released), "held first, then released"
    assert any(" done " in line for line in lines[max(held) : min(released)]), "as quota frees"
    times = [float(line.split()[0]) for line in lines[:-1]]
    assert times == sorted(times)
    assert times[-1] < 30


def test_an_interrupted_story_prints_its_progress(demo: ForkedCommands) -> None:
    with running(demo, "gpu-queue") as process:
        read_until(process, "running")
        process.send_signal(signal.SIGINT)
        rest, problems = process.communicate(timeout=SECONDS)
    assert (process.returncode, problems) == (130, "")
    assert re.search(r"demo gpu-queue: 0 done, 0 held on the way, at most \d of 8", rest)


@pytest.mark.parametrize("name", ["namespace", "jobs"])
def test_the_manifests_are_those_of_the_example(name: str) -> None:
    made = getattr(objects, name)()
    assert list(yaml.safe_load_all((EXAMPLE / f"{name}.yaml").read_text())) == made


def _pod(
    number: int, *, node: str = "", phase: str = "Pending", gates: bool = False, reason: str = ""
) -> JsonObject:
    container = {"resources": {"requests": {GPU: "1"}}}
    spec: JsonObject = {"containers": [container]}
    if node:
        spec["nodeName"] = node
    if gates:
        spec["schedulingGates"] = [{"name": "g"}]
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": MESSAGE}
    status = {"phase": phase, "conditions": [condition] if reason else []}
    labels = {"job-name": f"train-{number}"}
    return {"metadata": {"labels": labels}, "spec": spec, "status": status}


class _DemoCluster:
    def __init__(self) -> None:
        self.board = JobBoard(lambda: 0.0)
        self._rv = 0

    def pod(self, number: int, **more: Any) -> None:
        self._change("pods", f"train-{number}", _pod(number, **more))

    def event(self, number: int) -> None:
        about = {"name": f"train-{number}"}
        event = {"reason": "ResourceQuotaExceeded", "involvedObject": about}
        self._change("events", f"e{number}", event)

    def quota(self, used: str) -> None:
        self._change("resourcequotas", QUOTA, {"status": {"used": {KEY: used}}})

    def _change(self, table: str, name: str, obj: JsonObject) -> None:
        self._rv += 1
        version = Version("gpu-queue", name, obj, self._rv)
        self.board.observe(table, StoreChange("MODIFIED", version, None, self._rv))


def test_a_story_that_went_well_has_no_problems() -> None:
    cluster = _DemoCluster()
    for number in range(1, LIMIT + 1):
        cluster.pod(number, node="n")
    for number in range(LIMIT + 1, JOBS + 1):
        cluster.pod(number, reason="ResourceQuotaValidated")
        cluster.event(number)
    cluster.quota("8")
    assert (cluster.board.count("held"), cluster.board.bound) == (2, 8)
    console = Console(file=StringIO(), width=120, force_terminal=True)
    console.print(cluster.board)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "8 of 8 bound, 8 published in the quota's status" in shown
    assert MESSAGE in shown
    for number in range(1, JOBS + 1):
        cluster.pod(number, node="n", phase="Succeeded")
    assert cluster.board.finished()
    assert cluster.board.problems() == []


def test_one_gpu_too_many_is_a_fault() -> None:
    cluster = _DemoCluster()
    for number in range(1, LIMIT + 2):
        cluster.pod(number, node="n")
    assert cluster.board.finished(), "at once"
    assert cluster.board.problems()[0] == "9 GPUs are bound at once, the limit is 8"


def test_a_pod_that_calls_for_a_node_is_a_fault() -> None:
    cluster = _DemoCluster()
    cluster.pod(1, reason="Unschedulable")
    assert "for which an autoscaler would buy a node" in cluster.board.problems()[0]


def test_missing_events_are_reported() -> None:
    cluster = _DemoCluster()
    cluster.pod(1, gates=True)
    problems = cluster.board.problems()
    assert problems == [
        "0 of 10 jobs are done, not train-1 (gated)",
        "0 jobs were seen held by quota, not 2",
    ]
    for number in range(1, JOBS + 1):
        cluster.pod(number, node="n", phase="Succeeded")
    assert cluster.board.problems()[0] == "at most 0 GPUs were in use at once, 8 could have been"
