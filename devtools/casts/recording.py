"""Recording of a command in a pseudo-terminal, as pictures of the screen and their times.

The terminal understands what Rich writes when it redraws whole lines: colours, cursor up, erase
line, and the visibility of the cursor. Anything else is an error, so that no cast is silently
wrong.
"""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from rich.ansi import AnsiDecoder
from rich.text import Text

_TOKEN: Final = re.compile(r"\x1b\[(?P<argument>[?\d;]*)(?P<final>[A-Za-z])|[\r\n]|[^\x1b\r\n]+")
_INCOMPLETE: Final = re.compile(r"\x1b(?:\[[?\d;]*)?\Z")
_IGNORED: Final = ("?25l", "?25h")
"""The cursor is not drawn."""
_ERASE_LINE: Final = "2"


class Frame(NamedTuple):
    """A picture of the screen."""

    seconds: float
    """Since the start of the command."""
    rows: tuple[Text, ...]


class Screen:
    """Lines of text with their colours, which a command writes and redraws."""

    def __init__(self, columns: int, lines: int) -> None:
        """Begin with an empty screen."""
        self._columns = columns
        self._lines = lines
        self._written = [""]
        self._at = 0
        self._returned = False
        self._rest = ""

    def feed(self, text: str) -> None:
        """Take what the command writes.

        Raises:
            ValueError: the text has a sequence that is not understood.
        """
        text = self._rest + text
        cut = _INCOMPLETE.search(text)
        self._rest = cut[0] if cut else ""
        text = text.removesuffix(self._rest)
        position = 0
        while position < len(text):
            token = _TOKEN.match(text, position)
            if token is None:
                msg = f"unsupported control sequence: {text[position : position + 20]!r}"
                raise ValueError(msg)
            position = token.end()
            self._take(token)

    def rows(self) -> tuple[Text, ...]:
        """Return the rows that are visible; long lines take several."""
        found: list[Text] = []
        for line in self._written:
            text = AnsiDecoder().decode_line(line)
            cuts = range(self._columns, len(text), self._columns)
            found += text.divide(cuts) if cuts else [text]
        return tuple(found[-self._lines :])

    def _take(self, token: re.Match[str]) -> None:
        text, argument = token[0], token["argument"]
        if text == "\n":
            self._at += 1
            if self._at == len(self._written):
                self._written.append("")
        elif text == "\r":
            self._returned = True
        elif token["final"] == "A":
            self._at -= int(argument or 1)
        elif token["final"] == "K" and argument == _ERASE_LINE:
            self._written[self._at] = ""
        elif token["final"] in (None, "m"):
            if self._returned and self._written[self._at]:
                msg = f"a line is overwritten without being erased: {text!r}"
                raise ValueError(msg)
            self._written[self._at] += text
            self._returned = False
        elif text.removeprefix("\x1b[") not in _IGNORED:
            msg = f"unsupported control sequence: {text!r}"
            raise ValueError(msg)


def record(command: Sequence[str], columns: int, lines: int, seconds: float) -> list[Frame]:
    """Run a command in a terminal of this size; at most one frame in `seconds`, and the last one.

    Raises:
        subprocess.CalledProcessError: the command failed.
    """
    screen = Screen(columns, lines)
    frames: list[Frame] = []
    for at, text in _output(command, columns, lines):
        if frames and at - frames[-1].seconds >= seconds:
            _add(frames, Frame(at, screen.rows()))
        screen.feed(text)
        if not frames:
            frames.append(Frame(0.0, screen.rows()))
    _add(frames, Frame(at, screen.rows()))
    return frames


def _add(frames: list[Frame], frame: Frame) -> None:
    if frame.rows != frames[-1].rows:
        frames.append(frame)


def _output(command: Sequence[str], columns: int, lines: int) -> Iterator[tuple[float, str]]:
    """Yield what the command writes to its terminal, and when."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    sizes = ("COLUMNS", "LINES")
    environment = {key: value for key, value in os.environ.items() if key not in sizes}
    environment |= {"TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8"}
    begin = time.monotonic()
    decoder = codecs.getincrementaldecoder("utf-8")()
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    ) as process:
        os.close(theirs)
        try:
            while chunk := os.read(ours, 65536):
                yield time.monotonic() - begin, decoder.decode(chunk)
        except OSError:
            pass  # Linux returns EIO once no writer is left.
        finally:
            os.close(ours)
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, command)
