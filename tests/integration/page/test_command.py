"""`kubestow ui` as a process: the address it prints, what it serves there, and how it ends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import msgspec
import pytest

from tests.unit.history.runs import example_run

ROOT = Path(__file__).resolve().parents[3]


@asynccontextmanager
async def command(
    *arguments: str, browser: dict[str, str] | None = None
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start the command, with a browser if there is an environment that names one."""
    option = ["--no-browser"] if browser is None else []
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "scheduler", "ui", *option, *arguments),
        cwd=ROOT,
        env=browser,
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


BROWSER = """\
import json, os, pathlib, sys, urllib.parse
path = urllib.parse.unquote(urllib.parse.urlsplit(sys.argv[2]).path)
modes = [os.stat(each).st_mode & 0o777 for each in (path, os.path.dirname(path))]
started = {"argv": sys.argv, "env": dict(os.environ), "modes": modes, "path": path,
           "page": pathlib.Path(path).read_text()}
pathlib.Path(sys.argv[1]).write_text(json.dumps(started))
"""


@pytest.mark.slow
@pytest.mark.parametrize("runtime_folder", ["runtime", "absent"])
async def test_the_browser_learns_the_address_from_a_file_that_only_its_user_can_read(
    run_file: str, tmp_path: Path, runtime_folder: str
) -> None:
    script, seen = tmp_path / "browser.py", tmp_path / "seen"
    script.write_text(BROWSER)
    (tmp_path / "runtime").mkdir()
    os.mkfifo(seen)
    environment = {
        **os.environ,
        "BROWSER": f"{sys.executable} {script} {seen} %s",
        "XDG_RUNTIME_DIR": str(tmp_path / runtime_folder),
    }
    async with command("--simulate", run_file, browser=environment) as process:
        assert process.stdout is not None
        url = (await process.stdout.readline()).decode().strip()
        # Read once the browser has opened it for writing, and to the end.
        started = json.loads(await asyncio.to_thread(seen.read_text))
        process.send_signal(signal.SIGTERM)
        _, errors = await process.communicate()
    secret = url.split("/")[3]
    assert (process.returncode, errors) == (0, b"")
    assert not any(secret in each for each in (*started["argv"], *started["env"].values()))
    assert f'content="0; url={url}"' in started["page"]
    assert started["modes"] == [0o600, 0o700]
    assert not await asyncio.to_thread(Path(started["path"]).exists)


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
