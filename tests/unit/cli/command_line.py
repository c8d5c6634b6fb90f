"""Running command lines in this process."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from types import ModuleType

import pytest

from scheduler.cli.main import main
from scheduler.service.options import RunOptions


@dataclass
class Ended:
    code: int
    out: str
    err: str


@dataclass
class Shell:
    """Runs commands; `kubestow run` ends in a stand-in that keeps its options."""

    capture: pytest.CaptureFixture[str]
    started: list[RunOptions] = field(default_factory=list)
    #: What the stand-in returns.
    code: int = 0
    failure: Exception | None = None

    def __call__(self, *arguments: str, name: str = "kubestow") -> Ended:
        self.capture.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(arguments, name)
        out, err = self.capture.readouterr()
        code = ended.value.code
        return Ended(code if isinstance(code, int) else int(bool(code)), out, err)

    def options(self, *arguments: str, name: str = "kubestow") -> RunOptions:
        """The options `kubestow run` was started with."""
        run = ["run"] if name == "kubestow" else []
        ended = self(*run, *arguments, name=name)
        assert ended.code == self.code, ended.err
        return self.started[-1]

    def run(self, options: RunOptions) -> int:
        self.started.append(options)
        if self.failure is not None:
            raise self.failure
        return self.code


def install(shell: Shell, patch: pytest.MonkeyPatch) -> None:
    """Let the command import the stand-in."""
    application = ModuleType("scheduler.process.application")
    vars(application)["run"] = shell.run
    patch.setitem(sys.modules, "scheduler.process.application", application)
