"""Error output of the command line: one line for each problem, in colour on terminals.

Errors go to standard error. No line is wrapped, so that the output can be searched for paths.
"""

from __future__ import annotations

import logging
import sys
import threading
import traceback
from collections.abc import Sequence
from types import TracebackType
from typing import Final

import click

EXIT_FAILED: Final = 1
"""The exit code of kube-scheduler for every error. click exits with 2 after mistakes in flags."""

EXIT_INTERRUPTED: Final = 130
"""Ctrl-C: the status that shells report for a process ended by SIGINT."""


def safe(text: str) -> str:
    """Return a text without credentials, and without what could control a terminal."""
    # Importing it takes a third of the time of `--help`, which needs no redaction.
    from scheduler.sanitizing.escaping import escaped
    from scheduler.sanitizing.redaction import redact_text

    return escaped(redact_text(text))


def report_problems(title: str, problems: Sequence[str]) -> None:
    """Print a heading and a list, without credentials and controls that a problem may quote."""
    click.secho(safe(title), err=True, fg="red", bold=True)
    for problem in map(safe, problems):
        first, *rest = problem.splitlines() or [""]
        click.echo(f"  - {first}", err=True)
        for line in rest:
            click.echo(f"    {line}", err=True)


def show(error: click.ClickException) -> None:
    """Show an error as Click does, without credentials and controls."""
    error.message = safe(error.message)  # type: ignore[misc]  # Click means subclasses
    error.show()


def report_crashes() -> None:
    """Install hooks that write tracebacks without credentials, of threads and finalizers as well.

    Hooks that others have set stay.
    """
    if logging.lastResort is not None:
        # Prints log records of libraries in commands that configure no log.
        logging.lastResort.setFormatter(_SafeFormatter())
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _crashed
    if threading.excepthook is threading.__excepthook__:
        threading.excepthook = lambda args: _crashed(args.exc_type, args.exc_value, None)
    if sys.unraisablehook is sys.__unraisablehook__:
        sys.unraisablehook = lambda args: _crashed(args.exc_type, args.exc_value, None)


class _SafeFormatter(logging.Formatter):
    """Formatter of bare messages without credentials and controls."""

    def format(self, record: logging.LogRecord) -> str:
        """Format the message and make it safe."""
        return safe(super().format(record))


def _crashed(_: type[BaseException], error: BaseException | None, __: TracebackType | None) -> None:
    if error is not None:
        sys.stderr.write(safe("".join(traceback.format_exception(error))))
