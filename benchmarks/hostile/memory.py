"""`python -m benchmarks.hostile.memory`: what hostile pods that came and went leave in memory."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click
import msgspec
from rich.console import Console

from benchmarks.hostile.measuring import Session, of, resident
from benchmarks.measure import peak_memory
from benchmarks.schedulers import OURS, SCHEDULERS
from devtools.control_plane.binaries import Binaries, BinariesMissingError
from devtools.control_plane.control_plane import ApiServerOptions, ControlPlane, ManagedProcess
from devtools.control_plane.inspecting import Inspector
from devtools.hostile.catalogue import CASES, HostileCase
from devtools.hostile.sending import HostileSender
from devtools.hostile.templates import pod
from scheduler.process.memory_upkeep import PERIOD_SECONDS

DEFAULT_CASES: Final = (
    "pods-own-anti-affinity",
    "pods-own-node-affinity",
    *(name for name in CASES if name.startswith("pods-large-")),
)
MEBIBYTE: Final = 1 << 20


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """Memory of the scheduler after some pods came, and after they went. MiB."""

    case: str
    nodes: int
    #: Hostile pods created so far.
    pods: int
    #: With the pods of this round, and of all before if none are deleted.
    live: float
    #: After they were deleted; the same as `live` if they were not.
    left: float
    #: Since the scheduler's start.
    peak: float
    #: How much more `left` is than what there was before the first pod.
    growth: float
    #: What the scheduler's own statistics account for, by owner, while they were there.
    accounted_live: dict[str, float]
    #: The same after they were deleted.
    accounted_left: dict[str, float]


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--case", "names", multiple=True, metavar="NAME", help="Which.  [default: several]")
@click.option("--nodes", default=500, help="How many nodes there are.")
@click.option("--pods", default=1_000, help="How many hostile pods come in all.")
@click.option("--at-once", default=50, help="How many of them at once.")
@click.option("--keep", is_flag=True, help="Delete none of them.")
@click.option("--share", default=1.0, help="Of the full size of a hostile pod.")
@click.option("--patience", default=120.0, help="Seconds to wait until all is quiet.")
@click.option("--json", "output", type=click.Path(path_type=Path), help="Write everything here.")
def main(
    names: tuple[str, ...],
    nodes: int,
    pods: int,
    at_once: int,
    keep: bool,
    share: float,
    patience: float,
    output: Path | None,
) -> None:
    """Measure the memory of kubestow while hostile pods come and go, on a real control plane.

    Needs the binaries of `make envtest-build`. Each case has a control plane and a scheduler of
    its own, for etcd keeps what was deleted for minutes.

    \b
    Examples:
      python -m benchmarks.hostile.memory
      python -m benchmarks.hostile.memory --nodes 5000 --pods 200 --keep --case pods-large-labels
    """  # noqa: D301 - click wants the character itself
    console = Console(width=160)
    unknown = [name for name in names if name not in CASES or CASES[name].plural != "pods"]
    if unknown:
        raise click.UsageError(f"no case {unknown[0]!r} of pods")
    try:
        Binaries.find()
    except BinariesMissingError as error:
        raise click.ClickException(str(error)) from None
    rounds: list[Round] = []
    for name in names or DEFAULT_CASES:
        case = CASES[name]
        size = max(1, int(case.full * share))
        for each in measure(case, size, nodes, pods, at_once, keep=keep, patience=patience):
            rounds.append(each)
            console.print(line(each), highlight=False, soft_wrap=True)
            if output is not None:
                output.write_bytes(msgspec.json.encode(rounds) + b"\n")


def measure(
    case: HostileCase,
    size: int,
    nodes: int,
    pods: int,
    at_once: int,
    *,
    keep: bool,
    patience: float,
) -> Iterator[Round]:
    """One scheduler, and pods in rounds."""
    contender = SCHEDULERS[OURS]
    options = ApiServerOptions(
        disabled_admission_plugins=("ServiceAccount", "TaintNodesByCondition", "Priority")
    )
    with ControlPlane(options=options) as control_plane:
        session = Session(control_plane, nodes, patience)
        scheduler = contender.start(control_plane)
        inspector = Inspector(scheduler, control_plane)
        with HostileSender(control_plane) as sender:
            # The first pod makes it allocate what it needs anyway.
            ordinary = pod("first", scheduler_name=contender.scheduler_name)
            sender.create_all([ordinary, *case.beside(size, 0)])
        session.until_quiet(scheduler)
        start = resident(scheduler.pid)
        for first in range(0, pods, at_once):
            serials = range(first, min(first + at_once, pods))
            session.create(of(contender, case.object(size, serial)) for serial in serials)
            _settle(session, scheduler)
            live, accounted_live = resident(scheduler.pid), accounted(inspector)
            if not keep:
                session.clear()
                _settle(session, scheduler)
            left = resident(scheduler.pid)
            yield Round(
                case=case.name,
                nodes=nodes,
                pods=serials.stop,
                live=live,
                left=left,
                peak=peak_memory(scheduler.pid),
                growth=left - start,
                accounted_live=accounted_live,
                accounted_left=accounted(inspector),
            )


def _settle(session: Session, scheduler: ManagedProcess) -> None:
    """Wait until the scheduler is idle, and has returned to the system what it returns."""
    session.until_quiet(scheduler)
    time.sleep(PERIOD_SECONDS)


def accounted(inspector: Inspector) -> dict[str, float]:
    """Return the memory that a running scheduler's statistics account for, MiB."""
    statistics: dict[str, Any] = json.loads(inspector.get("/debug/statistics"))
    signatures = statistics["signatures"]
    found = {
        "signatures": signatures["bytes"],
        "unpacked": signatures["unpacked_bytes"],
        "labels": signatures.get("label_bytes", 0),
        "selectors": statistics["selectors"]["bytes"],
        "terms": statistics["terms"]["bytes"],
        "results": sum(each["bytes"] for each in statistics["engine"]["reuse"].values()),
    }
    return {name: round(value / MEBIBYTE, 1) for name, value in found.items()}


def line(each: Round) -> str:
    """A round in one line."""
    return (
        f"{each.case} {each.nodes} nodes, {each.pods} pods: live {each.live:.0f} MiB"
        f" (accounted {_sum(each.accounted_live)}), left {each.left:.0f} MiB, "
        f"{each.growth:+.0f} since the start (accounted {_sum(each.accounted_left)}), "
        f"peak {each.peak:.0f} MiB"
    )


def _sum(values: dict[str, float]) -> str:
    parts = ", ".join(f"{name} {value:.1f}" for name, value in values.items() if value)
    return f"{sum(values.values()):.1f}: {parts}"


if __name__ == "__main__":
    main()
