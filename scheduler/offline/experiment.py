"""Experiments: one scenario, run under one or more configurations and seeds.

A scenario is what `kubestow simulate` is given: dumps, changes of their nodes, a workload and a
length of time. Each run builds a world of its own, and figures and samples are taken from it. For
equal scenario, configuration, seed and version, runs are equal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from statistics import mean
from typing import Any, Final

from scheduler.explain.records import NodeToAdd
from scheduler.explain.what_if.added_nodes import node_manifest
from scheduler.explain.what_if.changes import ChangeError
from scheduler.explain.what_if.questions import label_selector
from scheduler.offline.call_limits import LIMIT_SECONDS, CallLimit
from scheduler.offline.editing import WorldError
from scheduler.offline.reading import Objects
from scheduler.offline.records import Result
from scheduler.offline.sampling import SAMPLES, Sample
from scheduler.offline.trace import Arrival
from scheduler.offline.world import World
from scheduler.recording.reading import is_bundle

MAX_SEEDS: Final = 100_000
_SEEDS: Final = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


@dataclass(frozen=True, slots=True)
class Scenario:
    """The subject of a simulation."""

    dumps: tuple[str, ...]
    """Files and folders, see `Objects.read`, or one bundle."""
    plugin_dirs: tuple[str, ...] = ()
    adopt: bool = False
    add_nodes: tuple[NodeToAdd, ...] = ()
    drop_nodes: tuple[str, ...] = ()
    """Names, patterns such as `gpu-*`, or label selectors; their pods are pending again."""
    cordon: tuple[str, ...] = ()
    workload: Callable[[int], Sequence[Arrival]] | None = None
    """Returns the arrivals of a seed."""
    until: float | None = None
    """Virtual second of the end; None: when nothing is on its way any more."""
    needs_nodes: bool = True
    """Refuse files without nodes: nothing that is said of these would hold for a cluster."""
    plugin_timeout: float = LIMIT_SECONDS
    """Seconds of the clock after which a call of a plugin that has not returned ends the run."""


@dataclass(frozen=True, slots=True)
class SimulatedRun:
    """One run."""

    name: str
    """Of the configuration."""
    seed: int
    figures: Mapping[str, float]
    """By name; empty after an error."""
    result: Result
    samples: tuple[Sample, ...] = ()
    error: str = ""
    """The plugin whose exception ended the run, where and what; empty: it was completed."""
    notes: tuple[str, ...] = field(default=(), compare=False)


def seeds_of(text: str) -> range:
    """Read an interval of seeds, `FIRST-LAST`, or a single one.

    >>> seeds_of("3-5"), seeds_of("7")
    (range(3, 6), range(7, 8))

    Raises:
        ValueError: it is neither, or there are too many.
    """
    matched = _SEEDS.fullmatch(text)
    first, last = (int(matched[1]), int(matched[2] or matched[1])) if matched else (1, 0)
    if first > last:
        raise ValueError(f"{text[:40]!r}: give a number or FIRST-LAST")
    if last - first >= MAX_SEEDS:
        raise ValueError(f"{text[:40]!r}: at most {MAX_SEEDS} seeds are possible")
    return range(first, last + 1)


def figures_by_name(runs: Iterable[SimulatedRun]) -> dict[str, dict[str, list[float]]]:
    """Return the values of all seeds by configuration and figure."""
    found: dict[str, dict[str, list[float]]] = {}
    for run in runs:
        own = found.setdefault(run.name, {})
        for figure, value in run.figures.items():
            own.setdefault(figure, []).append(value)
    return found


def fates(runs: Sequence[SimulatedRun]) -> str:
    """Say how many pods met which fate in runs of one configuration, on average over the seeds."""
    kinds = ("placed", "evicted", "waiting")
    counts = (mean(each.figures[kind] for each in runs) for kind in kinds)
    placed, evicted, waiting = (f"{each:.6g}" for each in counts)
    seeds = f", on average over {len(runs)} seeds" if len(runs) > 1 else ""
    pods = "pod" if placed == "1" else "pods"
    return f"{placed} {pods} placed, {evicted} evicted, {waiting} waiting{seeds}"


class Simulation:
    """Runs a scenario; the dumps are read once."""

    def __init__(self, scenario: Scenario) -> None:
        """Read the dumps. Raises WorldError."""
        self.scenario = scenario
        dumps = scenario.dumps
        bundle = len(dumps) == 1 and is_bundle(dumps[0])
        self._objects = None if bundle else Objects.read(*dumps)

    def check(self, config: str) -> None:
        """Check a configuration before any run. Raises ConfigurationError."""
        World(config=config, plugin_dirs=self.scenario.plugin_dirs).close()

    def world(self, config: str | None = None, seed: int = 0) -> World:
        """Build a world with the changes of the scenario.

        Raises:
            WorldError: an object is malformed, or a change names no node.
            ConfigurationError: lists every problem of the configuration.
            BundleError: the bundle cannot be used.
        """
        given = self.scenario
        options: dict[str, Any] = {
            "config": config,
            "plugin_dirs": given.plugin_dirs,
            "seed": seed,
            "adopt": given.adopt,
        }
        if self._objects is None:
            world = World.load(given.dumps[0], **options)
        else:
            world = World(self._objects, **options)
        # Before anything is changed: a selector selects the nodes that there are.
        dropped = [name for each in given.drop_nodes for name in _selected(world, each)]
        cordoned = [name for each in given.cordon for name in _selected(world, each)]
        for name in dict.fromkeys(dropped):
            world.drop_node(name)
        for node in given.add_nodes:
            _add(world, node)
        for name in dict.fromkeys(cordoned):
            if name not in dropped:
                world.cordon(name)
        if self._objects is not None and given.needs_nodes:
            _refuse_without_nodes(world, dropped)
        return world

    def run(
        self,
        name: str,
        config: str | None = None,
        seed: int = 0,
        *,
        on_sample: Callable[[Sample], None] | None = None,
    ) -> SimulatedRun:
        """Run the scenario once.

        A plugin that raises ends the run before the next pod is attempted: its record has the
        error, and no figures. So does one that does not return (`scheduler.offline.call_limits`).

        Args:
            name: of the configuration, for the record.
            config: a KubeSchedulerConfiguration; None: the default one, or that of the bundle.
            seed: of ties, retries and the workload.
            on_sample: is called with each sample, for progress.

        Raises:
            WorldError, ConfigurationError, BundleError: see `world`.
        """
        given = self.scenario
        arrivals = () if given.workload is None else given.workload(seed)
        with (
            self.world(config, seed) as world,
            CallLimit(world._assembly.profiles.plugins(), given.plugin_timeout),
        ):
            world._settle()
            world._assembly.end_on_exception()
            if arrivals or world._busy or given.until is not None:
                result = world.run(given.until, arrivals, samples=SAMPLES, on_sample=on_sample)
            else:
                result = world.schedule(measure=True)
            error = world._assembly.plugin_errors()
            found = {} if error else result.figures()
            notes = tuple(filter(None, (*world.notes, world.filled)))
        return SimulatedRun(name, seed, found, result, result.samples, error, notes)


def _selected(world: World, text: str) -> list[str]:
    """Return the nodes of a name, a pattern or a label selector, by name. Raises WorldError."""
    nodes = sorted(world._assembly.tables.stores["nodes"].list(), key=lambda each: each.name)
    if "=" in text or "!" in text:
        try:
            matches = label_selector(text).matches
        except ChangeError as error:
            raise WorldError(str(error)) from error
        found = [str(each.name) for each in nodes if matches(each.metadata.labels)]
    else:
        found = [str(each.name) for each in nodes if fnmatchcase(each.name, text)]
    if not found:
        raise WorldError(
            f"no node is selected by {text[:200]!r}; give a name, a pattern such as gpu-*, or "
            "labels, KEY=VALUE"
        )
    return found


def _refuse_without_nodes(world: World, dropped: Sequence[str]) -> None:
    if not len(world._assembly.tables.stores["nodes"]) and not dropped:
        world.close()
        raise WorldError(
            "there is no node in these files: dump the nodes as well, with kubectl get "
            "nodes,pods -A -o json, or add some with --add-node"
        )


def _add(world: World, asked: NodeToAdd) -> None:
    like = world._assembly.tables.get("nodes", asked.like) if asked.like else None
    if asked.like and like is None:
        raise WorldError(f"there is no Node {asked.like[:200]} in this world")
    try:
        world.add_nodes(node_manifest(asked, asked.name, like), asked.count)
    except ValueError as error:
        raise WorldError(f"Node {asked.name[:200]}: {error}") from error
