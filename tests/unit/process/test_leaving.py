"""The process ends in spite of threads that are busy for ever, and says which."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

BUSY = """
import asyncio, threading
from scheduler.process import leaving

leaving.GRACE_SECONDS = {grace}
never = threading.Event()

async def serve():
    {start}
    return 3

code = asyncio.run(leaving.run_and_leave(serve))
print("left by itself")
raise SystemExit(code)
"""


@pytest.mark.parametrize(
    ("start", "name"),
    [
        ("threading.Thread(target=never.wait, name='of a plugin').start()", "of a plugin"),
        ("asyncio.get_running_loop().run_in_executor(None, never.wait)", "executor_0"),
    ],
)
def test_a_busy_thread_is_left_behind(start: str, name: str) -> None:
    ended = ending(start, grace=0.0)
    assert ended.returncode == 3
    assert name in ended.stdout
    assert "ending without waiting for threads" in ended.stdout
    assert "left by itself" not in ended.stdout


@pytest.mark.parametrize(
    "start",
    [
        "pass",
        "await asyncio.to_thread(int)",
        "threading.Thread(target=never.wait, daemon=True).start()",
    ],
)
def test_the_process_ends_in_order_without_one(start: str) -> None:
    ended = ending(start, grace=60.0)
    assert ended.returncode == 3
    assert ended.stdout == "left by itself\n"


def ending(start: str, grace: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", BUSY.format(start=start, grace=grace)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


WAITS = """
import threading

threading.Thread(target=threading.Event().wait).start()
print("imported so far", flush=True)
threading.Event().wait()
"""
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {multiPoint: {enabled: [{name: "waits:Plugin"}]}}
"""


@pytest.mark.slow
def test_a_module_that_waits_at_the_start_does_not_keep_the_process_from_ending(
    tmp_path: Path,
) -> None:
    (tmp_path / "waits.py").write_text(WAITS)
    (tmp_path / "config.yaml").write_text(CONFIG)
    process = subprocess.Popen(
        [sys.executable, "-m", "scheduler", "run", "--config", str(tmp_path / "config.yaml"),
         "--plugin-dir", str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    assert process.stdout is not None
    with process:
        try:
            assert process.stdout.readline() == "imported so far\n"
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=600) == 0
        finally:
            process.kill()
