"""Child processes end with their owner, however it ends. Needs no Kubernetes."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from devtools.control_plane.ports import HIGHEST_PORT, LOOPBACK, LOWEST_PORT, free_port
from devtools.control_plane.processes import ManagedProcess, ProcessError, Processes

PATIENCE_SECONDS = 120.0
FOREVER = (sys.executable, "-S", "-c", "print('up', flush=True); import signal; signal.pause()")
STUBBORN = (
    sys.executable,
    "-S",
    "-c",
    "import signal; signal.signal(15, signal.SIG_IGN); print('up', flush=True); signal.pause()",
)
FAILING = (sys.executable, "-S", "-c", "raise SystemExit('no such flag')")


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    running = Processes(tmp_path)
    yield running
    running.close()


def start(processes: Processes, command: tuple[str, ...], name: str = "child") -> ManagedProcess:
    process = processes.start(name, command, port=1, environment={})
    process.wait_until(lambda: "up" in process.log_tail(), timeout=PATIENCE_SECONDS, what="up")
    return process


def ends(pid_handle: int, timeout: float = PATIENCE_SECONDS) -> bool:
    poll = select.poll()
    poll.register(pid_handle, select.POLLIN)
    return bool(poll.poll(timeout * 1000))


def test_close_ends_every_process_and_the_starting_thread(tmp_path: Path) -> None:
    threads = threading.active_count()
    running = Processes(tmp_path)
    first, second = start(running, FOREVER, "first"), start(running, STUBBORN, "second")
    running.close()
    assert (first.returncode, second.returncode) == (-signal.SIGKILL, -signal.SIGKILL)
    assert threading.active_count() == threads


def test_the_pid_is_the_command_itself(processes: Processes) -> None:
    process = start(processes, FOREVER)
    assert os.getpgid(process.pid) == process.pid
    assert "signal.pause" in Path(f"/proc/{process.pid}/cmdline").read_text()
    assert "PR_SET_PDEATHSIG" not in Path(f"/proc/{process.pid}/cmdline").read_text()


def test_stop_terminates_and_then_kills(processes: Processes) -> None:
    gentle, stubborn = start(processes, FOREVER, "gentle"), start(processes, STUBBORN, "stubborn")
    gentle.stop()
    stubborn.stop(timeout=0)
    assert (gentle.returncode, stubborn.returncode) == (-signal.SIGTERM, -signal.SIGKILL)


def test_what_a_failing_test_has_started_ends_with_it(processes: Processes) -> None:
    shared = start(processes, FOREVER, "shared")
    with processes.killed_on_error():
        kept = start(processes, FOREVER, "kept")
    left = []

    def failing_test() -> None:
        with processes.killed_on_error():
            left.append(start(processes, FOREVER, "left"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing_test()
    assert left[0].returncode == -signal.SIGKILL
    assert shared.running
    assert kept.running


def test_stopping_a_process_that_has_ended_does_nothing(processes: Processes) -> None:
    process = start(processes, FOREVER)
    process.kill()
    process.stop()
    process.kill()
    assert process.returncode == -signal.SIGKILL


def test_a_paused_process_can_be_killed(processes: Processes) -> None:
    process = start(processes, FOREVER)
    process.pause()
    assert process.running
    process.kill()
    assert not process.running


def test_an_early_end_is_reported_with_command_and_log(processes: Processes) -> None:
    process = processes.start("child", FAILING, port=1, environment={})
    with pytest.raises(
        ProcessError, match=r"(?s)child ended with status 1 before it was ready.*log:\nno such flag"
    ):
        process.wait_until(lambda: False, timeout=10, what="ready")


def test_a_start_that_takes_too_long_is_reported(processes: Processes) -> None:
    process = start(processes, FOREVER)
    with pytest.raises(ProcessError, match=r"child was not ready after 0 s"):
        process.wait_until(lambda: False, timeout=0, what="ready")


def test_a_name_is_used_by_one_running_process_at_a_time(processes: Processes) -> None:
    first = start(processes, FOREVER)
    with pytest.raises(ProcessError, match="child is running already"):
        processes.start("child", FOREVER, port=1, environment={})
    first.kill()
    start(processes, FOREVER)


def test_children_survive_the_thread_that_started_them(processes: Processes) -> None:
    started: list[ManagedProcess] = []
    thread = threading.Thread(target=lambda: started.append(start(processes, FOREVER)))
    thread.start()
    thread.join()
    # The kernel sends the signal while the thread ends, so it would have arrived by now.
    handle = os.pidfd_open(started[0].pid)
    assert not ends(handle, timeout=0)
    os.close(handle)
    assert started[0].running


@pytest.mark.skipif(sys.platform != "linux", reason="PR_SET_PDEATHSIG exists on Linux only")
def test_children_die_with_an_owner_that_is_killed(tmp_path: Path) -> None:
    owner_code = (
        "import sys; from pathlib import Path\n"
        "from devtools.control_plane.processes import Processes\n"
        f"processes = Processes(Path({str(tmp_path)!r}))\n"
        f"child = processes.start('child', {FOREVER!r}, port=1, environment={{}})\n"
        "child.wait_until(lambda: 'up' in child.log_tail(), timeout=10, what='up')\n"
        "print(child.pid, flush=True); sys.stdin.read()"
    )
    root = Path(__file__).resolve().parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", owner_code],
        cwd=root,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as owner:
        assert owner.stdout is not None
        handle = os.pidfd_open(int(owner.stdout.readline()))
        owner.kill()
        assert ends(handle)
        os.close(handle)


def test_ports_are_distinct_and_below_the_range_of_outgoing_connections() -> None:
    ports = [free_port() for _ in range(50)]
    assert len(set(ports)) == len(ports)
    assert all(LOWEST_PORT <= port <= HIGHEST_PORT for port in ports)


def test_processes_of_pytest_xdist_have_ports_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", "3")
    remainders = []
    for number in range(3):
        monkeypatch.setenv("PYTEST_XDIST_WORKER", f"gw{number}")
        remainders.append({free_port() % 3 for _ in range(50)})
    assert all(len(each) == 1 for each in remainders)
    assert set.union(*remainders) == {0, 1, 2}


def test_a_returned_port_can_be_bound() -> None:
    with socket.socket() as server:
        server.bind((LOOPBACK, free_port()))
