"""The page `docs/commands.md`: every command and flag, from the parser of the command line."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Final

import click

from scheduler.cli.go_flags import GroupedCommand
from scheduler.cli.main import program
from testing.references.markdown import cell, fence, prose, table

_INTRODUCTION: Final = """\
# Commands and flags

Generated from the parser of the command line by `make references`; do not edit. `--help` shows the
same for one command. Called as `kube-scheduler`, the program is [`kubestow run`](#kubestow-run).
"""

_VERBATIM: Final = "\b"
"""Begins a paragraph that Click does not wrap."""


def page() -> str:
    """Return the text of the page."""
    return "\n".join([_INTRODUCTION, *_command(root())])


def root() -> click.Context:
    """Return the context of the program, as of a call of it.

    Click keeps the help option that it makes in the first context of a command: without the
    settings of the program, `-h` would not exist any more in this process.
    """
    return click.Context(program, info_name="kubestow", **program.context_settings)


def _command(context: click.Context) -> Iterator[str]:
    """Yield the sections of a command, and of those below it."""
    command = context.command
    yield f"{'##' if context.command_path.count(' ') < 2 else '###'} {context.command_path}\n"
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    yield fence(usage)
    yield from _paragraphs(command.help or "")
    if isinstance(command, GroupedCommand):
        yield fence(command.examples)
        for group in (*command.groups, command.ignored):
            yield f"**{group.title}**\n"
            rows = [(cell(f"`{flag.usage()}`"), cell(flag.explanation())) for flag in group.flags]
            yield table(("flag", "meaning"), rows)
    else:
        options = [each for each in command.params if isinstance(each, click.Option)]
        records = [each.get_help_record(context) for each in options]
        rows = [(cell(f"`{record[0]}`"), cell(record[1])) for record in records if record]
        if rows:
            yield table(("option", "meaning"), rows)
    yield from _paragraphs(command.epilog or "")
    if isinstance(command, click.Group):
        below = [
            click.Context(found, parent=context, info_name=name)
            for name in command.list_commands(context)
            if (found := command.get_command(context, name)) and not found.hidden
        ]
        rows = [
            (f"[`{each.command_path}`](#{each.command_path.replace(' ', '-')})", _short(each))
            for each in below
        ]
        yield table(("command", "purpose"), rows)
        for each in below:
            yield from _command(each)


def _short(context: click.Context) -> str:
    return cell(context.command.get_short_help_str(limit=200))


def _paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs of a help text; what Click leaves unwrapped is a block of code."""
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(text.partition("\f")[0])):
        if paragraph.startswith(_VERBATIM):
            title, _, block = paragraph.removeprefix(_VERBATIM).strip("\n").partition("\n")
            if title.endswith(":") and not title.startswith(" "):
                yield prose(title) + "\n"
                yield fence(inspect.cleandoc(block))
            else:
                yield fence(f"{title}\n{block}")
        elif paragraph:
            yield prose(paragraph) + "\n"
