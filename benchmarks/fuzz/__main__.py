"""`python -m benchmarks.fuzz`: hold every decision of kube-scheduler against ours.

Worlds are drawn from seeds and created on a real API server. Pods come in one after the other;
kube-scheduler decides about each behind a proxy that lets it change nothing, and our engine decides
about the same objects, as the API server stored them. Verdict, chosen node, every plugin's weighted
score on every node, the FailedScheduling message to the letter, nominated node and victims must
agree. A difference is tried once more, made small, and printed as YAML.
"""

from __future__ import annotations

import asyncio
import copy
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import click
import yaml
from rich.console import Console
from rich.table import Table

from benchmarks.fuzz.comparing import differences, ours, own_differences, vector
from benchmarks.fuzz.kube_scheduler import KubeScheduler, kube_scheduler
from benchmarks.fuzz.profiles import for_kubestow, only, own_name, profiles
from benchmarks.fuzz.setup import Setup
from benchmarks.fuzz.shrinking import readable, shrink
from benchmarks.fuzz.worlds import CROSSED, FAMILIES, MutatedWorld, World, change, drawn
from devtools.conformance.reading import VECTORS

Object = dict[str, Any]

_SETTLE_SECONDS: Final = 0.3
"""For kube-scheduler's many watches to have seen the new world."""
_AGAIN_SECONDS: Final = 1.0
_MAX_NOMINATION_ROUNDS: Final = 10


@dataclass(slots=True)
class Found:
    """A difference that showed twice."""

    family: str
    seed: int
    lines: tuple[str, ...]
    given: Object


@dataclass(slots=True)
class Report:
    """Counts of comparisons, by family."""

    compared: Counter[str] = field(default_factory=Counter)
    scheduled: Counter[str] = field(default_factory=Counter)
    nominated: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    found: list[Found] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)


class Fuzzer:
    """Runs worlds on one control plane."""

    def __init__(
        self,
        kube_scheduler: KubeScheduler,
        configured: list[Object],
        console: Console,
        tries: int,
        *,
        process: bool,
    ) -> None:
        self._kube_scheduler = kube_scheduler
        self._process = process
        self._tries = tries
        self._setup = Setup(kube_scheduler.proxy)
        self._profiles = configured
        self._console = console
        self._nominees: set[tuple[str, str]] = set()
        self.report = Report()

    async def prepare(self) -> None:
        """Once per control plane."""
        await self._setup.prepare()

    async def run(self, family: str, seed: int, world: World) -> None:
        """Let every pod of a world come in."""
        objects = await self._setup.set_up(world.objects)
        for each in self._setup.refused:
            self.report.refused[family] += 1
            self.report.reasons[each[:500]] += 1
        await asyncio.sleep(_SETTLE_SECONDS)
        before = len(self.report.found)
        self._nominees.clear()
        self._kube_scheduler.nominations.clear()
        try:
            for pod in world.nominees:
                await self._nominate(pod)
            if world.nominees:
                objects = await self._with_nominations()
            for pod in world.incoming:
                if world.changes is not None and world.changes.chance(0.5):
                    objects = await self._setup.apply(*change(world.changes, objects))
                    await asyncio.sleep(_SETTLE_SECONDS)
                await self._compare(family, seed, objects, pod)
        finally:
            await self._setup.clear()
        alone = world.changes is None and not world.nominees
        for first in self.report.found[before : before + 1] if alone else ():
            first.given = await self._smaller(world, first)

    async def _nominate(self, pod: Object) -> None:
        """Keep a pod for which kube-scheduler nominates a node, as if its victims were leaving."""
        try:
            stored, verdict = await self._kube_scheduler.decide(pod, keep=True)
        except RuntimeError as error:
            self.report.refused["nominated"] += 1
            self.report.reasons[str(error)[:500]] += 1
            return
        if verdict.nominated:
            self._nominees.add((stored["metadata"]["namespace"], stored["metadata"]["name"]))
        await self._write_nominations()

    async def _with_nominations(self) -> Object:
        """Write nominations until kube-scheduler adds none, and return all objects.

        A pod that loses its nomination is tried again at once, and may be nominated elsewhere.
        """
        for _ in range(_MAX_NOMINATION_ROUNDS):
            await self._write_nominations()
            await asyncio.sleep(_SETTLE_SECONDS)
            if not self._kube_scheduler.nominations:
                break
        return await self._setup.stored()

    async def _write_nominations(self) -> None:
        """Do what kube-scheduler wanted: a pod may lose its node to a more important one."""
        wanted = dict(self._kube_scheduler.nominations)
        # Before the first write: each may make kube-scheduler nominate another node.
        self._kube_scheduler.nominations.clear()
        for (space, name), node in wanted.items():
            if (space, name) in self._nominees:
                await self._setup.nominate(space, name, node)

    async def _compare(self, family: str, seed: int, objects: Object, pod: Object) -> None:
        pod["metadata"].setdefault("namespace", "default")
        try:
            lines, given, verdict = await self._once(objects, pod)
        except RuntimeError as error:
            self.report.refused[family] += 1
            self.report.reasons[str(error)[:500]] += 1
            return
        if lines:
            await asyncio.sleep(_AGAIN_SECONDS)
            if self._nominees:
                objects = await self._with_nominations()
            lines, given, verdict = await self._once(objects, pod)
        self.report.compared[family] += 1
        self.report.scheduled[family] += verdict.scheduled
        self.report.nominated[family] += bool(verdict.nominated)
        if lines:
            self.report.found.append(Found(family, seed, tuple(lines), given))
            self._console.print(f"{family} {seed}: {pod['metadata']['name']}", style="bold red")
            for line in lines:
                self._console.print(
                    f"  {line}"[:1500], highlight=False, markup=False, soft_wrap=True
                )

    async def _smaller(self, world: World, found: Found) -> Object:
        """The same difference with fewer objects; of each world only the first is made small."""
        kinds = {line.split(":")[0] for line in found.lines}
        wanted = found.given["input"]["pod"]["metadata"]["name"]
        pod = next(each for each in world.incoming if each["metadata"]["name"] == wanted)
        smallest = found.given

        async def shows(objects: dict[str, list[Object]]) -> bool:
            nonlocal smallest
            stored = await self._setup.set_up(objects)
            await asyncio.sleep(_SETTLE_SECONDS)
            try:
                lines, given, _ = await self._once(stored, pod)
            except RuntimeError:
                return False
            finally:
                await self._setup.clear()
            if kinds.isdisjoint(line.split(":")[0] for line in lines):
                return False
            smallest = given
            return True

        await shrink(world.objects, shows, self._tries)
        return smallest

    async def _once(self, objects: Object, pod: Object) -> tuple[list[str], Object, Any]:
        stored, verdict = await self._kube_scheduler.decide(pod)
        name = stored["spec"]["schedulerName"]
        given = vector(objects, stored, only(self._profiles, name))
        try:
            mine = ours(given)
            lines = list(differences(given, verdict, mine))
            if self._process:
                renamed = copy.deepcopy(pod)
                renamed["spec"]["schedulerName"] = own_name(name)
                _, own = await self._kube_scheduler.decide(renamed)
                lines += own_differences(own, mine)
        except Exception:  # noqa: BLE001 - comparison boundary: a crash of ours is a difference
            lines = [traceback.format_exc(limit=-5)]
        return lines, given, verdict


async def _run(
    families: Sequence[str],
    seeds: range,
    pods: int,
    crossing: MutatedWorld,
    console: Console,
    tries: int,
    *,
    process: bool,
) -> Report:
    configured = profiles() + crossing.profiles
    own = for_kubestow(configured) if process else None
    async with kube_scheduler({"profiles": configured}, own) as scheduler:
        fuzzer = Fuzzer(scheduler, configured, console, tries, process=process)
        await fuzzer.prepare()
        for seed in seeds:
            for family in families:
                crossed = family.startswith(CROSSED)
                make = crossing.world if crossed else drawn
                await fuzzer.run(family, seed, make(family, seed, pods))
        return fuzzer.report


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--seed", default=1, help="First seed; each round adds 1.")
@click.option("--rounds", default=1, help="How many worlds of each family.")
@click.option("--pods", default=25, help="Pods that come into each world.")
@click.option("--only", "wanted", multiple=True, help="This family only; may be repeated.")
@click.option("--vectors", default=VECTORS, type=click.Path(path_type=Path), help="To cross.")
@click.option("--tries", default=60, help="Worlds spent on making a difference small.")
@click.option("--process", is_flag=True, help="Ask a kubestow process about each pod, too.")
@click.option("--output", type=click.Path(path_type=Path), help="Write reproductions here.")
def main(
    seed: int,
    rounds: int,
    pods: int,
    wanted: tuple[str, ...],
    vectors: Path,
    tries: int,
    process: bool,
    output: Path | None,
) -> None:
    """Compare kubestow's decisions with kube-scheduler's on random worlds, pod by pod.

    Needs the binaries of `make envtest-build`. Ends with status 1 when a decision differs.
    """
    console = Console()
    crossing = MutatedWorld(vectors)
    every = [*FAMILIES, *crossing.families]
    unknown = set(wanted) - set(every)
    if unknown:
        raise click.BadParameter(f"unknown: {', '.join(sorted(unknown))}; there are {every}")
    report = asyncio.run(
        _run(
            wanted or every,
            range(seed, seed + rounds),
            pods,
            crossing,
            console,
            tries,
            process=process,
        )
    )
    console.print(_table(report))
    for reason, times in report.reasons.most_common(8):
        console.print(f"refused {times} times: {reason}", highlight=False, markup=False)
    for number, each in enumerate(report.found):
        text = yaml.safe_dump(readable(each.given), sort_keys=False, width=100)
        text = "".join(f"# {line}\n" for line in each.lines) + text
        if output is None:
            console.print(text, highlight=False, markup=False, soft_wrap=True)
            continue
        output.mkdir(parents=True, exist_ok=True)
        (output / f"{each.family}-{each.seed}-{number}.yaml").write_text(text)
    if report.found:
        raise SystemExit(1)


def _table(report: Report) -> Table:
    view = Table(title="pods compared with kube-scheduler")
    for heading in ("family", "compared", "scheduled", "preempting", "different", "refused"):
        view.add_column(heading, justify="left" if heading == "family" else "right")
    different = Counter(each.family for each in report.found)
    for family in sorted(report.compared):
        counters = (report.compared, report.scheduled, report.nominated, different, report.refused)
        view.add_row(family, *(str(each[family]) for each in counters))
    counters = (report.compared, report.scheduled, report.nominated, different, report.refused)
    view.add_row("all", *(str(sum(each.values())) for each in counters))
    return view


if __name__ == "__main__":
    main()
