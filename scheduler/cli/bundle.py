"""`kubestow bundle`: a running scheduler's state and decisions in one file."""

from __future__ import annotations

import os
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

import click

from scheduler.cli.endpoint import Endpoint, endpoint_options
from scheduler.cli.exit_codes import BAD_INPUT, OTHER_ERROR, UNUSABLE_BUNDLE, CommandError
from scheduler.cli.modes import ModalCommand
from scheduler.cli.pod_format import one_line

if TYPE_CHECKING:
    from scheduler.recording.reading import Bundle

HELP: Final = """\
Write what a running scheduler knows and has decided to one file.

The file has the objects that scheduling reads, the configuration, the queue, the decisions that are
remembered, quotas, metrics and the random state, all of one moment. It has no Secrets, no
environment variables and no commands of containers. --redact replaces names, namespaces and labels
by random words. `kubestow replay FILE` decides everything again; a report of a problem needs
nothing else.

\b
Look into it before you send it:
  zcat kubestow.bundle | head -c 2000
  zcat kubestow.bundle | jq -c 'select(.section == "object") | .data.metadata.name'
"""

STDOUT: Final = "-"


def content_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options about what a file has: `redact` and `annotations`."""
    redact = click.option("--redact", is_flag=True, help="Replace names, namespaces and labels.")
    annotation = click.option(
        "--annotation",
        "annotations",
        multiple=True,
        metavar="KEY",
        help="Keep this annotation, which a plugin of yours reads; may be repeated.",
    )
    decorated: Callable[..., None] = redact(annotation(command))
    return decorated


@click.command(
    "bundle", cls=ModalCommand, help=HELP, short_help="Write state and decisions to one file."
)
@click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="The file; - for standard output. Default: kubestow-DATE.bundle.",
)
@content_options
@endpoint_options
def command(
    *, endpoint: Endpoint, output: str | None, redact: bool, annotations: tuple[str, ...]
) -> None:
    """Write a bundle."""
    query = {"annotation": ",".join(annotations)} if annotations else {}
    pieces = endpoint.stream("/debug/bundle", query)
    path = save(pieces, output or default_name("bundle"), redact=redact)
    if path is not None:
        report(path)


def default_name(kind: str) -> str:
    """Return a file name with the time."""
    return f"kubestow-{time.strftime('%Y%m%d-%H%M%S')}.{kind}"


def save(pieces: Iterator[bytes], output: str, *, redact: bool) -> Path | None:
    """Write a stream to a file that only its owner may read; None for standard output.

    The file appears under its name when it is complete. Ctrl-C ends a recording: what has arrived
    is then cut, and is not kept.
    """
    if output == STDOUT:
        if redact:
            raise CommandError("--redact needs a file: give --output FILE", BAD_INPUT)
        for piece in pieces:
            sys.stdout.buffer.write(piece)
        return None
    path = Path(output)
    with _new_file(path) as (file, temporary):
        for piece in pieces:
            file.write(piece)
        file.flush()
        if redact:
            redacted(opened(temporary), file)
    return path


@contextmanager
def _new_file(path: Path) -> Iterator[tuple[BinaryIO, Path]]:
    """Open a file beside `path` that takes its place if nothing is raised."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or error}", OTHER_ERROR) from error
    try:
        with os.fdopen(descriptor, "r+b") as file:
            yield file, temporary
        temporary.replace(path)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or error}", OTHER_ERROR) from error
    finally:
        temporary.unlink(missing_ok=True)


def opened(path: str | Path) -> Bundle:
    """Check a bundle; an unusable one ends the command with its exit code."""
    from scheduler.recording.format import BundleError
    from scheduler.recording.reading import open_bundle

    try:
        return open_bundle(path)
    except BundleError as error:
        raise CommandError(str(error), UNUSABLE_BUNDLE) from error


def redacted(bundle: Bundle, file: BinaryIO) -> None:
    """Write a redacted copy over the file that the bundle was read from."""
    import msgspec

    from scheduler.recording.format import HEADER
    from scheduler.recording.redaction import Redactor
    from scheduler.recording.writing import BundleWriter

    redactor = Redactor(secrets.token_bytes(32))
    for line in bundle.lines():
        redactor.learn(line.section, msgspec.json.decode(line.data))
    header = redactor.redact(HEADER, msgspec.to_builtins(bundle.header))
    writer = BundleWriter(msgspec.convert(header, type(bundle.header)))
    # Without a name, so that nobody else can open it or has put a link in its place.
    with tempfile.TemporaryFile(dir=bundle.path.parent) as copy:
        copy.write(writer.begin())
        for line in bundle.lines():
            data = redactor.redact(line.section, msgspec.json.decode(line.data))
            copy.write(writer.add(line.section, data))
        copy.write(writer.end(bundle.manifest.end, bundle.manifest.detail))
        copy.seek(0)
        file.seek(0)
        file.truncate()
        shutil.copyfileobj(copy, file)


def report(path: Path) -> None:
    """Check the file that was written, and say what is in it."""
    bundle = opened(path)
    sections, size = bundle.manifest.sections, path.stat().st_size
    counted = {
        "objects": sections.get("object", 0),
        "pending pods": sections.get("queue", 0),
        "decisions": sections.get("decision", 0) + sections.get("attempt", 0),
    }
    listed = ", ".join(f"{count} {what}" for what, count in counted.items())
    click.echo(f"{path}: {size / 1024:.0f} KiB, {listed}")
    if bundle.manifest.detail:
        click.echo(one_line(f"it ended because {bundle.manifest.detail}"))
