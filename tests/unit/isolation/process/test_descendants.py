"""Tests that what the process of a plugin has started ends with it, in whatever session it is."""

from __future__ import annotations

import os
import select
import subprocess
import sys

import pytest

from scheduler.isolation.process.descendants import MARK, end_marked, new_mark

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
            assert end_marked(new_mark()) == 0
            assert end_marked(mark) >= 1
            assert select.select([descriptor], [], [], PATIENCE)[0], "it has ended"
        finally:
            os.close(descriptor)
            process.kill()
