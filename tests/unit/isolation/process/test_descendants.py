"""Tests that what the process of a plugin has started ends with it, in whatever session it is."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

import pytest

from scheduler.isolation.process.descendants import MARK, begins_program, end_marked, new_mark

DAEMON = """
import os, sys
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
print(os.getpid(), flush=True)
sys.stdin.read()
"""
"""A daemon: its parent has ended, and it leads no session."""
CHILD = "import os, sys; print(os.getpid(), flush=True); sys.stdin.read()"
PATIENCE = 60.0


@pytest.mark.parametrize(
    ("source", "new_session"), [(CHILD, False), (CHILD, True), (DAEMON, False)]
)
def test_a_marked_process_is_ended(source: str, new_session: bool) -> None:
    mark = new_mark()
    process = subprocess.Popen(
        [sys.executable, "-c", source],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, MARK: mark},
        start_new_session=new_session,
    )
    assert process.stdout is not None
    with process:
        descriptor = os.pidfd_open(int(process.stdout.readline()))
        try:
            end_marked(new_mark())
            assert not select.select([descriptor], [], [], 0)[0], "the mark is that of another one"
            end_marked(mark)
            assert select.select([descriptor], [], [], PATIENCE)[0], "it has ended"
        finally:
            os.close(descriptor)
            process.kill()


BEGINS = (
    "4242 (sleep) R 1 4242 4242 0 -1 4194304 30 0 0 0 0 0 0 0 20 0 1 0 2300000 4096 1 "
    "18446744073709551615 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0"
)
"""As read between the start of `sleep` and the moment when its environment is in its memory."""
KERNEL_THREAD = BEGINS.replace("(sleep)", "(kworker/0:1) x)").replace(" 4096 1 ", " 0 0 ")


@pytest.mark.parametrize(("stat", "begins"), [(BEGINS, True), (KERNEL_THREAD, False)])
def test_a_process_that_begins_a_program_has_no_environment_yet(stat: str, begins: bool) -> None:
    assert begins_program(stat.encode()) == begins


def test_a_process_with_an_empty_environment_and_a_zombie_have_begun() -> None:
    with subprocess.Popen(
        ["/bin/sh", "-c", "echo; read line"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={},
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        stat = Path(f"/proc/{process.pid}/stat")
        assert not begins_program(stat.read_bytes())
        descriptor = os.pidfd_open(process.pid)
        process.stdin.close()
        assert select.select([descriptor], [], [], PATIENCE)[0]
        os.close(descriptor)
        assert stat.read_text().rpartition(")")[2].split()[0] == "Z"
        assert not begins_program(stat.read_bytes())


NAMELESS = (
    "import sys; open('/proc/self/comm', 'wb').write(b'\\xff) R 1'); print(flush=True); "
    "sys.stdin.read()"
)
"""A process whose name is no text."""


def test_a_process_whose_name_is_no_text_hinders_no_look() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", NAMELESS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={}
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert b"\xff" in Path(f"/proc/{process.pid}/stat").read_bytes()
        end_marked(new_mark())
        process.kill()
