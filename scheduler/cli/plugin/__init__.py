"""`kubestow plugin`: begin a plugin, check it, and watch it decide."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any, Final

import click

from scheduler.cli.command_groups import SuggestingGroup
from scheduler.cli.plugin.scaffold import POINTS, Scaffold, ScaffoldError
from scheduler.cli.reporting import EXIT_FAILED
from scheduler.files import read_file, reason

NEW_HELP: Final = """\
Write the folder of a new plugin.

NAME has lower-case letters, digits and hyphens: rack-aware becomes the module rack_aware.py with
the class RackAware. The plugin works at once, and so do its tests; put your rule in the place of
the one in it.

\b
Examples:
  kubestow plugin new rack-aware
  kubestow plugin new rack-aware --point filter --point score --columnar
  cd rack-aware && pytest && kubestow plugin check rack_aware.py
"""
CHECK_HELP: Final = """\
Check the plugins in PATH on random clusters, and measure them.

PATH is a Python file or a folder, or FILE:CLASS. Every class with a `name` is loaded as `kubestow
run` loads it, then tried: hints that leave pods waiting, reservations that are not undone, wrong
scores, and more (docs/plugins.md, "Testing"). Labels and annotations that its source names occur in
the clusters.

Exits with 0 if no fault was found, 1 if one was.

\b
Examples:
  kubestow plugin check rack_aware.py
  kubestow plugin check rack_aware.py:RackAware --args '{"label": "rack"}' --budget 5
"""
TRY_HELP: Final = """\
Show what the plugin in PATH decides on the cluster of the demo.

Its 39 nodes get the labels that the plugin's source names, and a few pods have its labels and
annotations; --filename takes pods of your own. For each pod it shows how many nodes the plugin
rejects and why, its scores, and where the pod goes. The answer is shown anew whenever a Python file
in the folder is saved, until Ctrl-C; once only with --once, or in a pipe.

\b
Examples:
  kubestow plugin try rack_aware.py
  kubestow plugin try rack_aware.py -f pod.yaml --once
"""


@click.group("plugin", cls=SuggestingGroup, short_help="Begin, check and try plugins.")
def command() -> None:
    """Begin, check and try plugins of your own. docs/plugins.md describes how to write one."""


@command.command("new", help=NEW_HELP, short_help="Write the folder of a new plugin.")
@click.argument("name")
@click.option(
    "--point",
    "points",
    multiple=True,
    type=click.Choice(POINTS),
    help="Extension point to take part in; may be repeated.  [default: filter]",
)
@click.option("--columnar", is_flag=True, help="Filter and Score have a columnar form as well.")
@click.option(
    "--folder", type=click.Path(path_type=Path), help="Where to write it.  [default: ./NAME]"
)
def new(*, name: str, points: tuple[str, ...], columnar: bool, folder: Path | None) -> None:
    """Write the files, and say what to do with them."""
    try:
        scaffold = Scaffold(name, points or ("filter",), columnar=columnar)
        written = scaffold.write(folder or Path(name))
    except ScaffoldError as error:
        raise click.BadParameter(str(error)) from error
    for each in written:
        click.echo(f"  {each}")
    where = folder or Path(name)
    if importlib.util.find_spec("pytest") is None:
        click.echo("Its tests need pytest: pip install pytest")
    click.echo(f"Next: cd {where} && pytest && kubestow plugin try {scaffold.module}.py")


def _arguments(_: click.Context, __: click.Parameter, text: str | None) -> dict[str, Any] | None:
    """Decode `--args`: JSON, or the name of a file with JSON or YAML."""
    import yaml

    if text is None:
        return None
    try:
        inline = text.lstrip().startswith(("{", "["))
        content = text if inline else read_file(text, pipes=True).decode()
        found = yaml.safe_load(content)
    except OSError as error:
        raise click.BadParameter(f"{text}: {error.strerror}") from error
    except (UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise click.BadParameter(str(error)) from error
    if not isinstance(found, dict):
        raise click.BadParameter(f'{text!r} is no mapping; write \'{{"label": "rack"}}\'')
    return found


def _objects(_: click.Context, __: click.Parameter, path: Path | None) -> list[dict[str, Any]]:
    """Read `--objects`: one or many manifests in YAML or JSON."""
    import yaml

    from scheduler.sanitizing.yaml_limits import check_limits

    if path is None:
        return []
    try:
        text = read_file(path, pipes=True)
        check_limits(text)
        found = [each for each in yaml.safe_load_all(text) if each is not None]
    except (OSError, yaml.YAMLError, ValueError, RecursionError) as error:
        raise click.BadParameter(f"{path.name}: {reason(error)}") from error
    for each in found:
        metadata = each.get("metadata") if isinstance(each, dict) else None
        named = isinstance(metadata, dict) and isinstance(metadata.get("name"), str)
        if not named or not all(isinstance(each.get(key), str) for key in ("apiVersion", "kind")):
            raise click.BadParameter(f"{path.name}: no manifest, with kind and name: {each!r:.60}")
    return found


_args_option = click.option(
    "--args", callback=_arguments, metavar="JSON", help="Arguments of the plugin, or their file."
)


@command.command("check", help=CHECK_HELP, short_help="Check and measure plugins.")
@click.argument("path")
@_args_option
@click.option("--key", "keys", multiple=True, help="Label or annotation that the plugin reads.")
@click.option(
    "--objects",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    callback=_objects,
    help="Manifests of other objects that the plugin reads, such as custom resources.",
)
@click.option("--clusters", type=click.IntRange(1, 1000), default=20, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True, help="Of the random clusters.")
@click.option(
    "--budget",
    type=click.FloatRange(0),
    metavar="MICROSECONDS",
    help="Fail if Filter or Score takes longer for a node.",
)
@click.option(
    "--output", "-o", type=click.Choice(["text", "json"]), default="text", show_default=True
)
def check(*, path: str, output: str, **options: Any) -> None:
    """Check each class, print the reports, and exit with 1 if there is a fault."""
    from scheduler.cli.plugin.sources import PluginSource
    from scheduler.testing import WorldError
    from scheduler.testing.examination import examine_plugin

    try:
        reports = [examine_plugin(each, **options) for each in PluginSource.of(path).load()]
    except WorldError as error:
        raise click.BadParameter(str(error), param_hint="'--objects'") from error
    if output == "json":
        click.echo(json.dumps([each.to_data() for each in reports], indent=2))
    else:
        from scheduler.cli.plugin.report import show_report

        for each in reports:
            show_report(each)
    if any(each.problems for each in reports):
        raise SystemExit(EXIT_FAILED)


@command.command("try", help=TRY_HELP, short_help="Watch a plugin decide on the demo cluster.")
@click.argument("path")
@_args_option
@click.option(
    "--filename",
    "-f",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Manifests of pods, Deployments or Jobs to place; read anew each time.",
)
@click.option("--once", is_flag=True, help="Show it once, and do not watch the folder.")
def try_(*, path: str, args: dict[str, Any] | None, file: Path | None, once: bool) -> None:
    """Show the decisions, and again after each change of a file."""
    from scheduler.cli.plugin.sources import PluginSource
    from scheduler.cli.plugin.trying import show_once, watch

    source = PluginSource.of(path)
    if once or not sys.stdout.isatty():
        show_once(source, args, file)
    else:
        watch(source, args, file)
