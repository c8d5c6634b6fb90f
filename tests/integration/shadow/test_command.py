"""The command as a process of its own, with its exit codes."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import select
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

import pytest

from devtools.control_plane.ports import free_port
from devtools.embedded_service import bind, node, until
from scheduler.cli import exit_codes
from scheduler.cli.reporting import EXIT_INTERRUPTED
from simulator import EmbeddedCluster, FaultRule
from tests.integration.shadow.stage import pod, reject

SMALLEST_PIPE = 4096
"""Bytes that a pipe holds, at least."""


pytestmark = pytest.mark.slow


@dataclass
class Command:
    """Runs `kubestow shadow` on a cluster."""

    kubeconfig: Path

    async def __call__(self, *arguments: str) -> tuple[int, str, str]:
        process = await self.start(*arguments)
        out, err = await process.communicate()
        assert process.returncode is not None
        return process.returncode, out.decode(), err.decode()

    async def start(
        self, *arguments: str, stdout: int = asyncio.subprocess.PIPE
    ) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            sys.executable, "-m", "scheduler", "shadow", "--kubeconfig", str(self.kubeconfig),
            *arguments, stdout=stdout, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip


@pytest.fixture
def command(cluster: EmbeddedCluster, tmp_path: Path) -> Command:
    return Command(cluster.write_kubeconfig(tmp_path / "kubeconfig"))


async def test_it_compares_and_prints_each_judgement(
    cluster: EmbeddedCluster, command: Command
) -> None:
    cluster.create(node("n1"))
    cluster.create(pod("waits", cpu="9"))
    reject(cluster, "waits", "0/1 nodes are available: 1 Insufficient cpu.")
    process = await command.start("-o", "jsonl", "--assert", "agreement == 100")
    assert process.stdout is not None
    assert process.stderr is not None
    # Until it has synced, a pod that is bound is only part of what there is.
    first = asyncio.create_task(process.stdout.readline())
    number = 0
    while not first.done():
        number += 1
        cluster.create(pod(f"more-{number}", cpu="1m"))
        bind(cluster, f"more-{number}", "n1")
        await asyncio.wait((first,), timeout=0.5)
    process.terminate()
    line = await first
    out, err = await process.communicate()
    judged, summary = json.loads(line), json.loads(out.splitlines()[-1])
    assert (judged["there"], judged["verdict"]) == ("n1", "same") or judged["verdict"] == "window"
    assert summary["kind"] == "ShadowSummary"
    assert summary["judged"] >= 1
    assert summary["waiting_same_reason"] == 1
    assert process.returncode == 0
    assert err.startswith(b"following default-scheduler: ")
    assert b" now, in a cluster of 1 node\n" in err


async def test_a_failed_assertion_is_named(
    cluster: EmbeddedCluster, command: Command, tmp_path: Path
) -> None:
    cluster.create(node("n1"))
    cluster.create(pod("a", cpu="9"))
    page = tmp_path / "report.html"
    arguments = ("--for", "2s", "--assert", "waiting_here == 0", "--report", str(page))
    code, out, err = await command(*arguments, "--counterfactual")
    assert "if its decisions had held, in " in out
    assert "If its decisions had held" in page.read_text()
    assert "Does not hold: waiting_here == 0" in page.read_text()
    assert "kubestow shadow --for 2s " in page.read_text()
    assert code == exit_codes.DOES_NOT_FIT
    assert "does not hold: waiting_here == 0" in err
    assert out.startswith("0 decisions of default-scheduler in ")
    assert "default/a: 0/1 nodes are available: 1 Insufficient cpu" in out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_ends_it_with_summary_and_report(
    cluster: EmbeddedCluster, command: Command, tmp_path: Path, number: signal.Signals
) -> None:
    cluster.create(node("n1"))
    cluster.create(pod("a", cpu="9"))
    reject(cluster, "a", "0/1 nodes are available: 1 Insufficient cpu.")
    page = tmp_path / "report.html"
    address = f"127.0.0.1:{free_port()}"
    process = await command.start("--report", str(page), "--listen", address)
    while not await asyncio.to_thread(_shows, address, "waiting_both", 1):
        assert process.returncode is None
    process.send_signal(number)
    out, err = await process.communicate()
    assert process.returncode == 0, err
    assert b"Traceback" not in err
    assert out.startswith(b"0 decisions of default-scheduler in ")
    assert "default/a" in page.read_text()


def _shows(address: str, figure: str, value: int) -> bool:
    """Ask a shadow whether a figure has a value; False while it does not listen."""
    try:
        with urlopen(f"http://{address}/debug/shadow", timeout=5) as response:
            return bool(json.load(response)[figure] == value)
    except OSError:
        time.sleep(0.05)
        return False


async def test_a_second_signal_ends_it_while_it_writes_its_answer(
    cluster: EmbeddedCluster, command: Command, tmp_path: Path
) -> None:
    """The answer is longer than the pipe, which nobody reads until the process has ended."""
    cluster.create(node("n1"))
    for number in range(20):
        cluster.create(pod(f"{'long-name-' * 20}{number}", cpu="9"))
    page, address = tmp_path / "report.html", f"127.0.0.1:{free_port()}"
    ours, theirs = os.pipe()
    fcntl.fcntl(theirs, fcntl.F_SETPIPE_SZ, SMALLEST_PIPE)
    process = await command.start(
        "-o", "json", "--report", str(page), "--listen", address, stdout=theirs
    )
    os.close(theirs)
    try:
        while not await asyncio.to_thread(_shows, address, "waiting_here", 20):
            assert process.returncode is None
        process.terminate()
        await asyncio.to_thread(select.select, [ours], [], [])
        process.terminate()
        assert await process.wait() == EXIT_INTERRUPTED
        printed = os.read(ours, 2 * SMALLEST_PIPE)
    finally:
        os.close(ours)
    assert printed.startswith(b'{"kind":"ShadowSummary"')
    assert not printed.endswith(b"\n")
    assert "long-name-" in page.read_text(), "the report is written before"


BLOCKING_PLUGIN = """
import threading
from kubestow.plugin import Handle, NoArgs

class Blocks:
    name = "example.com/Blocks"

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        # The worlds of a replay are built in a thread of their own.
        if threading.current_thread() is not threading.main_thread():
            open({fifo!r})  # nobody writes

    def filter(self, state, pod, node):
        return None
"""
BLOCKING_CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: default-scheduler
    plugins: {filter: {enabled: [{name: "blocks:Blocks"}]}}
"""


async def test_a_second_signal_ends_a_replay(
    cluster: EmbeddedCluster, command: Command, tmp_path: Path
) -> None:
    cluster.create(node("n1"))
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    (tmp_path / "blocks.py").write_text(BLOCKING_PLUGIN.format(fifo=str(fifo)))
    (tmp_path / "config.yaml").write_text(BLOCKING_CONFIG)
    process = await command.start(
        "--config", str(tmp_path / "config.yaml"), "--plugin-dir", str(tmp_path), "--counterfactual"
    )
    await _line(process, b"following")
    process.terminate()
    await _line(process, b"simulating")
    process.terminate()
    assert await process.communicate() == (b"", b"")
    assert process.returncode == EXIT_INTERRUPTED


async def _line(process: asyncio.subprocess.Process, begin: bytes) -> None:
    """Read errors up to a line that begins so."""
    assert process.stderr is not None
    lines = []
    async for line in process.stderr:
        lines.append(line)
        if line.startswith(begin):
            return
    raise AssertionError(lines)


async def test_a_reader_that_has_read_enough_ends_it(
    cluster: EmbeddedCluster, command: Command, tmp_path: Path
) -> None:
    cluster.create(node("n1"))
    page, address = tmp_path / "report.html", f"127.0.0.1:{free_port()}"
    ours, theirs = os.pipe()
    process = await command.start(
        "-o", "jsonl", "--report", str(page), "--listen", address, stdout=theirs
    )
    os.close(theirs)
    os.close(ours)
    await _line(process, b"following")
    cluster.create(pod("a"))
    while not await asyncio.to_thread(_shows, address, "pods", 1):
        assert process.returncode is None
    bind(cluster, "a", "n1")
    assert process.stderr is not None
    err = await process.stderr.read()
    assert await process.wait() == exit_codes.OTHER_ERROR
    assert b"exception" not in err
    assert b"Traceback" not in err
    assert "1 decision of default-scheduler in " in page.read_text()


async def test_a_signal_before_the_first_lists_ends_it_at_once(
    cluster: EmbeddedCluster, command: Command
) -> None:
    cluster.faults.add(FaultRule(action="silence", verb="list", resource="pods"))
    cluster.create(node("n1"))
    process = await command.start("--for", "1h")
    await until(lambda: cluster.faults.describe()[0]["acted"], "the list of pods")
    process.terminate()
    _, err = await process.communicate()
    assert process.returncode == exit_codes.NOTHING_HAPPENED
    assert b"stopped before the first lists had arrived" in err
    assert b"Traceback" not in err


async def test_a_name_that_no_pod_has(cluster: EmbeddedCluster, command: Command) -> None:
    cluster.create(node("n1"))
    cluster.create(pod("a", nodeName="n1"))
    code, _, err = await command("--for", "1s", "--of", "defualt-scheduler")
    assert code == exit_codes.NO_SUCH_SCHEDULER
    assert "no pod has schedulerName defualt-scheduler; pods have default-scheduler" in err


async def test_nothing_happens(cluster: EmbeddedCluster, command: Command) -> None:
    cluster.create(node("n1"))
    cluster.create(pod("a", nodeName="n1"))
    code, _, err = await command("--for", "1s")
    assert code == exit_codes.NOTHING_HAPPENED, err
    assert "nothing happened that could be compared" in err


# A scheduler goes on without volumes; what is compared without them would be wrong.
@pytest.mark.parametrize("resource", ["pods", "persistentvolumes"])
async def test_rights_that_are_missing(
    cluster: EmbeddedCluster, command: Command, resource: str
) -> None:
    cluster.faults.add(FaultRule(action="error", verb="list", resource=resource, code=403))
    code, _, err = await command("--for", "1s")
    assert code == exit_codes.NOT_PERMITTED
    assert f"resources: [{resource}], verbs: [list, watch]" in err
    assert "config rbac --shadow" in err


async def test_an_api_server_that_does_not_respond(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": ""}}],
        "current-context": "c",
    }))  # fmt: skip
    code, _, err = await Command(path)("--for", "1s")
    assert code == exit_codes.UNREACHABLE
    assert "Traceback" not in err
