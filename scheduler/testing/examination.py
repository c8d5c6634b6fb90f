"""`check_plugin`: everything that the framework relies on, on random clusters.

Each cluster is a world of its own, in which only the plugin decides. The contract suite runs on it,
then things change one by one: reuse rules and hints must follow. The first cluster is played twice,
because the same input must give the same answers.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from random import Random
from typing import Any, Final

from scheduler.api.pod import Pod
from scheduler.client.custom_resources import is_reference
from scheduler.engine.plugin_calls import timeout_of
from scheduler.framework import EXTENSION_POINTS, CycleState
from scheduler.offline.builders import JsonObject
from scheduler.offline.world import World
from scheduler.testing.answers import answers, is_async
from scheduler.testing.contract import (
    ContractViolation,
    PluginCase,
    check_plugin_contract,
    check_reuse_contract,
)
from scheduler.testing.enabling import Arguments, EnabledPlugin, world_with
from scheduler.testing.hint_check import HintCheck
from scheduler.testing.purity import impurities
from scheduler.testing.raised import raised_text
from scheduler.testing.random_clusters import RandomCluster, Words, words_of
from scheduler.testing.reservations import reservation_problems
from scheduler.testing.speed import Speed, speeds

CHANGES: Final = 15
"""Changes of each cluster."""
MAX_PROBLEMS: Final = 20
"""Problems after which no further cluster is tried."""
SPEED_NODES: Final = 500


@dataclass(slots=True)
class PluginReport:
    """The report of a check: counts of what was tried, and problems."""

    name: str
    points: tuple[str, ...]
    """The extension points that the plugin implements."""
    clusters: int = 0
    changes: int = 0
    accepted: int = 0
    """Pairs of pod and node that Filter accepted."""
    rejected: int = 0
    """Those that it rejected, or pods that a gate or PreFilter rejected."""
    scores: int = 0
    """Different raw scores."""
    woken: int = 0
    """Pods that a change helped, and that their hint brought back."""
    untried: tuple[str, ...] = ()
    """Custom resources that the plugin reads, and of which no object was given."""
    speeds: tuple[Speed, ...] = ()
    problems: list[str] = field(default_factory=list)

    def to_data(self) -> dict[str, Any]:
        """Return the report as JSON has it, with the notes."""
        return {**asdict(self), "notes": list(self.notes())}

    def notes(self) -> Iterator[str]:
        """Yield what the random clusters could not show; of a plugin with problems nothing."""
        keys = "name the keys that it reads with `keys`"
        if self.problems:
            return
        if "Filter" in self.points and not self.rejected:
            yield f"Filter rejected nothing, so hints were not tried; {keys}"
        if "Filter" in self.points and not self.accepted:
            yield f"Filter accepted nothing; {keys}"
        if "Score" in self.points and self.scores < 2:
            yield f"every node had the same score; {keys}"
        for each in self.untried:
            yield f"there were no objects of {each}; give manifests with `objects`"


def check_plugin(
    plugin: Any,
    args: Arguments | None = None,
    *,
    keys: Iterable[str] = (),
    objects: Iterable[Mapping[str, Any]] = (),
    clusters: int = 10,
    seed: int = 0,
    budget: float | None = None,
) -> PluginReport:
    """Check a plugin class on random clusters; return what was tried.

    Checked: the contract (`check_plugin_contract`); reuse rules; hints ("Filter accepts node n1
    now, but the pod stays unschedulable"); what Reserve took, Unreserve gives back; equal input,
    equal answers; no clock, random source or I/O in the module; async methods end within their
    `timeout` and let themselves be cancelled.

    Args:
        plugin: the class.
        args: as in `pluginConfig` of a configuration file, or a record of its `args_type`.
        keys: labels and annotations that the plugin reads; those in its source and its arguments
            are found.
        objects: manifests of what else the plugin reads, such as custom resources. Some of them
            exist in each cluster; they come, go and change, where several have the same name.
        clusters: how many clusters.
        seed: of the clusters.
        budget: microseconds that Filter and Score may take for a node, as `PluginReport.speeds` has
            them; None: not limited.

    Raises:
        ContractViolation: with all problems.
        ConfigurationError: the class or its arguments have faults.
        WorldError: one of the objects is malformed, or nothing reads its kind.
    """
    report = examine_plugin(
        plugin, args, keys=keys, objects=objects, clusters=clusters, seed=seed, budget=budget
    )
    if report.problems:
        raise ContractViolation(report.problems)
    return report


def examine_plugin(
    plugin: Any,
    args: Arguments | None = None,
    *,
    keys: Iterable[str] = (),
    objects: Iterable[Mapping[str, Any]] = (),
    clusters: int = 10,
    seed: int = 0,
    budget: float | None = None,
) -> PluginReport:
    """Check as `check_plugin`, and return the problems in the report.

    Raises:
        ConfigurationError: the class or its arguments have faults.
        WorldError: one of the objects is malformed, or nothing reads its kind.
    """
    words = words_of(plugin, default_arguments(plugin, args), keys)
    plan = _Plan(EnabledPlugin(plugin, args), words, seed, tuple(map(dict, objects)))
    with plan.world(0) as world:
        world.add_all(plan.objects)
        untried = [each for each in plugin_references(plugin) if not _tried(world, each)]
    points = tuple(each.label for each in EXTENSION_POINTS if each.implemented_by(plugin))
    report = PluginReport(plugin.name, points, untried=tuple(untried))
    report.problems += _impurities(plugin)
    first = _played(plan, 0, report)
    second = _played(plan, 0, PluginReport(plugin.name, points))
    report.problems += _differences(first, second)
    for number in range(1, clusters):
        if len(report.problems) > MAX_PROBLEMS:
            break
        _played(plan, number, report)
    if not report.problems:
        report.speeds = _measured(plan)
        for each in report.speeds:
            if budget is not None and each.microseconds > budget:
                took = f"{each.microseconds:.2f} µs a node"
                report.problems.append(f"{each.method} takes {took}, and may take {budget:g}")
    report.problems = list(dict.fromkeys(report.problems))
    return report


@dataclass(frozen=True, slots=True)
class _Plan:
    plugin: EnabledPlugin
    words: Words
    seed: int
    #: Manifests of other objects.
    objects: tuple[JsonObject, ...] = ()

    def world(self, number: int) -> World:
        return world_with([self.plugin], seed=number, alone=True)

    def random(self, number: int) -> Random:
        return Random(f"{self.seed}/{number}")


def plugin_references(plugin: Any) -> tuple[str, ...]:
    """Return the custom resources that a plugin reads."""
    return tuple(filter(is_reference, getattr(plugin, "required_resources", ())))


def _tried(world: World, plural: str) -> bool:
    return bool(len(world._assembly.tables.stores[plural]))


def default_arguments(plugin: Any, args: Arguments | None) -> object:
    """Return the arguments, or the defaults of the plugin if there are none."""
    if args is not None:
        return args
    declared = getattr(plugin, "args_type", None)
    try:
        return None if declared is None else declared()
    except TypeError:
        return None


def _impurities(plugin: Any) -> Iterator[str]:
    """Yield what the module of the class must not use; asyncio is for async methods."""
    module = sys.modules.get(plugin.__module__)
    try:
        source = "" if module is None else inspect.getsource(module)
    except (OSError, TypeError):
        return
    for each in impurities(source):
        if "asyncio" not in each:
            yield f"{inspect.getsourcefile(plugin)}, {each}: use the Handle and `state` instead"


def _differences(first: list[str], second: list[str]) -> Iterator[str]:
    for one, other in zip(first, second, strict=False):
        if one != other:
            yield f"the same cluster was decided differently: first {one}, then {other}"
            return


def _played(plan: _Plan, number: int, report: PluginReport) -> list[str]:
    """Play one cluster; return its trace: every answer, in order."""
    trace: list[str] = []
    with plan.world(number) as world:
        game = _Game(world, plan, number, report, trace)
        try:
            game.play()
        except ContractViolation as error:
            report.problems += error.problems
        except Exception as error:  # noqa: BLE001 - the boundary to the code of the plugin
            report.problems.append(f"{report.name}: {raised_text(plan.plugin.factory, error)}")
    report.clusters += 1
    return trace


class _Game:
    """One cluster, from its first node to its last change."""

    def __init__(
        self, world: World, plan: _Plan, number: int, report: PluginReport, trace: list[str]
    ) -> None:
        self._world = world
        self._plugin = _instance(world, plan.plugin.factory.name)
        self._cluster = RandomCluster(world, plan.random(number), plan.words, plan.objects)
        self._number = number
        self._report = report
        self._trace = trace
        self._scores: set[int] = set()

    def play(self) -> None:
        """Check the contract, then change things one by one."""
        world, plugin, report = self._world, self._plugin, self._report
        # One node often: a pod that it rejects waits.
        self._cluster.fill(nodes=1 + self._number % 4, running=6, pending=6)
        world._settle()
        case = self._case([world.pod(each.pod) for each in world.waiting()])
        if is_async(plugin, "pre_filter"):
            report.problems += self._cancellation_problems(case)
        check_plugin_contract(plugin, case)
        if is_async(plugin, "pre_filter"):
            return
        self._note(case)
        report.problems += (
            f"{plugin.name}: {each}"
            for each in reservation_problems(plugin, case.table, case.pods, case.now)
        )
        self._change_things(case.pods)
        report.scores = max(report.scores, len(self._scores))

    def _change_things(self, pods: Iterable[Pod]) -> None:
        world, plugin, report = self._world, self._plugin, self._report
        hints = HintCheck(world, plugin)
        subjects = list(pods)
        for _ in range(CHANGES):
            world.schedule()
            hints.before()
            texts: list[str] = []
            change = self._change(texts)
            check_reuse_contract(plugin, self._case(subjects), change)
            report.changes += 1
            report.problems += (f"{plugin.name}: {each}" for each in hints.after(texts[-1]))
            self._note(self._case(subjects))
        report.woken += hints.woken

    def _change(self, texts: list[str]) -> Callable[[], None]:
        def change() -> None:
            texts.append(self._cluster.change())
            self._world._settle()

        return change

    def _case(self, pods: list[Pod]) -> PluginCase:
        scheduler = self._world._assembly
        return PluginCase(scheduler.state.cache.table, pods, scheduler.clock.now(), self._wait)

    def _note(self, case: PluginCase) -> None:
        for pod in case.pods:
            found = answers(self._plugin, case.table, pod, case.now)
            accepted = len(found.accepted)
            self._report.accepted += accepted
            self._report.rejected += len(found.nodes) - accepted
            self._report.rejected += (found.whole is not None) + (found.gate is not None)
            self._scores.update(found.scores)
            self._trace.append(f"pod {pod.key}: {found}")

    # -- async methods ---------------------------------------------------------------------------

    def _wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine in the time of the world, at most for the plugin's `timeout`."""
        loop, limit = self._world._assembly.loop, timeout_of(self._plugin)
        task = loop.create_task(work)
        loop.run(loop.time() + limit, lambda _due: task.done())
        if not task.done():
            task.cancel()
            loop.run(loop.time(), lambda _due: True)
            where = getattr(work, "__qualname__", "a coroutine")
            raise ContractViolation([f"{where} did not return within its timeout of {limit:g} s"])
        return task.result()

    def _cancellation_problems(self, case: PluginCase) -> Iterator[str]:
        """Cancel PreFilter at its first wait, as its timeout does; it must not go on."""
        if not case.pods:
            return
        loop = self._world._assembly.loop
        task = loop.create_task(
            self._plugin.pre_filter(CycleState(case.now), case.pods[0], case.table)
        )
        loop.run(loop.time(), lambda _due: True)
        if task.done():
            return
        task.cancel()
        loop.run(loop.time(), lambda _due: True)
        if not task.cancelled():
            yield (
                f"{self._plugin.name}: pre_filter swallows CancelledError, so that its timeout "
                "cannot end it; let the error pass"
            )


def _instance(world: World, name: str) -> Any:
    return next(iter(world._assembly.profiles.frameworks.values())).plugins[name]


def _measured(plan: _Plan) -> tuple[Speed, ...]:
    with plan.world(0) as world:
        cluster = RandomCluster(world, plan.random(0), plan.words, plan.objects)
        cluster.fill(nodes=SPEED_NODES, running=SPEED_NODES, pending=1)
        world._settle()
        plugin, scheduler = _instance(world, plan.plugin.factory.name), world._assembly
        if is_async(plugin, "pre_filter"):
            return ()
        pod = world.pod(world.waiting()[0].pod)
        return tuple(speeds(plugin, scheduler.state.cache.table, pod, scheduler.clock.now()))
