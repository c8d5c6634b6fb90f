"""A plugin that forks makes no second scheduler."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import asyncio
import os
import subprocess
import sys

import uvloop

from scheduler.service.forks import EXIT_CODE, end_forked_copies


class Forks:
    name = "example.com/Forks"

    def filter(self):
        return os.fork()

    async def pre_bind(self):
        program = await asyncio.create_subprocess_exec("true")
        return await program.wait()


async def credentials():
    program = await asyncio.create_subprocess_exec("true")
    return await program.wait()


end_forked_copies(lambda: [Forks()])
# uvloop forks to start a program, and calls the same hooks.
assert uvloop.run(credentials()) == 0
assert uvloop.run(Forks().pre_bind()) == 0
child = Forks().filter()
assert child, "the copy goes on"
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == EXIT_CODE
subprocess.run(["true"], check=True)
print("the scheduler goes on")
"""


def test_the_copy_ends_at_once_and_the_plugin_is_named() -> None:
    # In a process of its own: the copies of this one are not to be ended from now on.
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, timeout=600
    )
    assert (done.returncode, done.stdout) == (0, "the scheduler goes on\n"), done.stderr
    assert done.stderr.startswith("plugin example.com/Forks at Filter (")
    assert done.stderr.endswith("called os.fork: the copy of the scheduler ends\n")
