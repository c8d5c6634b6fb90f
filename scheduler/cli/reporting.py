"""How the command line tells what went wrong: every problem on its own line, colour on terminals.

Errors go to standard error. Nothing is wrapped, so that a path can be searched for in the output.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

EXIT_FAILED: Final = 1
"""As kube-scheduler, whatever went wrong. Mistakes in flags end with 2, click's habit."""

EXIT_INTERRUPTED: Final = 130
"""Ctrl-C: what shells make of a process that ends by SIGINT."""


def report_problems(title: str, problems: Sequence[str]) -> None:
    """Print a heading and a list."""
    click.secho(title, err=True, fg="red", bold=True)
    for problem in problems:
        first, *rest = problem.splitlines() or [""]
        click.echo(f"  - {first}", err=True)
        for line in rest:
            click.echo(f"    {line}", err=True)


def counted(count: int, noun: str) -> str:
    """`1 problem`, `2 problems`.

    >>> counted(1, "problem"), counted(0, "problem")
    ('1 problem', '0 problems')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
