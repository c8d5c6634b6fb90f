"""`kubestow plugin try`: the decisions of a plugin on the demo cluster, again after each save."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click

from scheduler.cli.manifests import documents, named
from scheduler.cli.plugin.demo_run import PodOutcome, demo_run
from scheduler.cli.plugin.sources import PluginSource
from scheduler.cli.tables import FOLDED, NUMBER, WHOLE, Cell, listing, printable, put, wide_console
from scheduler.cli.whatif import pod_manifest
from scheduler.files import reason
from scheduler.framework.status import ConfigurationError
from scheduler.offline.builders import JsonObject
from scheduler.offline.editing import WorldError
from scheduler.testing.raised import raised_text

POLL_SECONDS: Final = 0.3
MAX_REASONS: Final = 3
OPTION: Final = "--filename"


def show_once(source: PluginSource, args: dict[str, Any] | None, file: Path | None) -> None:
    """Show the decisions of every class. Raises ConfigurationError, ClickException."""
    console = wide_console()
    for plugin in source.load():
        click.secho(printable(plugin.name), bold=True)
        try:
            outcomes = demo_run(plugin, args, _pods(file))
        except WorldError as error:
            raise click.ClickException(f"{file}: {reason(error)}") from error
        except (ConfigurationError, click.ClickException):
            raise
        except Exception as error:
            # The boundary to the code of the plugin.
            raise click.ClickException(f"{plugin.name}: {raised_text(plugin, error)}") from error
        put(
            console,
            listing(
                {
                    "POD": WHOLE,
                    "LABELS AND ANNOTATIONS": FOLDED,
                    "ACCEPTS": NUMBER,
                    "REJECTS": FOLDED,
                    "SCORES": WHOLE,
                    "GOES TO": FOLDED,
                },
                map(_row, outcomes),
            ),
        )


def watch(source: PluginSource, args: dict[str, Any] | None, file: Path | None) -> None:
    """Show the decisions, and again when a file of the folder changes, until Ctrl-C."""
    seen = None
    while True:
        now = list(_versions(source, file))
        if now != seen:
            seen = now
            click.clear()
            try:
                show_once(source, args, file)
            except (ConfigurationError, click.ClickException) as error:
                text = error.format_message() if isinstance(error, click.ClickException) else error
                click.secho(printable(str(text)), fg="red")
            click.echo(f"\nwatching {source.folder}; Ctrl-C ends")
        time.sleep(POLL_SECONDS)


def _row(outcome: PodOutcome) -> tuple[Cell, ...]:
    words = ", ".join(f"{key}={value}" for key, value in outcome.words.items())
    reasons = [f"{count}: {text}" for text, count in outcome.reasons.items()]
    more = len(reasons) - MAX_REASONS
    rejects = "; ".join(reasons[:MAX_REASONS]) + (f"; and {more} more" if more > 0 else "")
    scores = "" if outcome.scores is None else f"{outcome.scores[0]} to {outcome.scores[1]}"
    where: Cell = outcome.node or ("waits", "yellow")
    return outcome.pod, words, str(outcome.accepted), rejects, scores, where


def _pods(file: Path | None) -> list[JsonObject]:
    """Read the pods of a file of manifests, or those that its Deployments and Jobs would make."""
    if file is None:
        return []
    found = documents(str(file), OPTION)
    return [pod_manifest(each, "default", named(str(file)), OPTION) for each in found]


def _versions(source: PluginSource, file: Path | None) -> Iterator[tuple[str, int]]:
    """Yield name and time of change of each file that decides."""
    files = [*source.folder.glob("*.py"), *([] if file is None else [file])]
    for each in sorted(files):
        try:
            yield str(each), each.stat().st_mtime_ns
        except OSError:
            # Deleted since it was listed; an editor replaces files.
            continue
