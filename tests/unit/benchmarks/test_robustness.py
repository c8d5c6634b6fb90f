"""The parts of the robustness run: its judge sees what is wrong, its faults are what they claim."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from benchmarks.robustness.audit_log import AuditLog
from benchmarks.robustness.proxy import Mode, Proxy
from benchmarks.robustness.wall_clock import WallClock, build
from devtools.control_plane.ports import LOOPBACK

TIMEOUT = 60.0


def binding(
    pod: str, second: int, *, user: str = "a", node: str = "n1", code: int = 201
) -> dict[str, Any]:
    return {
        "stage": "ResponseComplete",
        "objectRef": {"namespace": "default", "name": pod, "subresource": "binding"},
        "user": {"username": user},
        "requestReceivedTimestamp": f"2026-01-01T00:00:{second:02}.000000Z",
        "requestObject": {"target": {"name": node}},
        "responseStatus": {"code": code},
    }


def lease(second: int, *, user: str = "a", holder: str | None = None) -> dict[str, Any]:
    return {
        "stage": "ResponseComplete",
        "objectRef": {"namespace": "default", "name": "kubestow"},
        "user": {"username": user},
        "stageTimestamp": f"2026-01-01T00:00:{second:02}.000000Z",
        "requestObject": {
            "metadata": {"name": "kubestow"},
            "spec": {"holderIdentity": user if holder is None else holder},
        },
        "responseStatus": {"code": 200},
    }


@pytest.fixture
def log(tmp_path: Path) -> AuditLog:
    return AuditLog(tmp_path / "audit.log")


def test_one_bind_by_the_holder_is_no_problem(log: AuditLog) -> None:
    log.add([lease(1), binding("p", 2), binding("p", 3, code=409)])
    assert log.problems() == []
    assert (log.leader, log.conflicts) == ("a", 1)


def test_a_pod_bound_twice_is_a_problem(log: AuditLog) -> None:
    log.add([lease(1), binding("p", 2), binding("p", 3)])
    assert log.problems() == ["bound 2 times: default/p"]


def test_a_bind_without_the_lease_is_a_problem(log: AuditLog) -> None:
    log.add([lease(1, user="a"), lease(5, user="b"), binding("p", 6, user="a")])
    assert log.problems() == ["default/p bound by a while b held the Lease"]
    assert log.takeovers == 1


def test_no_user_holds_a_released_lease(log: AuditLog) -> None:
    log.add([lease(1), lease(5, holder=""), binding("p", 6)])
    assert log.problems() == ["default/p bound by a while no user held the Lease"]
    assert log.leader == ""


def test_the_log_is_read_line_by_line_as_it_grows(log: AuditLog, tmp_path: Path) -> None:
    lines = [json.dumps(event).encode() for event in (lease(1), binding("p", 2))]
    path = tmp_path / "audit.log"
    path.write_bytes(lines[0] + b"\n" + lines[1][:40])
    log.read()
    assert (log.leader, dict(log.binds)) == ("a", {})
    path.write_bytes(b"\n".join(lines) + b"\n")
    log.read()
    assert list(log.binds) == ["default/p"]


# -- the proxy -----------------------------------------------------------------------------------


@contextmanager
def echo_server() -> Iterator[int]:
    """Echo every chunk, one connection after the other."""
    with socket.create_server((LOOPBACK, 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    try:
                        while data := connection.recv(1024):
                            connection.sendall(data)
                    except ConnectionError:
                        continue

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def connect(port: int) -> socket.socket:
    return socket.create_connection((LOOPBACK, port), timeout=TIMEOUT)


def test_the_proxy_forwards_and_delivers_what_stalled_once_it_is_open_again() -> None:
    with echo_server() as port, Proxy(port) as proxy, connect(proxy.port) as client:
        client.sendall(b"one")
        assert client.recv(10) == b"one"
        proxy.set_mode(Mode.STALLED)
        client.sendall(b"two")
        proxy.set_mode(Mode.OPEN)
        assert client.recv(10) == b"two"


def test_the_proxy_resets_open_connections_and_new_ones() -> None:
    with echo_server() as port, Proxy(port) as proxy, connect(proxy.port) as client:
        client.sendall(b"one")
        assert client.recv(10) == b"one"
        proxy.set_mode(Mode.RESET)
        with pytest.raises(ConnectionError):
            _read_end(client)
        with connect(proxy.port) as another, pytest.raises(ConnectionError):
            _read_end(another)
        proxy.set_mode(Mode.OPEN)
        with connect(proxy.port) as third:
            third.sendall(b"three")
            assert third.recv(10) == b"three"


def _read_end(client: socket.socket) -> None:
    """Raise ConnectionError when the other side is gone, whether by a reset or by an end."""
    if client.recv(10) == b"":
        raise ConnectionResetError


# -- the clock -----------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler (cc)")
def test_a_process_sees_its_wall_clock_jump_and_its_monotonic_clock_go_on(tmp_path: Path) -> None:
    clock = WallClock(build(tmp_path), tmp_path / "offset")
    program = (
        "import sys, time\n"
        "for line in sys.stdin: print(time.time(), time.monotonic(), flush=True)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-S", "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | clock.environment,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        readings = []
        for offset in (0.0, 3600.0, -3600.0):
            clock.set(offset)
            process.stdin.write("\n")
            process.stdin.flush()
            readings.append([float(text) for text in process.stdout.readline().split()])
        process.stdin.close()
    (true, first), (ahead, second), (behind, third) = readings
    assert ahead - true == pytest.approx(3600 + second - first, abs=1)
    assert behind - true == pytest.approx(-3600 + third - first, abs=1)
