"""`kubestow` in processes of their own that need not import everything again.

    with ForkedCommands("scheduler.cli.config", "plugins") as commands:
        done = commands.run("config", "validate", "profile.yaml")
        with subprocess.Popen([*commands.program, "run"]) as process: ...

A process that has imported these modules forks for each call, and runs nothing itself. If they are
those that the command needs, a call costs a tenth of `python -m scheduler`. It goes through the
same entry point: output, exit code and what becomes of an exception are those of the program.
Calls may overlap. One has the standard streams, the working directory and the environment of the
small process that asked for it, gets its SIGINT and SIGTERM, and is killed when that ends.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

_SERVER: Final = """
import atexit, gc, importlib, marshal, os, select, signal, socket, sys

path, entry, *modules = sys.argv[1:]
for name in modules:
    importlib.import_module(name)
name, _, function = entry.partition(":")
main = getattr(importlib.import_module(name), function)

def run(begin, streams, arguments, folder, environment):
    os.read(begin, 1)
    os.close(begin)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv[1:] = arguments
    code = 1

    def leave():  # Last: taking all modules apart would take longer than most commands.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

    atexit.register(leave)
    try:
        sys.exit(main())
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else int(left.code is not None)
        raise

def call(connection):
    size, streams, _, _ = socket.recv_fds(connection, 4, 3)
    given = marshal.loads(connection.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL))
    begin, let_begin = os.pipe()
    child = os.fork()
    if not child:
        connection.close()
        os.close(let_begin)
        run(begin, streams, *given)
    for stream in streams:
        os.close(stream)
    connection.sendall(b"%d\\n" % child)
    os.write(let_begin, connection.recv(1))  # From now on it passes signals on.
    ended = os.pidfd_open(child)
    if ended not in select.select([ended, connection], [], [])[0]:
        os.kill(child, signal.SIGKILL)  # Nobody asks any more.
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        connection.sendall(b"%d\\n" % code)
    except BrokenPipeError:
        pass

def reap(options):
    try:
        while os.waitpid(-1, options)[0]:
            pass
    except ChildProcessError:
        pass  # There is none.

listener = socket.socket(socket.AF_UNIX)
listener.bind(path)
listener.listen()
gc.freeze()
os.write(1, b"\\n")
while 0 not in (ready := select.select([0, listener], [], [])[0]):
    connection, _ = listener.accept()
    if not os.fork():
        listener.close()
        os.close(0)
        call(connection)
        os._exit(0)
    connection.close()
    reap(os.WNOHANG)
reap(0)
"""

_CLIENT: Final = """
import marshal, os, signal, socket, sys

connection = socket.socket(socket.AF_UNIX)
connection.connect(sys.argv[1])
given = marshal.dumps((sys.argv[2:], os.getcwd(), dict(os.environ)))
socket.send_fds(connection, [len(given).to_bytes(4, "big")], [0, 1, 2])
connection.sendall(given)
answers = connection.makefile()
child = int(answers.readline())
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, _: os.kill(child, number))
connection.sendall(b"\\n")
code = int(answers.readline())
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
sys.exit(code)
"""


class ForkedCommands:
    """The process that forks, from `with` to the end of it."""

    def __init__(self, *modules: str, entry: str = "scheduler.cli.main:main") -> None:
        """Import these modules on entry; each call imports what else it needs.

        `entry` is the function that runs the command line of `sys.argv`.
        """
        self._modules, self._entry = modules, entry

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="kubestow-commands-")
        folder = Path(self._folder.name)
        client, path = folder / "client.py", folder / "socket"
        client.write_text(_CLIENT, encoding="utf-8")
        self.program = (sys.executable, "-IS", str(client), str(path))
        self._server = subprocess.Popen(
            [sys.executable, "-c", _SERVER, str(path), self._entry, *self._modules],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._server.stdout is not None
        assert self._server.stdout.readline(), "a module cannot be imported"
        return self

    def __exit__(self, *_: object) -> None:
        self._server.communicate()
        self._folder.cleanup()

    def run(
        self, *arguments: str, environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run `kubestow ARGUMENTS` with more variables in its environment."""
        return subprocess.run(
            [*self.program, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env={**os.environ, **(environment or {})},
            timeout=600,
            check=False,
        )

    def script(self, path: Path) -> None:
        """Write an executable file that stands for the program, for shells."""
        words = " ".join(self.program)
        path.write_text(f'#!/bin/sh\nexec {words} "$@"\n', encoding="utf-8")
        path.chmod(0o755)
