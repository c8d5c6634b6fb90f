"""Execution of the shell and file blocks of a document, in order, as its reader would.

    with ShellSession(folder, environment) as session:
        session.follow(blocks(tutorial, root))

- A block with a title is written to that file.
- An `sh` block is executed; working directory and exported variables last. It must succeed.
- A `text` block after it is its expected output, compared as doctest does with ELLIPSIS and
  NORMALIZE_WHITESPACE: `...` stands for any text.

Marks of an `sh` block: `another terminal` starts it beside what follows, and waits for the expected
output; `exit N` expects that status; `repeat`, also before `exit N`, runs it until status and
output are as expected; `as printed` runs the line that one of the other terminals has printed and
that the block shows with `...`; `not run: REASON` leaves it out. A block that would be neither
executed nor compared is an error.
"""

from __future__ import annotations

import doctest
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from devtools.markdown import Block

LIMIT_SECONDS: Final = 180.0
"""For a block to end, or to print what is expected: a loaded machine takes many times the usual."""

_POLL_SECONDS: Final = 0.2
_FLAGS: Final = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
_STATUS: Final = re.compile(r"(?P<repeat>repeat)?\s?(?:exit (?P<status>\d+))?")
_SHELL: Final = ("bash", "-euo", "pipefail", "-c")


class DocumentError(AssertionError):
    """A block did not do what the document says; the text names the block and shows both."""


class ShellSession:
    """One reader's shell, from `with` to the end of it, which ends what was started beside."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        """Prepare; `folder` is the working directory and takes the files."""
        self._folder = folder
        self._environment = dict(environment)
        self._state = folder / ".session"
        self._running: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        self._state.write_text("")
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running:
            with suppress(ProcessLookupError):  # It has ended.
                os.killpg(process.pid, signal.SIGTERM)
        for process in self._running:
            try:
                process.wait(LIMIT_SECONDS)
            finally:
                with suppress(ProcessLookupError):  # It has left nothing behind.
                    os.killpg(process.pid, signal.SIGKILL)

    def follow(self, document: Sequence[Block]) -> None:
        """Do what the blocks say.

        Raises:
            DocumentError: one of them did not do what the document says.
        """
        languages = ["", *(block.language for block in document), ""]
        for index, block in enumerate(document):
            printed = languages[index + 2] == "text"
            if block.title:
                path = self._folder / block.title
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(block.text + "\n")
            elif block.language == "sh":
                self._execute(block, document[index + 1].text if printed else None)
            elif (languages[index], block.language) != ("sh", "text"):
                msg = (
                    f"{block}: a block is `sh`, the `text` it prints, or has a title; this is none"
                )
                raise DocumentError(msg)

    def _execute(self, block: Block, expected: str | None) -> None:
        mark = _STATUS.fullmatch(block.mark)
        if block.mark == "another terminal":
            self._start(block, expected)
        elif block.mark == "as printed":
            self._run(block._replace(text=self._printed(block)))
        elif mark and mark["repeat"]:
            self._repeat(block, expected, int(mark["status"] or 0))
        elif mark:
            _compare(block, expected, self._run(block, int(mark["status"] or 0)))
        elif not block.mark.startswith("not run: "):
            raise DocumentError(f"{block}: unknown mark {block.mark!r}; see shell_session.py")

    def _run(self, block: Block, status: int = 0) -> str:
        done = self._shell(block)
        if done.returncode != status:
            msg = f"{block}: status {done.returncode} instead of {status}\n{block.text}\n"
            raise DocumentError(msg + done.stdout)
        return done.stdout

    def _repeat(self, block: Block, expected: str | None, status: int) -> None:
        """Run the block until it ends and prints as expected."""
        outputs: list[str] = []

        def attempt() -> bool:
            done = self._shell(block)
            outputs.append(done.stdout)
            return done.returncode == status and _matches(expected or "...", done.stdout)

        if not _until(attempt):
            msg = (
                f"{block}: not in time\n{block.text}\n--- expected\n{expected}\n--- printed last\n"
            )
            raise DocumentError(msg + outputs[-1])

    def _shell(self, block: Block) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                [*_SHELL, self._script(block.text)],
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=LIMIT_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            msg = f"{block}: not ended after {LIMIT_SECONDS:g} s\n{block.text}\n"
            raise DocumentError(msg + (error.stdout or b"").decode()) from error

    def _start(self, block: Block, expected: str | None) -> None:
        log = self._log(len(self._running))
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*_SHELL, self._script(block.text)],
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._running.append(process)

        def printed() -> bool:
            return _matches(expected or "...", log.read_text())

        if not _until(lambda: printed() or process.poll() is not None) or not printed():
            _compare(block, expected, log.read_text())

    def _printed(self, block: Block) -> str:
        for number in range(len(self._running)):
            for line in self._log(number).read_text().splitlines():
                if _matches(block.text, line.strip() + "\n"):
                    return line.strip()
        raise DocumentError(f"{block}: no terminal has printed {block.text!r}")

    def _log(self, terminal: int) -> Path:
        return self._folder / f".terminal-{terminal}"

    def _script(self, text: str) -> str:
        state = self._state
        return f'. "{state}"\n{text}\n{{ export -p; echo "cd \'$PWD\'"; }} > "{state}"'


def _matches(expected: str, output: str) -> bool:
    return doctest.OutputChecker().check_output(expected + "\n", output, _FLAGS)


def _compare(block: Block, expected: str | None, output: str) -> None:
    if expected is not None and not _matches(expected, output):
        msg = f"{block}:\n{block.text}\n--- expected\n{expected}\n--- printed\n{output}"
        raise DocumentError(msg)


def _until(holds: Callable[[], bool]) -> bool:
    end = time.monotonic() + LIMIT_SECONDS
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(_POLL_SECONDS)
    return True
