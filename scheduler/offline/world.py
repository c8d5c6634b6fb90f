"""World: a cluster and its scheduler in one process, in virtual time.

The scheduler is the service's own (`assembly`): its queue, engine, plugins, hints, binding cycles
and timed work. The cluster is tables of objects and a server that takes the scheduler's writes.
Backoff, gates, preemption with grace periods, `requeue_after`, Time events and waits at Permit pass
in virtual time, which costs only what happens in it.

Deterministic: with the same input, seed and version every result is byte-equal.
"""

from __future__ import annotations

from asyncio import Task
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from config import Configuration
from scheduler.api.pod import Pod
from scheduler.client.kinds import Kinds
from scheduler.client.resources import PODS, Resource
from scheduler.explain.records.shown import ShownTuple
from scheduler.framework import Registry
from scheduler.offline.absent import absences
from scheduler.offline.asking import Asking
from scheduler.offline.assembly import assemble, quiet, read
from scheduler.offline.bundles import Content, Restorer, unknown_kinds
from scheduler.offline.callbacks import Deliveries, retrieve, weak
from scheduler.offline.editing import checked
from scheduler.offline.reading import Objects
from scheduler.offline.recorded import RecordedChanges
from scheduler.offline.records import Eviction, Placement, Result, Waiting
from scheduler.offline.trace import Arrival
from scheduler.offline.virtual_time import (
    START,
    no_collections,
    only_errors_logged,
    rare_collections,
)
from scheduler.offline.workload import Workload
from scheduler.recording.reading import is_bundle

if TYPE_CHECKING:
    from scheduler.offline.sampling import Sample, Sampler

PATIENCE: Final = 120.0
"""Seconds without a placement, an eviction or an end after which `schedule` gives up: longer than
any backoff, so that every pod was tried since."""


class World(Asking):
    """A cluster to ask. Close it, or use it as a context manager, to end its tasks.

    >>> from kubestow import offline
    >>> with offline.World() as world:
    ...     names = world.add_nodes(offline.node(cpu=4), count=2)
    ...     pods = world.add_pods(offline.pod("web", cpu=3), count=3)
    ...     result = world.schedule()
    >>> sorted(each.pod for each in result.placed)
    ['default/web-0', 'default/web-1']
    >>> result["default/web-2"].reason.split(". ")[0]
    '0/2 nodes are available: 2 Insufficient cpu'
    """

    #: Virtual seconds that a recording has; see `load`.
    recorded = 0.0

    def __init__(  # noqa: PLR0913 - each is an option of its own, with a default
        self,
        objects: Objects | None = None,
        *,
        config: str | Path | None = None,
        plugin_dirs: Sequence[str | Path] = (),
        feature_gates: Mapping[str, bool] | None = None,
        seed: int = 0,
        start: float = START,
        adopt: bool = False,
        configuration: Configuration | None = None,
        registry: Registry | None = None,
    ) -> None:
        """Build a world; nothing is scheduled yet.

        Args:
            objects: what exists at the start; see `Objects.read`.
            config: a KubeSchedulerConfiguration; None: `kubestow run` without one.
            plugin_dirs: folders with third-party plugins.
            feature_gates: gates that are not at their defaults, as `--feature-gates`.
            seed: breaks ties and jitters retries.
            start: wall clock at the start, seconds since the epoch.
            adopt: treat every pod as one of the first profile, whatever its `schedulerName`.
            configuration: one that was read already, in place of `config`; with its `registry`.
            registry: the plugin classes of `configuration`.

        Raises:
            ConfigurationError: lists every problem of the configuration.
            WorldError: an object is malformed.
        """
        if configuration is None or registry is None:
            folders = tuple(str(each) for each in plugin_dirs)
            configuration, registry = read(config, folders, feature_gates or {})
        self._assembly = assemble(configuration, registry, seed=seed, start=start)
        self._tables = self._assembly.tables
        self._deliveries = Deliveries(self._assembly.loop, self._tables, self._assembly.handlers)
        self._history = self._assembly.scheduling.decisions.history
        self._default_scheduler = next(iter(self._assembly.profiles.frameworks))
        self._adopt, self._manifests = adopt, self._assembly.manifests
        self._numbers, self._local_storage = {}, set()
        self._registry, self._seed = registry, seed
        self._tasks: list[Task[None]] = []
        self._closed = False
        #: UIDs to the second when the pod was added.
        self._added: dict[str, float] = {}
        #: Arrivals, ends of pods, and what `at` was given.
        self._agenda = self._assembly.loop.agenda
        self._workload = Workload(self, self._tables, self._agenda)
        self._placed: list[Placement] = []
        self._evicted: list[Eviction] = []
        self._finished = 0
        self._last_change = 0.0
        #: What was skipped or left out, one line each.
        self.notes: list[str] = list(self._assembly.notes)
        # Weak, so that a world that nobody uses any more is closed at once.
        self._assembly.server.on_bound.subscribe(weak(self._bound))
        self._assembly.server.on_evicted.subscribe(weak(self._deleted))
        if objects is not None:
            self._load(objects)

    @classmethod
    def load(cls, *paths: str | Path, **options: Any) -> Self:
        """Read files as `Objects.read`, and build a world of them; `options` as for the class.

        Of a bundle (docs/bundles.md) the world has everything: objects, configuration unless
        `config` is given, time, queue, reservations and random state. Of a recording it also has
        the changes that others than its scheduler made, which happen at their times.

        Raises:
            WorldError: a file cannot be read.
            BundleError: a bundle cannot be used.
        """
        if len(paths) == 1 and is_bundle(paths[0]):
            return cls._of_bundle(Content.read(paths[0]), options)
        return cls(Objects.read(*paths), **options)

    @classmethod
    def _of_bundle(cls, content: Content, options: dict[str, Any]) -> Self:
        own = options.get("config") is None and options.get("configuration") is None
        if own:
            folders = tuple(map(str, options.pop("plugin_dirs", ())))
            configuration, registry = content.configuration(folders)
            options |= {"configuration": configuration, "registry": registry}
        world = cls(**{"start": content.state.time, **options})
        same = own and not world._adopt
        restorer = Restorer(world._assembly, content, world._complete, same_profiles=same)
        restorer.restore()
        world.notes += [*content.bundle.header.left_out, *unknown_kinds(restorer.unknown)]
        world._assembly.scheduling.binding.under_way.update(restorer.under_way)
        changes = RecordedChanges(content, world, world._assembly, restorer.unknown)
        world.recorded = changes.begin(world._agenda)
        return world

    def copy(self) -> World:
        """Return a world with the same objects at the same time, in which nothing is under way.

        Queue, history and what `at` was given are not copied; pods without a node wait anew.
        """
        world = World(
            configuration=self._assembly.configuration,
            registry=self._registry,
            seed=self._seed,
            start=self._assembly.clock.now(),
        )
        with no_collections():
            for store in self._tables.stores.values():
                for item in store.list():
                    # Objects are never changed in place, except for version and signature.
                    same = copy(item)
                    if store.resource is PODS:
                        same.interned = None
                    world._put_item(store.resource, same)
            world._tables.deliver(world._assembly.handlers)
        world._tables.continue_uids(self._tables)
        world._adopt, world._local_storage = self._adopt, set(self._local_storage)
        return world

    def _load(self, objects: Objects) -> None:
        with no_collections():
            self.notes += objects.fill(self)
            pods = self._tables.pods.list()
            self._need_namespaces(pods)
            self._tables.deliver(self._assembly.handlers)
        self.notes += absences(objects.plurals, self._assembly.needed, pods, mixed=objects.mixed)
        self.notes += self._others()

    def _others(self) -> Iterator[str]:
        """Yield a line about pending pods that no profile is for, if there are any."""
        frameworks = self._assembly.profiles.frameworks
        others = Counter(
            each.spec.scheduler_name
            for each in self._tables.pods.on_node("")
            if each.spec.scheduler_name not in frameworks
        )
        if others:
            names = ", ".join(f"{name} ({count})" for name, count in sorted(others.items()))
            yield (
                f"pending pods of other schedulers are left alone: {names}; with adopt=True they "
                f"are scheduled as pods of {self._default_scheduler}"
            )

    # -- state -----------------------------------------------------------------------------------

    def __repr__(self) -> str:
        pods, nodes = [*self._tables.stores["pods"].list()], [*self._tables.stores["nodes"].list()]
        placed = sum(bool(each.spec.node_name) for each in pods)
        return (
            f"<World at {self.now:g} s: {len(nodes)} nodes, {placed} of {len(pods)} pods on them>"
        )

    @property
    def now(self) -> float:
        """Virtual seconds since the start."""
        return self._assembly.loop.time()

    @property
    def _busy(self) -> bool:
        """Whether pods are still to arrive or to end, or calls of `at` are due."""
        return len(self._agenda) > 0

    @property
    def _kinds(self) -> Kinds:
        """The kinds of objects that scheduling reads here, those of plugins among them."""
        return self._tables.kinds

    def placements(self) -> dict[str, str]:
        """Return the node of every pod that has one, by `namespace/name`, in this order."""
        pods = self._tables.stores["pods"].list()
        return dict(sorted((each.key, each.spec.node_name) for each in pods if each.spec.node_name))

    def waiting(self) -> tuple[Waiting, ...]:
        """Return the pods of our profiles that have no node, by name."""
        frameworks = self._assembly.profiles.frameworks
        pods = (
            each for each in self._tables.pods.on_node("") if each.spec.scheduler_name in frameworks
        )
        found = sorted(pods, key=lambda each: each.key)
        return ShownTuple(self._waiting(each) for each in found)

    def _waiting(self, pod: Pod) -> Waiting:
        queue, uid = self._assembly.scheduling.queue, pod.uid
        waited = self.now - self._added.get(uid, 0.0)
        view = queue.view(pod.metadata.namespace, pod.metadata.name)
        if view is None or view.uid != uid:
            attempt = self._assembly.scheduling.binding.under_way.get(uid)
            attempts = 0 if attempt is None else attempt.info.attempts
            reason = "" if attempt is None else f"node {attempt.node_name} was chosen"
            return Waiting(pod.key, "binding", reason, (), attempts, waited)
        plugins = {*view.unschedulable_plugins, *view.pending_plugins, view.gating_plugin} - {""}
        return Waiting(
            pod.key,
            str(view.place),
            view.message,
            tuple(sorted(plugins)),
            view.attempts,
            waited,
            view.nominated_node,
            self._history.last(pod.key, uid, view.attempts),
        )

    # -- time ------------------------------------------------------------------------------------

    def schedule(self, patience: float = PATIENCE, *, measure: bool = False) -> Result:
        """Let time pass until nothing is on its way any more, and say what happened.

        Then every pod that can be placed is, victims have ended, and the others were tried since
        the last change. Pods at Permit, or that fail with an error, are waited for as long as
        something else happens within `patience` seconds. Pods go on running: their ends, and other
        events of the future, are not waited for. With `measure` the result has all figures.
        """

        def settled(due: float) -> bool:
            return quiet(self._assembly) or due - self._last_change > patience

        sampler = self._sampler((), None, 0) if measure else None
        return self._run(float("inf"), settled, sampler)

    def run(
        self,
        until: float | None = None,
        workload: Sequence[Arrival] = (),
        *,
        patience: float = PATIENCE,
        samples: int = 0,
        on_sample: Callable[[Sample], None] | None = None,
    ) -> Result:
        """Let time pass to virtual second `until`, and say what happened.

        Pods of `workload` arrive at their times, those whose time is past at once. Without `until`,
        time passes until every pod has arrived, every duration is over and nothing is on its way.

        Args:
            until: the virtual second of the end.
            workload: pods that arrive.
            patience: see `schedule`.
            samples: about how many to take, at equal distances; there is one more at the end. The
                result then has all figures, and can be plotted.
            on_sample: is called with each of them; `progress` shows them.
        """
        sampler = self._sampler(workload, until, samples, on_sample) if samples else None
        if sampler is not None:
            sampler.begin()
        self._workload.begin(workload)
        if until is not None:
            return self._run(until, lambda _due: False, sampler)

        def over(due: float) -> bool:
            if self._agenda:
                return False
            return quiet(self._assembly) or due - self._last_change > patience

        return self._run(float("inf"), over, sampler)

    def at(self, time: float, action: Callable[[], object]) -> None:
        """Call `action` at a virtual second, to change the world while it runs.

        >>> from kubestow import offline
        >>> with offline.World() as world:
        ...     _ = world.add_pods(offline.pod())
        ...     world.at(60.0, lambda: world.add_nodes(offline.node()))
        ...     world.run(until=120.0).placed[0].time >= 60.0
        True
        """
        self._agenda.at(time, action)

    def _sampler(self, *arguments: Any) -> Sampler:
        # It imports what only figures need, and this module itself.
        from scheduler.offline.sampling import Sampler  # noqa: PLC0415

        return Sampler(self, *arguments)

    def _run(
        self, until: float, on_idle: Callable[[float], bool], sampler: Sampler | None = None
    ) -> Result:
        def idle(due: float) -> bool:
            if self._assembly.scheduling.binding.under_way:
                self._assembly.server.catch_up()
            self._assembly.server.catch_up_claims()
            return on_idle(due)

        self._begin()
        began, self._last_change = self.now, self.now
        self._deliveries.running = True
        try:
            with rare_collections(), only_errors_logged():
                self._assembly.loop.run(until, idle)
        finally:
            self._deliveries.running = False
        for task in self._tasks:
            if task.done():
                task.result()
        placed, self._placed = self._placed, []
        evicted, self._evicted = self._evicted, []
        finished, self._finished = self._finished, 0
        found = Result(began, self.now, tuple(placed), self.waiting(), tuple(evicted), finished)
        if sampler is None:
            return found
        sampler.take()
        return replace(found, _samples=tuple(sampler.samples), _figures=sampler.figures(found))

    def _settle(self) -> None:
        """Show the scheduler every change made so far; no time passes and nothing is scheduled.

        Every question and every run begins with this; parts of `scheduler` need it before.

        Raises:
            RuntimeError: the world is closed.
        """
        if self._closed:
            raise RuntimeError("this world is closed; build another one")
        self._tables.deliver(self._assembly.handlers)
        subscriptions = self._assembly.state.subscriptions
        if not subscriptions.synced:
            subscriptions.publish_synced()

    def _begin(self) -> None:
        """Settle, and start the tasks of the scheduler if this is the first time."""
        self._settle()
        if not self._tasks:
            self._tasks = [
                self._assembly.loop.create_task(work, name=name)
                for name, work in self._assembly.tasks()
            ]
            # Those of a bundle, whose binding cycles go on here.
            binding = self._assembly.scheduling.binding
            self._tasks += [
                self._assembly.loop.create_task(binding.run(attempt), name=f"bind {uid}")
                for uid, attempt in binding.under_way.items()
            ]
            if self._assembly.direct is not None:
                self._assembly.direct.start()

    # -- changes ---------------------------------------------------------------------------------

    def delete_pod(self, key: str) -> None:
        """Delete a pod as a user would: what runs ends after its grace period."""
        self._assembly.server.terminate(self.pod(key))

    def _put_item(self, resource: Resource[Any], item: Any) -> None:
        """Add or replace a typed object. Raises QuantityError."""
        checked(resource, item)
        if resource is PODS:
            self._added.setdefault(item.metadata.uid, self._assembly.loop.seconds)
        self._tables.put(resource.plural, item)

    def _runs(self, uid: str, seconds: float) -> None:
        """Let a pod end so long after it is bound."""
        self._workload.runs(uid, seconds)

    def _take_item(self, resource: Resource[Any], item: Any) -> None:
        """Remove a typed object at once."""
        self._tables.remove(resource.plural, item)

    def _bound(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        attempt = self._assembly.scheduling.binding.under_way[uid]
        assert attempt.result is not None
        key = attempt.info.key
        self._last_change = now = self._assembly.loop.seconds
        self._placed.append(
            Placement(
                key,
                pod.spec.node_name,
                now,
                now - self._added.get(uid, 0.0),
                attempt.info.attempts,
                attempt.result.feasible_nodes,
                attempt.result.evaluated_nodes,
                self._history.last(key, uid, attempt.info.attempts),
            )
        )
        duration = self._workload.bound(uid)
        if duration is not None:
            self._agenda.at(now + duration, partial(self._finish, pod))

    def _finish(self, pod: Pod) -> None:
        self._last_change = self.now
        self._added.pop(pod.uid, None)
        metadata = pod.metadata
        self._finished += self._assembly.server.end(metadata.namespace, metadata.name, pod.uid)

    def _deleted(self, pod: Pod) -> None:
        self._last_change = self.now
        self._evicted.append(Eviction(pod.key, pod.spec.node_name, self.now))

    # -- end -------------------------------------------------------------------------------------

    def close(self) -> None:
        """End the tasks of the scheduler. The records stay; nothing can be asked any more."""
        if self._closed:
            return
        self._closed = True
        loop, direct = self._assembly.loop, self._assembly.direct
        waiting = () if direct is None else tuple(direct.tasks)
        if direct is not None:
            direct.stop()
        for task in [*self._tasks, *waiting, *self._assembly.background.tasks()]:
            task.cancel()
            task.add_done_callback(retrieve)
        loop.run(self.now, lambda _due: True)
        loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_tasks"):
            self.close()
