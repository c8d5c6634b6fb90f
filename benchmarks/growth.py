"""`python -m benchmarks.growth`: what a scheduling attempt costs, and how that grows.

In one process, without an API server: cycle time against nodes, placed pods and distinct
templates; preemption; queue events against pending pods; memory; many pods on many nodes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

import click
from rich.console import Console
from rich.table import Table

from benchmarks.growth_measures import (
    Figure,
    NotAsMeantError,
    apart,
    cycles,
    memory,
    placement,
    preemption,
    queue_events,
    quiet,
)
from benchmarks.growth_workloads import KINDS

SECTIONS: Final = ("memory", "cycles", "pods", "templates", "preemption", "queue", "placement")

Measure = Callable[[], Iterable[Figure]]


def _measures(  # noqa: C901 - a table of sections
    section: str, sizes: tuple[int, ...], repeat: int, seed: int, *, full: bool
) -> Iterator[Measure]:
    """The measurements of a section, cheapest first."""
    every, first = list(KINDS.values()), sizes[0]
    match section:
        case "memory":
            yield partial(apart, memory, nodes=first, pods=150_000 if full else 50_000)
            if full:
                yield partial(apart, memory, nodes=100_000, pods=1_000_000)
        case "cycles":
            for nodes in sizes:
                yield partial(
                    cycles, section, every, nodes=nodes, per_node=10, repeat=repeat, seed=seed
                )
        case "pods":
            for per_node in (10, 30):
                yield partial(
                    cycles, section, every, nodes=first, per_node=per_node, repeat=repeat, seed=seed
                )
        case "templates":
            some = [KINDS[name] for name in ("plain", "hard spread", "required anti-affinity")]
            for count in (1, 100, 1000, *((10_000,) if full else ())):
                # Three times as many pods are placed, of those with anti-affinity one on a host.
                kinds = some if 3 * count <= first else some[:2]
                yield partial(
                    cycles,
                    section,
                    kinds,
                    nodes=first,
                    per_node=2,
                    repeat=max(repeat, count),
                    templates=count,
                    seed=seed,
                )
        case "preemption":
            low = (20_000, 50_000) if full else (20_000,)
            for pods in low:
                yield partial(
                    preemption, nodes=first, low=pods, repeat=max(repeat // 5, 10), seed=seed
                )
        case "queue":
            for count in (0, 1000, 10_000, *((100_000, 1_000_000) if full else ())):
                yield partial(apart, queue_events, pending=count, nodes=1000, events=2000)
        case "placement":
            for count in (10_000, *((100_000,) if full else ())):
                yield partial(placement, nodes=first, pods=count, seed=seed)
                if count != first:
                    yield partial(placement, nodes=count, pods=count, seed=seed)


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option(
    "--only",
    "sections",
    multiple=True,
    type=click.Choice(SECTIONS),
    default=SECTIONS,
    help="What to measure; several are possible.",
)
@click.option(
    "--nodes",
    "sizes",
    multiple=True,
    type=click.IntRange(2),
    default=(5000, 15_000),
    help="Cluster sizes; the first one is used where only one is needed.",
)
@click.option("--repeat", type=click.IntRange(1), default=200, help="Attempts per figure.")
@click.option("--full", is_flag=True, help="Up to 100,000 nodes and 1,000,000 pods (many minutes).")
@click.option("--seed", default=1, help="Seed of ties and of what happens in between.")
@click.option("--json", "output", type=click.Path(path_type=Path), help="Write all figures here.")
def main(
    sections: tuple[str, ...],
    sizes: tuple[int, ...],
    repeat: int,
    full: bool,
    seed: int,
    output: Path | None,
) -> None:
    """Measure the engine in this process, without an API server.

    Times are CPU time. With --full also 1,000 and 100,000 nodes and the largest numbers of pods.
    """
    quiet()
    console, figures = Console(), []
    if full:
        sizes = tuple(dict.fromkeys((*sizes, 1000, 100_000)))
    for section in sections:
        found: list[Figure] = []
        with console.status(section):
            for measure in _measures(section, sizes, repeat, seed, full=full):
                try:
                    found.extend(measure())
                except NotAsMeantError as error:
                    raise click.ClickException(f"{section}: {error}") from error
        console.print(_table(section, found))
        figures += found
    if output is not None:
        document = [figure.as_json() for figure in figures]
        output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def _table(section: str, figures: Iterable[Figure]) -> Table:
    table = Table(title=section, title_justify="left")
    table.add_column("case")
    for column in ("nodes", "pods", "templates", "median", "p99", "unit"):
        table.add_column(column, justify="right")
    for each in figures:
        table.add_row(
            each.case,
            f"{each.nodes:,}",
            f"{each.pods:,}",
            f"{each.templates:,}",
            _number(each.value),
            "" if each.p99 is None else _number(each.p99),
            each.unit,
        )
    return table


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


if __name__ == "__main__":
    main()
