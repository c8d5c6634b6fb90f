"""`kubestow ui` as a process: the address it prints, what it serves there, and how it ends."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import msgspec
import pytest

from tests.unit.decisions.runs import example_run

ROOT = Path(__file__).resolve().parents[3]


@asynccontextmanager
async def command(*arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "scheduler", "ui", "--no-browser", *arguments),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


@pytest.fixture
def run_file(tmp_path: Path) -> str:
    path = tmp_path / "run.json"
    path.write_bytes(msgspec.json.encode(example_run()))
    return str(path)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda each: each.name)
async def test_it_prints_its_address_serves_a_run_and_ends_on_a_signal(
    run_file: str, number: signal.Signals
) -> None:
    async with command("--simulate", run_file) as process:
        assert process.stdout is not None
        url = (await process.stdout.readline()).decode().strip()
        async with aiohttp.ClientSession() as session:
            async with session.get(f"{url}api/source") as response:
                assert (await response.json())["kind"] == "recorded"
            async with session.get(f"{url}api/queue?at=1020") as response:
                assert len((await response.json())["pods"]) == 1
        process.send_signal(number)
        _, errors = await process.communicate()
        assert (process.returncode, errors) == (0, b"")


@pytest.mark.slow
async def test_a_port_that_is_taken_is_named(run_file: str) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        async with command("--simulate", run_file, "--port", str(port)) as process:
            output, errors = await process.communicate()
    assert (process.returncode, output) == (1, b"")
    assert f"cannot listen on 127.0.0.1:{port}".encode() in errors
    assert b"choose another --port" in errors
