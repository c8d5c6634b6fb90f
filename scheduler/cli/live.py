"""A live screen: asks again and again, and draws the answer to the size that the terminal has.

A thread asks, so that keys and a new size take effect at once. The last answer stays on the screen
while no new one comes, with a note above it.
"""

from __future__ import annotations

import os
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

import click

from scheduler.cli import exit_codes
from scheduler.cli.exit_codes import CommandError
from scheduler.cli.tables import printable
from scheduler.explain.records.wording import span

if TYPE_CHECKING:
    from rich.text import Text

TICK_SECONDS: Final = 0.1
"""How soon a key or a new size of the terminal is noticed."""
NOTE_SECONDS: Final = 15.0
"""How long another leader is announced."""
PASSING: Final = frozenset({exit_codes.UNREACHABLE, exit_codes.LEADER_CHANGED})
"""Exit codes of errors after which asking again may help; any other ends the screen."""


class LivePage(Protocol):
    """Fields of every page with a live screen."""

    @property
    def now(self) -> float: ...  # noqa: D102
    @property
    def leading(self) -> bool: ...  # noqa: D102


P = TypeVar("P", bound=LivePage)
Draw = Callable[[P, int, int, Sequence[str]], "list[Text]"]
"""`draw(page, width, height, notes)`: at most `height` lines of at most `width` columns."""


@dataclass(slots=True)
class Answers(Generic[P]):
    """The last page so far, and what is to be noted about it."""

    page: P | None = None
    #: The error that ended the asking.
    failure: click.ClickException | None = None
    problem: str = ""
    #: Monotonic time of the last page, and of the last change of the leader.
    answered: float = 0.0
    changed: float = -NOTE_SECONDS
    #: Grows with every answer and error.
    number: int = 0
    _process: object = None

    def take(self, page: P, now: float) -> None:
        """Take a page."""
        process = getattr(page, "started", None)
        if self.page is not None and process != self._process:
            self.changed = now
        self._process = process
        self.page, self.problem, self.answered = page, "", now
        self.number += 1

    def fail(self, error: click.ClickException) -> None:
        """Take an error: a passing one is noted, if there was an answer before it."""
        code = error.exit_code
        if self.page is None or code not in PASSING:
            self.failure = error
        elif code == exit_codes.LEADER_CHANGED:
            self.problem = "the leader is gone; another replica takes over, if one runs"
        else:
            self.problem = error.message.splitlines()[0]
        self.number += 1

    def notes(self, now: float) -> list[str]:
        """Return what to show above the page."""
        found = []
        if self.problem:
            age = span(now - self.answered)
            found.append(f"no answer for {age}, asking again: {self.problem}")
        if now - self.changed < NOTE_SECONDS:
            found.append("another process answers now: counts and rates begin anew")
        if self.page is not None and not self.page.leading:
            found.append("this replica stands by: it schedules nothing")
        return found


def watch(ask: Callable[[], P], draw: Draw[P], interval: float) -> None:
    """Show a live screen until `q` or Ctrl-C; the standard output is a terminal.

    Raises:
        click.ClickException: there was no first answer, or one that asking again cannot mend.
    """
    from rich.console import Console, Group
    from rich.live import Live

    answers: Answers[P] = Answers()
    stopping = threading.Event()
    asking = threading.Thread(
        target=_ask, args=(ask, answers, stopping, interval), name="ask", daemon=True
    )
    asking.start()
    console = Console(highlight=False)
    shown: object = None
    try:
        with _keys() as pressed, Live(console=console, screen=True, auto_refresh=False) as live:
            while answers.failure is None and pressed() != "q":
                now, size = time.monotonic(), console.size
                notes = answers.notes(now)
                if answers.page is not None and shown != (answers.number, size, notes):
                    shown = (answers.number, size, notes)
                    lines = draw(answers.page, size.width, size.height, notes)
                    live.update(Group(*lines[: size.height]), refresh=True)
    except KeyboardInterrupt:
        pass
    finally:
        stopping.set()
    if answers.failure is not None:
        raise answers.failure


def _ask(
    ask: Callable[[], P], answers: Answers[P], stopping: threading.Event, interval: float
) -> None:
    while not stopping.is_set() and answers.failure is None:
        try:
            answers.take(ask(), time.monotonic())
        except click.ClickException as error:
            answers.fail(error)
        except Exception as error:  # noqa: BLE001 - boundary: a thread's error is shown by the other
            answers.failure = CommandError(f"{type(error).__name__}: {error}")
        stopping.wait(interval)


@contextmanager
def _keys() -> Iterator[Callable[[], str]]:
    """Read single keys where the terminal allows it; the function waits a tick and returns one."""
    try:
        import termios
        import tty

        descriptor = sys.stdin.fileno()
        before = termios.tcgetattr(descriptor)
    except (ImportError, OSError, ValueError, termios.error):
        yield _no_key
        return

    def pressed() -> str:
        ready, _, _ = select.select([descriptor], [], [], TICK_SECONDS)
        return os.read(descriptor, 1).decode("ascii", "replace") if ready else ""

    tty.setcbreak(descriptor)
    try:
        yield pressed
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _no_key() -> str:
    time.sleep(TICK_SECONDS)
    return ""


# -- drawing -------------------------------------------------------------------------------------


def fitted(text: str, width: int, style: str = "") -> Text:
    """Return one line of at most `width` columns, without control characters."""
    from rich.text import Text

    line = Text(" ".join(printable(text).split("\n")), style, no_wrap=True, overflow="ellipsis")
    line.truncate(width, overflow="ellipsis")
    return line


def flowed(items: Sequence[str], width: int) -> list[str]:
    """Put items on as few lines as they need, two spaces apart, none broken.

    >>> flowed(["active 1", "backoff 2", "gated 3"], 20)
    ['active 1  backoff 2', 'gated 3']
    """
    lines: list[str] = []
    for item in items:
        if lines and len(lines[-1]) + 2 + len(item) <= width:
            lines[-1] += f"  {item}"
        else:
            lines.append(item)
    return lines


def bar(percent: float, width: int) -> str:
    """Draw a share as a bar; `#` where the terminal has no block characters.

    >>> bar(50, 4) in {"██░░", "##.."}, len(bar(300, 4)), bar(5, 0)
    (True, 4, '')
    """
    full, empty = ("█", "░") if "utf" in (sys.stdout.encoding or "").lower() else ("#", ".")
    filled = max(0, min(width, round(percent * width / 100)))
    return full * filled + empty * (width - filled)
