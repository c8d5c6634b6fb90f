"""`kubestow simulate`: schedule a copy of a cluster in this process, and ask about its capacity."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import click

from scheduler.cli.exit_codes import (
    BAD_INPUT,
    DOES_NOT_FIT,
    OTHER_ERROR,
    UNUSABLE_BUNDLE,
    CommandError,
)
from scheduler.cli.modes import ModalCommand
from scheduler.cli.pod_format import one_line

if TYPE_CHECKING:
    from scheduler.offline.experiment import Simulation

HELP: Final = """\
Simulate a copy of a cluster, in this process and in virtual time.

DUMP is a file or folder of YAML or JSON, as `kubectl get -o json` prints it, a bundle, or - for
standard input. Nothing is changed in any cluster. Without further options the pods that wait are
scheduled, and the answer is who goes where, and who waits why. With --workload pods arrive, run
and end. With --compare the same happens under another configuration, and the answer is what
differs, and why.

Without --config every pod counts as one of the default profile, whatever its schedulerName; with
it only the pods of its profiles are scheduled, unless --adopt is given. A bundle has a
configuration, and what a recording has of changes that others made happens at the recorded times.

\b
Questions about capacity, one at a time:
  --how-many-fit FILE    how many pods like this one fit beside what is there
  --nodes-needed NODE    how many more nodes like this one let every pod fit
  --consolidate          which nodes could be emptied, one after the other

Many runs:
  --sweep FILE           policies x seeds x workloads, see docs/sweeps.md

Exit code: 0 the answer is yes: every pod has a node or every assertion holds, a copy fits, a node
can be emptied; 3 it is no, or a run failed; 2 bad input, or an option that the question does not
use; 8 the bundle cannot be used.

\b
Examples:
  kubectl get nodes,ns,pods,pvc,pv,sc,csinodes,pdb,limits,pc,runtimeclass -A -o json > cluster.json
  kubestow simulate cluster.json
  kubestow simulate cluster.json --drop-node zone=a --assert 'waiting == 0'
  kubestow simulate cluster.json --config old.yaml --compare new.yaml
  kubestow simulate nodes.json --workload jobs.csv --template job.yaml --seeds 0-9 -o json
  kubestow simulate cluster.json --how-many-fit pod.yaml
  kubestow simulate cluster.json --nodes-needed node-7
"""

NO_DUMP: Final = (
    "name the copy of a cluster, DUMP: write one with `kubectl get nodes,pods -A -o json > "
    "cluster.json`, and see --help for what else belongs in it"
)


def _standard_input(
    _ctx: click.Context, _parameter: click.Parameter, dumps: tuple[str, ...]
) -> tuple[str, ...]:
    return tuple("/dev/stdin" if each == "-" else each for each in dumps)


@click.command(
    "simulate",
    cls=ModalCommand,
    help=HELP,
    short_help="Schedule a copy of a cluster, plan capacity.",
)
@click.argument("dumps", nargs=-1, metavar="DUMP...",
                type=click.Path(exists=True, allow_dash=True),
                callback=_standard_input)  # fmt: skip
@click.option("--config", metavar="FILE", type=click.Path(exists=True, dir_okay=False),
              help="A KubeSchedulerConfiguration, in place of the default one.")  # fmt: skip
@click.option("--plugin-dir", "plugin_dirs", multiple=True, metavar="DIR",
              type=click.Path(exists=True, file_okay=False),
              help="Folder with third-party plugins; may be repeated.")  # fmt: skip
@click.option("--plugin-timeout", metavar="TIME", default="60s", show_default=True,
              help="Real time after which a call of a third-party plugin that has not returned "
              "ends its run.")  # fmt: skip
@click.option("--adopt/--no-adopt", default=None,
              help="Treat every pod as one of the first profile.")  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True,
              help="Breaks ties between nodes that score the same.")  # fmt: skip
@click.option("--seeds", metavar="A-B",
              help="Run each of these seeds; figures are means and deviations.")  # fmt: skip
@click.option("--compare", multiple=True, metavar="FILE",
              type=click.Path(exists=True, dir_okay=False),
              help="Run the same under this configuration too, and show what differs; may be "
              "repeated.")  # fmt: skip
@click.option("--workload", metavar="FILE", type=click.Path(exists=True, dir_okay=False),
              help="Pods that arrive: CSV or JSONL with arrival, duration, template and count; a "
              "pod list in the openb format; or YAML of a generator.")  # fmt: skip
@click.option("--template", "templates", multiple=True, metavar="FILE",
              type=click.Path(exists=True, dir_okay=False),
              help="Pods, or controllers with a pod template, that the workload names; may be "
              "repeated.")  # fmt: skip
@click.option("--until", metavar="TIME",
              help="Let so much virtual time pass, such as 90s or 1.5h. Without it, until nothing "
              "is on its way.")  # fmt: skip
@click.option("--add-node", multiple=True, metavar="SPEC",
              help="Add nodes, such as cpu=16,memory=64Gi,label.zone=b,count=3 or like=node-7; may "
              "be repeated. Without like they have cpu=4,memory=16Gi,pods=110 unless they say "
              "otherwise.")  # fmt: skip
@click.option("--drop-node", multiple=True, metavar="SEL",
              help="Remove nodes by name, pattern (gpu-*) or labels (zone=a); their pods wait "
              "anew.")  # fmt: skip
@click.option("--cordon", multiple=True, metavar="SEL",
              help="Make nodes unschedulable, selected in the same way.")  # fmt: skip
@click.option("--assert", "assertions", multiple=True, metavar="EXPR",
              help="Must hold, such as 'waiting == 0 and wait_p90 < 60'; may be repeated. See "
              "docs/simulate-reference.md for the figures.")  # fmt: skip
@click.option("--how-many-fit", metavar="FILE",
              type=click.Path(exists=True, dir_okay=False, allow_dash=True),
              help="Count the copies of this pod, or of the pods of this controller, that fit. "
              "What waits is scheduled first.")  # fmt: skip
@click.option("--nodes-needed", metavar="NODE",
              help="A file with a manifest, or the name of a node of the dump: find the smallest "
              "number of such nodes that lets every pod fit without evicting one. Nodes like one "
              "of the dump have the DaemonSet pods that it has.")  # fmt: skip
@click.option("--max-nodes", type=click.IntRange(0, 100_000), default=5000, show_default=True,
              help="The most nodes to add.")  # fmt: skip
@click.option("--consolidate", is_flag=True,
              help="Find nodes whose pods have room elsewhere, and say of the others why they are "
              "kept.")  # fmt: skip
@click.option("--force", is_flag=True,
              help="Move pods without a controller, too, as `kubectl drain` "
              "does.")  # fmt: skip
@click.option("--delete-emptydir-data", is_flag=True,
              help="Move pods with volumes emptyDir or hostPath, too; the "
              "data are lost.")  # fmt: skip
@click.option("--sweep", metavar="FILE", type=click.Path(exists=True, dir_okay=False),
              help="Run policies, seeds and workloads as the file says; it names the dumps, too. "
              "Finished runs are not repeated.")  # fmt: skip
@click.option("--results", metavar="DIR", default="results", show_default=True,
              type=click.Path(file_okay=False),
              help="The folder of the results, a file for each run.")  # fmt: skip
@click.option("--processes", type=click.IntRange(0, 1024),
              help="Processes of this machine. By default one for each core; 0 "
              "runs everything in one process.")  # fmt: skip
@click.option("--dask", metavar="ADDRESS", default="",
              help="The scheduler of a Dask cluster, tcp://HOST:PORT, in place of "
              "local processes.")  # fmt: skip
@click.option("--report", metavar="FILE", type=click.Path(dir_okay=False),
              help="Write an HTML page with plots, too; needs matplotlib.")  # fmt: skip
@click.option("--junit", metavar="FILE", type=click.Path(dir_okay=False),
              help="Write the outcome of the assertions as JUnit XML, too, for CI.")  # fmt: skip
@click.option("--output", "-o", default="table",
              type=click.Choice(["table", "json", "jsonl", "csv"]), show_default=True,
              help="How to print the answer; jsonl and csv are for a run only.")  # fmt: skip
@click.pass_context
def command(ctx: click.Context, /, *, dumps: tuple[str, ...], output: str, **asked: Any) -> None:
    """Simulate."""
    from scheduler.cli import capacity, simulation, simulation_output

    if asked["sweep"]:
        if dumps:
            raise click.UsageError("the file of --sweep names the dumps; give no others")
        from scheduler.cli import sweep

        if not sweep.run(asked["sweep"], asked, repeated(ctx), as_json=output == "json"):
            sys.exit(DOES_NOT_FIT)
        return
    if not dumps:
        raise click.UsageError(NO_DUMP)
    questions = [name for name in capacity.QUESTIONS if asked[name] not in (None, False)]
    with errors():
        from scheduler.offline.experiment import Simulation

        if asked["report"]:
            simulation_output.refuse_report_without_plots()
        simulation.parsed(asked["assertions"])
        seeds = simulation.seeds_of(asked)
        prepared = Simulation(simulation.scenario(dumps, asked))
        if questions:
            good = _asked(questions[0], prepared, seeds[0], asked, output)
        else:
            found = simulation.simulate(prepared, asked)
            simulation_output.echo_notes(found)
            if asked["report"]:
                configs = simulation.named((asked["config"], *asked["compare"]))
                simulation_output.write_report(asked["report"], found, configs, repeated(ctx))
                click.echo(f"the report is in {one_line(asked['report'])}", err=True)
            if asked["junit"]:
                simulation_output.write_junit(asked["junit"], found.runs, found.assertions)
            simulation_output.echo(found, output)
            good = found.good
    if not good:
        sys.exit(DOES_NOT_FIT)


def repeated(ctx: click.Context) -> list[str]:
    """Return the command line that repeats this one."""
    return ["kubestow", "simulate", *ctx.params["dumps"], *given(ctx)]


def given(ctx: click.Context) -> list[str]:
    """Return the options that were given, as words of a command line."""
    words: list[str] = []
    for each in ctx.command.params:
        value = ctx.params.get(each.name or "")
        if (
            isinstance(each, click.Option)
            and value != each.get_default(ctx)
            and value not in ((), None)
        ):
            option = (
                each.secondary_opts[0] if value is False and each.secondary_opts else each.opts[0]
            )
            for one in value if isinstance(value, tuple) else (value,):
                words += [option] if isinstance(one, bool) else [option, str(one)]
    return words


def _asked(
    question: str, prepared: Simulation, seed: int, asked: dict[str, Any], output: str
) -> bool:
    from scheduler.cli import capacity

    with prepared.world(asked["config"], seed) as world:
        for text in world.notes:
            click.echo(one_line(text), err=True)
        good = capacity.answer(question, world, asked, as_json=output == "json")
        if world.filled:
            click.echo(one_line(world.filled), err=True)
        return good


@contextmanager
def errors() -> Iterator[None]:
    """End the command with the exit code of the error."""
    from scheduler.framework.status import ConfigurationError
    from scheduler.offline import WorldError
    from scheduler.recording.format import BundleError

    try:
        yield
    except BundleError as error:
        raise CommandError(one_line(str(error)), UNUSABLE_BUNDLE) from error
    except (ConfigurationError, WorldError) as error:
        text = "\n".join(one_line(line) for line in str(error).splitlines())
        raise CommandError(text, BAD_INPUT) from error
    except RecursionError as error:
        raise CommandError("a file nests too deeply", BAD_INPUT) from error
    except MemoryError as error:
        raise CommandError("not enough memory for these files", OTHER_ERROR) from error
