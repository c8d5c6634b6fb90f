"""`kubestow record`: a bundle, and everything that the scheduler applies and decides after it."""

from __future__ import annotations

import re
from typing import Final

import click

from scheduler.cli.bundle import content_options, default_name, report, save
from scheduler.cli.endpoint import Endpoint, endpoint_options
from scheduler.cli.modes import ModalCommand

HELP: Final = """\
Record what the leader applies and decides, for `kubestow replay`.

The file begins with a bundle (see `kubestow bundle`); then every change of an object and every
decision follows, in order. The recording ends after --for, at --max-size, and whenever its order
could not be kept: another replica leads, a resource is listed anew, the configuration is replaced,
or the connection is too slow. The scheduler never waits for it.

\b
Examples:
  kubestow record --for 2m -o incident.recording
  kubestow replay incident.recording
"""

_UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600}
_SIZES: Final = {"": 1, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}
IDLE_SECONDS: Final = 30.0
"""Without a byte for so long, the scheduler is gone: it writes every few seconds."""


def _duration(_: click.Context, __: click.Parameter, text: str) -> int:
    matched = re.fullmatch(r"(\d{1,6})([smh]?)", text)
    seconds = int(matched[1]) * _UNITS[matched[2]] if matched else 0
    if not 1 <= seconds <= 3600:
        raise click.BadParameter(f"{text!r}: write 30s, 5m or 1h; at most an hour")
    return seconds


def _size(_: click.Context, __: click.Parameter, text: str) -> int:
    matched = re.fullmatch(r"(\d{1,9})(|[KMG]i)", text)
    size = int(matched[1]) * _SIZES[matched[2]] if matched else 0
    if not 1 <= size <= 2 << 30:
        raise click.BadParameter(f"{text!r}: write 100Mi or 1Gi; at most 2Gi")
    return size


@click.command(
    "record", cls=ModalCommand, help=HELP, short_help="Record decisions, to be replayed."
)
@click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="The file; - for standard output. Default: kubestow-DATE.recording.",
)
@click.option(
    "--for",
    "seconds",
    default="1m",
    show_default=True,
    callback=_duration,
    metavar="DURATION",
    help="How long.",
)
@click.option(
    "--max-size",
    "size",
    default="256Mi",
    show_default=True,
    callback=_size,
    metavar="SIZE",
    help="Size of the file at which the recording ends.",
)
@content_options
@endpoint_options
def command(
    *,
    endpoint: Endpoint,
    output: str | None,
    seconds: int,
    size: int,
    redact: bool,
    annotations: tuple[str, ...],
) -> None:
    """Write a recording."""
    query = {"seconds": str(seconds), "bytes": str(size)}
    query |= {"annotation": ",".join(annotations)} if annotations else {}
    pieces = endpoint.stream("/debug/record", query, timeout=IDLE_SECONDS)
    path = save(pieces, output or default_name("recording"), redact=redact)
    if path is not None:
        report(path)
