"""`python -m benchmarks.hostile`: hostile pods, and what they do to schedulers side by side."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click
import msgspec
from rich.console import Console

from benchmarks.hostile.measuring import Measured, Session
from benchmarks.hostile.reporting import beyond, markdown, table
from benchmarks.report import machine
from benchmarks.schedulers import SCHEDULERS
from devtools.control_plane.binaries import Binaries, BinariesMissingError
from devtools.control_plane.control_plane import ApiServerOptions, ControlPlane
from devtools.hostile.catalogue import CASES, WORST, HostileCase

MAX_BLOCK: Final = 0.1
MAX_DELAY: Final = 1.0
MAX_LEFT: Final = 100.0


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--case", "names", multiple=True, metavar="NAME", help="Which.  [default: the worst]")
@click.option("--nodes", default=5_000, help="How many nodes there are.")
@click.option("--pods", default=100, help="How many hostile pods come at once.")
@click.option("--share", default=1.0, help="Of the full size of a hostile pod.")
@click.option(
    "--contender",
    "labels",
    multiple=True,
    type=click.Choice(sorted(SCHEDULERS)),
    default=("kubestow", "kube-scheduler"),
    help="Which schedulers to run, in turn.",
)
@click.option(
    "--patience", default=120.0, help="Seconds to wait for a pod, and until all is quiet."
)
@click.option("--json", "output", type=click.Path(path_type=Path), help="Write everything here.")
@click.option("--list", "listing", is_flag=True, help="List all cases of pods.")
def main(
    names: tuple[str, ...],
    nodes: int,
    pods: int,
    share: float,
    labels: tuple[str, ...],
    patience: float,
    output: Path | None,
    listing: bool,
) -> None:
    """Measure what hostile pods do to schedulers, on a real etcd and kube-apiserver.

    Needs the binaries of `make envtest-build`. For each case and scheduler: the longest wait for
    /livez, which is the longest block of kubestow's event loop; when a watch delivers an ordinary
    pod of another namespace behind the hostile ones, and how much later it is bound; memory at the
    most, and after all were deleted.

    \b
    Examples:
      python -m benchmarks.hostile
      python -m benchmarks.hostile --nodes 500 --pods 20 --case pods-resource-names
    """  # noqa: D301 - click wants the character itself
    console = Console(width=None if sys.stdout.isatty() else 160)
    if listing:
        for case in _pods():
            console.print(f"{case.name}: {case.full} {case.unit}", highlight=False)
        return
    cases = _chosen(names)
    try:
        Binaries.find()
    except BinariesMissingError as error:
        raise click.ClickException(str(error)) from None
    options = ApiServerOptions(
        disabled_admission_plugins=("ServiceAccount", "TaintNodesByCondition", "Priority")
    )
    results: list[Measured] = []
    with ControlPlane(options=options) as control_plane:
        with console.status(f"creating {nodes} nodes"):
            session = Session(control_plane, nodes, patience)
        for case in cases:
            size = max(1, int(case.full * share))
            for label in labels:
                with console.status(f"{case.name}: {label}"):
                    results.append(session.run(case, SCHEDULERS[label], pods, size))
                if output is not None:
                    output.write_bytes(msgspec.json.encode(results) + b"\n")
                console.print(markdown(results[-1:]).splitlines()[-1], highlight=False)
    title = f"{datetime.now(UTC):%Y-%m-%d %H:%M UTC}, {machine()}, {nodes} nodes"
    console.print(table(results, title))
    console.print(f"\n{title}\n\n{markdown(results)}\n", highlight=False, soft_wrap=True)
    for text in beyond(results, block=MAX_BLOCK, delay=MAX_DELAY, left=MAX_LEFT):
        console.print(f"beyond the limit: {text}", style="yellow", highlight=False)


def _pods() -> list[HostileCase]:
    return [case for case in CASES.values() if case.plural == "pods"]


def _chosen(names: tuple[str, ...]) -> list[HostileCase]:
    known = {case.name: case for case in _pods()}
    for name in names:
        if name not in known:
            raise click.UsageError(f"no case {name!r}; `--list` shows all")
    return [known[name] for name in names] or list(WORST)


if __name__ == "__main__":
    main()
