"""`kubestow replay`: decide again what a bundle or a recording remembers, and compare."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import click

from scheduler.cli.exit_codes import (
    DOES_NOT_FIT,
    NO_SUCH_POD,
    OTHER_ERROR,
    UNUSABLE_BUNDLE,
    CommandError,
)
from scheduler.cli.pod_format import one_line
from scheduler.cli.tables import say, wide_console
from scheduler.explain.records.wording import counted

if TYPE_CHECKING:
    from rich.console import Console

    from scheduler.offline.judgement import Judgement
    from scheduler.offline.replay import Replay

HELP: Final = """\
Decide again, in this process, what a bundle or a recording remembers.

Every attempt of a recording (`kubestow record`) is decided again with the same objects, times,
random state and queue record, and compared: node, nodes looked at and found to fit, victims,
nomination, rejections and message. What differs is listed with the likeliest reason.

A bundle (`kubestow bundle`) has the state of one moment. Two kinds of its decisions are judged:
the last rejection of each pod that still waits, which must be rejected again unless an event has
moved it since; and placements, taken back one by one from the last, until one of them, or what
changed in between, cannot be told from the file. All others are unjudged, each with the reason.

Exit code: 0 everything that can be judged is reproduced, 3 something is not, 8 the file cannot be
used.

\b
Examples:
  kubestow replay incident.recording
  kubestow replay incident.recording --pod default/web-0
  kubestow replay incident.recording --until 17 --step
"""


@click.command("replay", help=HELP, short_help="Decide again what a file remembers.")
@click.argument("file", type=click.Path(dir_okay=False))
@click.option("--pod", metavar="NAMESPACE/NAME", help="Show only the attempts at this pod.")
@click.option("--until", type=click.IntRange(1), metavar="SEQ", help="Stop after this attempt.")
@click.option("--step", is_flag=True, help="Show every attempt, and wait for Enter after each.")
@click.option("--plugin-dir", "plugin_dirs", multiple=True, type=click.Path(file_okay=False),
              metavar="DIR", help="Folder with third-party plugins; may be repeated.")  # fmt: skip
@click.option(
    "--output",
    "-o",
    type=click.Choice(["text", "wide", "json"]),
    default="text",
    show_default=True,
    help="text: what is not reproduced; wide: every attempt; json: a line for each.",
)
def command(
    *,
    file: str,
    pod: str | None,
    until: int | None,
    step: bool,
    plugin_dirs: tuple[str, ...],
    output: str,
) -> None:
    """Replay a file."""
    from scheduler.offline.judgement import DIFFERENT
    from scheduler.offline.replay import Replay

    counts: Counter[str] = Counter()
    console = wide_console()
    shown = 0
    with _errors(), Replay.of(file, plugin_dirs) as replay:
        for judgement in replay.run(until):
            counts[judgement.result] += 1
            if pod is not None and judgement.pod != pod:
                continue
            shown += 1
            _show(judgement, output, console, whole=step or pod is not None)
            if step and not _goes_on():
                break
        if output != "json":
            _summary(replay, counts, console)
    if pod is not None and not shown:
        raise CommandError(f"{file}: no attempt at pod {one_line(pod)}", NO_SUCH_POD)
    if counts[DIFFERENT]:
        sys.exit(DOES_NOT_FIT)


@contextmanager
def _errors() -> Iterator[None]:
    from scheduler.recording.format import BundleError

    try:
        yield
    except BundleError as error:
        raise CommandError(one_line(str(error)), UNUSABLE_BUNDLE) from error
    except RecursionError as error:
        raise CommandError("the file nests too deeply", UNUSABLE_BUNDLE) from error
    except MemoryError as error:
        raise CommandError("not enough memory for this file", OTHER_ERROR) from error


def _show(judgement: Judgement, output: str, console: Console, *, whole: bool) -> None:
    if output == "json":
        click.echo(json.dumps(_plain(judgement)))
        return
    if judgement.result == "reproduced" and not whole and output != "wide":
        return
    recorded = judgement.recorded
    decided = recorded.node or recorded.message or recorded.reason
    line = f"{judgement.seq:6} {judgement.result:10} {judgement.pod}: {decided}"
    say(console, one_line(line))
    if judgement.why:
        say(console, one_line(judgement.why), indent=7)


def _plain(judgement: Judgement) -> dict[str, Any]:
    import msgspec

    plain: dict[str, Any] = msgspec.to_builtins(judgement)
    return plain


def _goes_on() -> bool:
    try:
        return click.prompt("", default="", show_default=False, prompt_suffix="") != "q"
    except click.Abort:
        return False


def _summary(replay: Replay, counts: Counter[str], console: Console) -> None:
    from scheduler.offline.bundles import unknown_kinds

    for note in unknown_kinds(replay.unknown):
        say(console, one_line(note))
    total = sum(counts.values())
    parts = [f"{counts[each]} {each}" for each in ("reproduced", "different", "unjudged")]
    click.echo(f"{counted(total, 'decision')}: {', '.join(parts)}")
