"""`python -m benchmarks.remembering`: the cost of remembering decisions, in instructions.

Times vary by more than this cost, so instructions are counted, by Valgrind. Each count is the
difference between two runs that differ only in the number of pods, which leaves start-up out:

- the engine alone, the engine with the recorder of the service, and both with a log line for each
  pod. These runs do nothing else, and their counts are the same each time within 0.1 %;
- `kubestow run` without history, which schedules pods of a simulated API server over HTTP. Beside
  all that the service does for a pod, the cost of remembering is a share.

The runs of the service vary by a few percent, since pods arrive in other groups each time.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import click

from benchmarks.engine_world import EngineWorld, WallClock
from scheduler.history import DecisionHistory, DecisionRecorder
from scheduler.process import logs
from scheduler.service.decision_log import DecisionLog
from simulator import EmbeddedCluster

BAR: Final = 0.02
KINDS: Final = ("engine", "remembering", "logging")
VALGRIND: Final = (
    "valgrind",
    "--tool=cachegrind",
    "--cache-sim=no",
    f"--cachegrind-out-file={os.devnull}",
)
_COUNTED: Final = re.compile(r"I\s+refs:\s+([\d,]+)")
_WITHOUT_HISTORY: Final = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: 5000, burst: 5000}
kubestow: {seed: 1, decisionHistory: {pods: 0}}
"""
_PATIENCE: Final = 900.0
_FEW: Final = 200
"""Pods of the shorter run of each pair."""


# -- counted runs --------------------------------------------------------------------------------


def engine_run(kind: str, nodes: int, count: int) -> None:
    """Attempt `count` equal pods; remember the decisions and log them as `kind` says."""
    world = EngineWorld(nodes)
    clock = WallClock()
    history = DecisionHistory()
    recorder = DecisionRecorder(history, world.cache.table, clock.monotonic, on_error=print)
    log = DecisionLog(clock)
    for pod in [world.pod() for _ in range(count)]:
        attempt = world.attempt(pod)
        score = None
        if kind != "engine":
            recorder.record(attempt)
            score = recorder.bound(attempt, clock.now())
        if kind == "logging":
            log.placed(attempt, score, 0.001)
    if kind != "engine" and history.statistics().decisions != count:
        msg = f"not every decision is remembered: {history.statistics()}"
        raise click.ClickException(msg)


async def service_run(command: Sequence[str], nodes: int, count: int, folder: Path) -> str:
    """Let a service schedule `count` equal pods over HTTP; return what it wrote to its log."""
    async with EmbeddedCluster(controllers=()) as cluster:
        kubeconfig = cluster.write_kubeconfig(folder / "kubeconfig")
        configuration = folder / "configuration.yaml"
        configuration.write_text(_WITHOUT_HISTORY, encoding="utf-8")
        for number in range(nodes):
            cluster.create(_node(number))
        service = await asyncio.create_subprocess_exec(
            *command,
            *("-m", "scheduler", "run", "--config", str(configuration)),
            *("--kubeconfig", str(kubeconfig), "--leader-elect=false", "--secure-port=0"),
            stderr=asyncio.subprocess.PIPE,
        )
        writing = asyncio.create_task(service.communicate())
        for number in range(count):
            cluster.create(_pod(number))
        last = time.monotonic() + _PATIENCE
        while any(
            not cluster.get("v1", "Pod", f"pod-{number}", "default")["spec"].get("nodeName")
            for number in range(count)
        ):
            if service.returncode is not None or time.monotonic() > last:
                break
            await asyncio.sleep(0.5)
        # Events are written after the last binding.
        await asyncio.sleep(2.0)
        if service.returncode is None:
            service.terminate()
        _, written = await writing
        return written.decode()


def _node(number: int) -> dict[str, object]:
    size = {"cpu": "64", "memory": "256Gi", "pods": "250"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"node-{number}"},
        "status": {"allocatable": size, "capacity": size},
    }


def _pod(number: int) -> dict[str, object]:
    requests = {"requests": {"cpu": "100m", "memory": "64Mi"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"pod-{number}", "namespace": "default"},
        "spec": {
            "schedulerName": "kubestow",
            "containers": [{"name": "c", "image": "app:1", "resources": requests}],
        },
    }


# -- counts --------------------------------------------------------------------------------------


def instructions(text: str) -> int:
    """Return the count that Valgrind wrote. Raises click.ClickException if there is none."""
    found = _COUNTED.search(text)
    if found is None:
        raise click.ClickException(f"Valgrind counted nothing: {text[-2000:]}")
    return int(found[1].replace(",", ""))


def _of_engine(kind: str, nodes: int, count: int) -> int:
    command = [*VALGRIND, sys.executable, "-m", "benchmarks.remembering", "--run", kind]
    command += ["--nodes", str(nodes), "--pods", str(count)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
    return instructions(done.stderr)


def _of_service(nodes: int, count: int) -> int:
    with TemporaryDirectory() as folder:
        command = [*VALGRIND, sys.executable]
        return instructions(asyncio.run(service_run(command, nodes, count, Path(folder))))


def environment() -> dict[str, str]:
    """Return variables with which equal runs take equally many instructions."""
    # Idle threads of BLAS would be counted as well.
    return {**os.environ, "PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1"}


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--nodes", default=1000, help="Nodes of the cluster.")
@click.option("--pods", default=1200, help="Pods of the longer run of each pair.")
@click.option("--run", type=click.Choice(KINDS), hidden=True)
def main(nodes: int, pods: int, run: str | None) -> None:
    """Count the instructions for remembering a decision, and for those of the service for a pod.

    Needs Valgrind, and some minutes. Exits with 1 if remembering takes more than 2 %.
    """
    if run is not None:
        with Path(os.devnull).open("w") as nowhere:
            logs.configure("json", stream=nowhere)
            engine_run(run, nodes, pods)
        return
    if pods <= _FEW:
        raise click.BadParameter(f"must be more than {_FEW}", param_hint="--pods")
    measured = pods - _FEW
    counts = {
        kind: (_of_engine(kind, nodes, pods) - _of_engine(kind, nodes, _FEW)) / measured
        for kind in KINDS
    }
    service = (_of_service(nodes, pods) - _of_service(nodes, _FEW)) / measured
    remembering = counts["remembering"] - counts["engine"]
    logging = counts["logging"] - counts["remembering"]
    click.echo("thousands of instructions for each pod:")
    click.echo(f"  the service without history: {service / 1000:.1f}")
    click.echo(f"  of these one scheduling attempt: {counts['engine'] / 1000:.1f}")
    click.echo(f"  a log line, included above: {logging / 1000:.1f} ({logging / service:.2%})")
    click.echo(f"  remembering: {remembering / 1000:.1f} ({remembering / service:.2%})")
    if remembering > BAR * service:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
