"""`kubestow` in processes of their own that need not import everything again.

    with ForkedCommands("scheduler.cli.config", "plugins") as commands:
        done = commands.run("config", "validate", "profile.yaml")

A process that has imported these modules forks for each call, and runs nothing itself. If they are
those that the command needs, a call costs a tenth of `python -m scheduler`. It goes through the
same entry point: output, exit code and what becomes of an exception are those of the program.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

_SERVER: Final = """
import importlib, json, os, sys
from scheduler.cli.main import main

for name in sys.argv[1:]:
    importlib.import_module(name)
for line in sys.stdin:
    call = json.loads(line)
    child = os.fork()
    if not child:
        os.environ.update(call["environment"])
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number, path in enumerate(call["outputs"], 1):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
        sys.argv[1:] = call["arguments"]
        sys.exit(main())
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class ForkedCommands:
    """Runs commands one after the other."""

    def __init__(self, *modules: str) -> None:
        """Import these modules on entry; each call imports what else it needs."""
        self._modules = modules

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="kubestow-commands-")
        self._server = subprocess.Popen(
            [sys.executable, "-c", _SERVER, *self._modules],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.communicate()
        self._folder.cleanup()

    def run(
        self, *arguments: str, environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run `kubestow ARGUMENTS` with more variables in its environment."""
        outputs = [Path(self._folder.name, name) for name in ("stdout", "stderr")]
        call = {
            "arguments": arguments,
            "environment": dict(environment or {}),
            "outputs": [*map(str, outputs)],
        }
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(f"{json.dumps(call)}\n")
        self._server.stdin.flush()
        code = int(self._server.stdout.readline())
        shown = [path.read_text(encoding="utf-8") for path in outputs]
        return subprocess.CompletedProcess(["kubestow", *arguments], code, *shown)
