"""The exit codes of commands that ask a running scheduler, as in docs/asking-the-scheduler.md.

One code has one meaning in all of them, so that a script need not read texts.
"""

from __future__ import annotations

from typing import Final

import click

from scheduler.cli.reporting import EXIT_FAILED

ANSWERED: Final = 0
OTHER_ERROR: Final = EXIT_FAILED
BAD_INPUT: Final = 2
"""Wrong options or arguments, as Click exits."""
DOES_NOT_FIT: Final = 3
"""The question was answered with no: the pod fits nowhere, an assertion fails, a replay differs."""
NO_SUCH_POD: Final = 4
UNREACHABLE: Final = 5
"""No way to the scheduler: no API server, no leader, no tunnel, a certificate that is not
trusted."""
NOT_PERMITTED: Final = 6
LEADER_CHANGED: Final = 7
"""Another replica took over during the question, twice."""
UNUSABLE_BUNDLE: Final = 8
"""A bundle of another version, cut, damaged, or no bundle at all."""
NO_WEBSOCKET: Final = 9
"""The API server, or a proxy before it, opens no WebSocket: asking again does not help."""
NO_SUCH_SCHEDULER: Final = 10
"""No pod names the scheduler that was to be followed."""
NOTHING_HAPPENED: Final = 11
"""No pod was placed, and none waits: there is nothing to compare."""


class CommandError(click.ClickException):
    """An error with the exit code that tells its kind."""

    def __init__(self, message: str, exit_code: int = OTHER_ERROR) -> None:
        super().__init__(message)
        self.exit_code = exit_code  # type: ignore[misc]  # Click means subclasses
