"""The entry point: find the command, run it, and turn errors into text and an exit code.

Commands are imported when they are called, so that `--help` and shell completion stay quick. Under
the program name kube-scheduler the command line is that of `kubestow run`; kubectl finds the
program as kubectl-kubestow.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

import click
from click.shell_completion import CompletionItem

from scheduler.cli.command_groups import SuggestingGroup
from scheduler.cli.import_without import import_without
from scheduler.cli.kubectl_plugin import COMPLETION, PLUGIN, PROGRAM_NAME, completions
from scheduler.cli.reporting import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    report_crashes,
    report_problems,
    show,
)
from scheduler.cli.version import version_option

INTRODUCTION: Final = """\
A secondary Kubernetes scheduler: fast, and extended by small typed Python plugins.

Set schedulerName: kubestow on a pod, run `kubestow run` against the cluster, and the pod is placed
as kube-scheduler would place it. No cluster at hand? `kubestow demo` brings its own.
"""

EXAMPLES: Final = """\
\b
Examples:
  kubestow demo                                  watch it schedule a small cluster, 15 s
  kubestow run --leader-elect=false              schedule the one of your kubeconfig
  kubestow config validate profile.yaml          check a configuration
  kubestow explain deployment/web -n shop        say why its pods wait, and what would help
  kubestow apiserver --kubeconfig-out kc.yaml    an API server to try things on
"""


KUBE_SCHEDULER: Final = "kube-scheduler"
"""The other name of this program, in container images."""


SIMULATOR: Final = "simulator"
NO_SIMULATOR: Final = (
    "this command needs the simulator, which the image lacks: run it from the wheel"
)


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """A command that is not imported yet: `command` in `module`."""

    module: str
    short_help: str

    @property
    def exists(self) -> bool:
        """Whether the module is part of this version."""
        return importlib.util.find_spec(self.module) is not None

    def load(self) -> click.Command:
        """Import the command."""
        with import_without():
            command = importlib.import_module(self.module).command
        assert isinstance(command, click.Command)
        return command


GROUPS: Final = {
    "Use": {
        "run": "Run the scheduler.",
        "demo": "Watch it schedule a cluster of its own.",
        "config": "Check and print configurations.",
        "check": "Check what kubestow may do in a cluster.",
        "quota": "Show and set quotas that count scheduled pods.",
    },
    "Understand": {
        "explain": "Show why a pod is where it is.",
        "queue": "Show which pods wait, and why.",
        "gangs": "Show pod groups, and why they wait.",
        "top": "Watch queue, rates and nodes on a live screen.",
        "ui": "Show the scheduler in the browser.",
        "whatif": "Say whether a pod would fit after a change.",
    },
    "Plan": {
        "shadow": "Compare with the scheduler in force, read-only.",
        "simulate": "Schedule a copy of a cluster, plan capacity.",
        "apiserver": "Serve an API server for experiments.",
    },
    "Extend": {
        "plugin": "Begin, check and try plugins.",
    },
    "Support": {
        "bundle": "Write state and decisions to one file.",
        "record": "Record decisions, to be replayed.",
        "replay": "Decide again what a file remembers.",
        "version": "Show the version.",
    },
}
"""Each command and what it does, in the order of the help."""

COMMANDS: Final = {
    name: LazyCommand(f"scheduler.cli.{name}", short_help)
    for group in GROUPS.values()
    for name, short_help in group.items()
}


class LazyGroup(SuggestingGroup):
    """The group of `COMMANDS`, each imported when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands that exist."""
        return [name for name, entry in COMMANDS.items() if entry.exists]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        entry = COMMANDS.get(cmd_name)
        return entry.load() if entry is not None and entry.exists else None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete commands without importing them, and options."""
        found = [
            CompletionItem(name, help=COMMANDS[name].short_help)
            for name in self.list_commands(ctx)
            if name.startswith(incomplete)
        ]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        longest = max(map(len, COMMANDS))
        for group, commands in GROUPS.items():
            rows = [
                # The same distance in every group.
                (name.ljust(longest), short_help)
                for name, short_help in commands.items()
                if COMMANDS[name].exists
            ]
            if rows:
                with formatter.section(group):
                    formatter.write_dl(rows)


program = LazyGroup(
    name="kubestow",
    help=INTRODUCTION,
    epilog=EXAMPLES,
    params=[version_option()],
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    subcommand_metavar="COMMAND [ARGS]...",
    no_args_is_help=True,
)


def _run(command: click.Command, arguments: list[str], name: str) -> NoReturn:
    """Run a command as Click does, but exit silently, with a shell's status, after Ctrl-C."""
    try:
        status = command.main(args=arguments, prog_name=name, standalone_mode=False)
    except click.ClickException as error:
        show(error)
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(EXIT_INTERRUPTED)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != SIMULATOR:
            raise
        show(click.ClickException(NO_SIMULATOR))
        sys.exit(EXIT_FAILED)
    # The status of `ctx.exit()`, or the return value of the command.
    sys.exit(status if isinstance(status, int) else 0)


def main(arguments: Sequence[str] | None = None, name: str | None = None) -> NoReturn:
    """Run a command line and exit.

    Args:
        arguments: without the program's name; default: those of the process.
        name: the program's name; `kube-scheduler` means `kubestow run`. Default: from `sys.argv`.
    """
    # NumPy's OpenBLAS would start a thread for each core when it is loaded, in a fifth of the
    # start-up time, and the scheduler multiplies no matrices.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    report_crashes()
    given = sys.argv[1:] if arguments is None else list(arguments)
    called = Path(sys.argv[0]).name if name is None else name
    try:
        if called == KUBE_SCHEDULER:
            _run(COMMANDS["run"].load(), given, KUBE_SCHEDULER)
        if called == COMPLETION:
            for line in completions(program, given):
                click.echo(line)
            sys.exit(0)
        _run(program, given, PROGRAM_NAME if called == PLUGIN else "kubestow")
    except ValueError as error:
        # Imported here because it imports NumPy, a third of the time of `--help`.
        from scheduler.explain.records.wording import counted
        from scheduler.framework.status import ConfigurationError

        if not isinstance(error, ConfigurationError):
            raise
        title = f"Error: {counted(len(error.problems), 'problem')} with the configuration"
        report_problems(title, error.problems)
        sys.exit(EXIT_FAILED)
