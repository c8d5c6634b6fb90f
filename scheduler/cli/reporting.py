"""Error output of the command line: one line for each problem, in colour on terminals.

Errors go to standard error. Nothing is wrapped, so that a path can be searched for in the output.
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
"""As kube-scheduler, whatever went wrong. Mistakes in flags end with 2, click's habit."""

EXIT_INTERRUPTED: Final = 130
"""Ctrl-C: what shells make of a process that ends by SIGINT."""


def report_problems(title: str, problems: Sequence[str]) -> None:
    """Print a heading and a list, without the credentials that a problem may quote."""
    # Here and below: behind it stands what takes a third of the time of `--help`.
    from scheduler.api.redaction import redact_text

    click.secho(redact_text(title), err=True, fg="red", bold=True)
    for problem in map(redact_text, problems):
        first, *rest = problem.splitlines() or [""]
        click.echo(f"  - {first}", err=True)
        for line in rest:
            click.echo(f"    {line}", err=True)


def show(error: click.ClickException) -> None:
    """Show an error as Click does, without credentials."""
    from scheduler.api.redaction import redact_text

    error.message = redact_text(error.message)  # type: ignore[misc]  # Click means subclasses
    error.show()


def report_crashes() -> None:
    """Have Python write tracebacks without credentials, of threads and finalizers as well.

    Hooks already set by others stay.
    """
    if logging.lastResort is not None:
        # Lines of libraries, for commands that set up no log.
        logging.lastResort.setFormatter(_RedactingFormatter())
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _crashed
    if threading.excepthook is threading.__excepthook__:
        threading.excepthook = lambda args: _crashed(args.exc_type, args.exc_value, None)
    if sys.unraisablehook is sys.__unraisablehook__:
        sys.unraisablehook = lambda args: _crashed(args.exc_type, args.exc_value, None)


class _RedactingFormatter(logging.Formatter):
    """Only the message, without credentials."""

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter`."""
        from scheduler.api.redaction import redact_text

        return redact_text(super().format(record))


def _crashed(_: type[BaseException], error: BaseException | None, __: TracebackType | None) -> None:
    from scheduler.api.redaction import redact_text

    if error is not None:
        sys.stderr.write(redact_text("".join(traceback.format_exception(error))))


def counted(count: int, noun: str) -> str:
    """`1 problem`, `2 problems`.

    >>> counted(1, "problem"), counted(0, "problem")
    ('1 problem', '0 problems')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
