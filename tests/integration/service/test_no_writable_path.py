"""A run writes to no file: root file system read-only, any user, no home, no folder for others.

The interpreter reports every attempt to open a file for writing, or to change a folder, successful
or not (PEP 578). Files in memory have no path and are not reported.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from devtools.control_plane.admin import unverified
from devtools.control_plane.ports import free_port
from devtools.embedded_service import bound_to, node, pod, until
from simulator import EmbeddedCluster
from tests.unit.repository.container import unprivileged

pytestmark = pytest.mark.slow

REPORTING: Final = """
import os, sys
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = (
    "os.mkdir", "os.rename", "os.link", "os.symlink", "os.remove", "os.rmdir", "os.chmod",
    "os.truncate", "tempfile.mkstemp", "tempfile.mkdtemp", "sqlite3.connect", "shutil.copyfile",
)
def report(event, arguments):
    opened = event == "open" and isinstance(arguments[0], (str, bytes))
    if (opened and arguments[2] & WRITING) or event in CHANGES:
        os.write(2, f"WRITES {event} {arguments[0]}\\n".encode())
sys.addaudithook(report)
sys.dont_write_bytecode = True
from scheduler.cli.main import main
main(name="kube-scheduler")
"""


@pytest.fixture
def directory() -> Iterator[Path]:
    """Return a directory that any user can read; pytest's own is closed to others."""
    with tempfile.TemporaryDirectory(prefix="kubestow-read-only-") as name:
        path = Path(name)
        path.chmod(0o755)
        yield path


async def start(directory: Path, *arguments: str) -> asyncio.subprocess.Process:
    """Start kube-scheduler as a user without an entry in /etc/passwd, HOME or TMPDIR."""
    return await asyncio.create_subprocess_exec(
        *unprivileged(), sys.executable, "-c", REPORTING, *arguments,
        cwd=directory,
        env={"PATH": os.defpath, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip


async def healthy(port: int) -> bool:
    """Whether the probe of a kubelet would succeed."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=unverified())
    except OSError:
        return False
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    response = await reader.read()
    writer.close()
    return response.startswith(b"HTTP/1.1 200 ")


async def test_it_serves_and_schedules_without_writing(
    cluster: EmbeddedCluster, directory: Path
) -> None:
    cluster.create(node("n1"))
    cluster.create(pod("a"))
    kubeconfig = cluster.write_kubeconfig(directory / "kubeconfig")
    kubeconfig.chmod(0o644)
    port = free_port()
    process = await start(
        directory, f"--kubeconfig={kubeconfig}", f"--secure-port={port}",
        "--leader-elect-resource-namespace=default",
    )  # fmt: skip
    try:
        await until(lambda: bound_to(cluster, "a"), "a bound")
        assert await healthy(port)
        process.terminate()
        output, _ = await process.communicate()
    finally:
        with suppress(ProcessLookupError):
            process.kill()
    assert process.returncode == 0, output.decode()
    assert "WRITES" not in output.decode()


async def test_attempts_to_write_are_noticed(directory: Path) -> None:
    """Checks the harness: without this, the test above would prove nothing."""
    process = await start(directory, f"--write-config-to={directory}/effective.yaml")
    output, _ = await process.communicate()
    # The file itself is created by a system call without an event.
    assert b"WRITES open" in output
