"""Cluster: the whole scheduler with the plugins of a test, in virtual time and without a server.

Queue, engine, hints and binding cycles are those that run in a cluster (`scheduler.offline`). An
assertion first lets the scheduler finish what it can do; time that nobody waits for passes only
with `tick`. A failed assertion explains the pod as `kubestow explain` does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, Self

from scheduler.explain.records import Decision
from scheduler.explain.records.decision import DecisionResult
from scheduler.explain.records.story import tell
from scheduler.framework import ConfigurationError
from scheduler.offline.event_log import RecordedEvent
from scheduler.offline.records import Placement, Result, Waiting
from scheduler.offline.world import World
from scheduler.testing.enabling import Arguments, EnabledPlugin, world_with
from scheduler.testing.snapshots import Snapshot, decision_lines


class Cluster:
    """A cluster to test plugins on.

    >>> from kubestow.testing import Cluster, node, pod
    >>> with Cluster() as cluster:
    ...     cluster.add_node(node("small", cpu=1))
    ...     pods = cluster.add_pods(pod("large", cpu=2))
    ...     cluster.assert_unschedulable("large", plugin="NodeResourcesFit", reason="cpu")
    ...     cluster.add_node(node("big", cpu=4))
    ...     cluster.assert_scheduled("large", node="big")
    """

    def __init__(
        self,
        *,
        config: str | Path | None = None,
        plugin_dirs: Sequence[str | Path] = (),
        seed: int = 0,
        snapshot: Snapshot | None = None,
    ) -> None:
        """Prepare a cluster without nodes.

        Args:
            config: a KubeSchedulerConfiguration; None: the default plugins and those of `enable`.
            plugin_dirs: folders with the plugins that `config` names as `module:Class`.
            seed: breaks ties between nodes; equal seeds, equal choices.
            snapshot: where `assert_decisions` compares; pytest's fixture has one for each test.
        """
        self._config = config
        self._plugin_dirs = tuple(plugin_dirs)
        self._seed = seed
        self._snapshot = snapshot
        self._enabled: list[EnabledPlugin] = []
        self._world: World | None = None
        #: The last placement of each pod.
        self._placed: dict[str, Placement] = {}

    def enable(self, plugin: Any, args: Arguments | None = None, *, weight: int = 0) -> None:
        """Enable a plugin class at every point that it implements, after the default plugins.

        Call it before anything is added.

        Args:
            plugin: the class.
            args: as in `pluginConfig` of a configuration file, or a record of its `args_type`.
            weight: of its scores; 0: as in a file that names none.

        Raises:
            ConfigurationError: the class or its arguments have faults.
            RuntimeError: the cluster has been used, or has a configuration file.
        """
        if self._config is not None:
            raise RuntimeError(f"enable the plugin in {self._config}, which this cluster reads")
        if self._world is not None:
            raise RuntimeError("enable plugins before anything is added to the cluster")
        enabled = [*self._enabled, EnabledPlugin(plugin, args, weight)]
        world_with(enabled, plugin_dirs=self._plugin_dirs).close()
        self._enabled = enabled

    @property
    def world(self) -> World:
        """The world behind this cluster, for everything else: `at`, `trial`, `drop_node`, ..."""
        if self._world is None:
            if self._config is None:
                found = world_with(self._enabled, plugin_dirs=self._plugin_dirs, seed=self._seed)
            else:
                found = World(config=self._config, plugin_dirs=self._plugin_dirs, seed=self._seed)
            found._assembly.events.kept = []
            self._world = found
        return self._world

    def plugin(self, name: str) -> Any:
        """Return the instance of a plugin of the first profile, by its declared name.

        Raises:
            ConfigurationError: the profile has no such plugin.
        """
        framework = next(iter(self.world._assembly.profiles.frameworks.values()))
        try:
            return framework.plugins[name]
        except KeyError:
            known = ", ".join(framework.plugins)
            raise ConfigurationError(f"no plugin {name} is enabled; there are {known}") from None

    # -- the cluster -----------------------------------------------------------------------------

    def add_node(self, template: Mapping[str, Any]) -> None:
        """Add a node, as `node(...)` or a manifest describes it."""
        self.world.add_nodes(template)

    def add_pods(self, template: Mapping[str, Any], count: int = 1) -> list[str]:
        """Add pods like `pod(...)` or a manifest; return their keys, `namespace/name`.

        One keeps the name of the template, more are `NAME-0`, `NAME-1` and so on.
        """
        return self.world.add_pods(template, count)

    def add(self, manifest: Mapping[str, Any]) -> str:
        """Add or replace an object of any kind that scheduling reads; return its key."""
        return self.world.add(manifest)

    def tick(self, seconds: float) -> None:
        """Let time pass; the scheduler works meanwhile."""
        world = self.world
        self._note(world.run(until=world.now + seconds))

    @property
    def now(self) -> float:
        """The wall clock, as plugins see it: seconds since 1970. It begins with the year 2026."""
        return self.world._assembly.clock.now()

    # -- what the scheduler did ------------------------------------------------------------------

    @property
    def events(self) -> tuple[RecordedEvent, ...]:
        """The Kubernetes Events so far, in order."""
        self._finish()
        return tuple(self.world._assembly.events.kept or ())

    def assert_scheduled(self, pod: str, node: str | None = None) -> None:
        """Assert that a pod is bound, to `node` if it is given. `pod` is NAME or NAMESPACE/NAME.

        Raises:
            WorldError: there is no such pod.
        """
        key = self._finished_key(pod)
        where = self.world.pod(key).spec.node_name
        if not where:
            self._fail(key, f"was to be scheduled{f' to {node}' if node else ''}, but it waits")
        if node is not None and where != node:
            self._fail(key, f"was to be on {node}, but it is on {where}")

    def assert_unschedulable(
        self, pod: str, *, plugin: str | None = None, reason: str | None = None
    ) -> None:
        """Assert that a pod waits because it was rejected, or gated.

        Args:
            pod: NAME or NAMESPACE/NAME.
            plugin: the declared name of a plugin that must be among those that reject it.
            reason: a part of the text of its rejection.

        Raises:
            WorldError: there is no such pod.
        """
        key = self._finished_key(pod)
        where = self.world.pod(key).spec.node_name
        if where:
            self._fail(key, f"was to be unschedulable, but it is on {where}")
        waiting = self._waiting(key)
        decision = waiting.decision
        if decision is not None and decision.result is DecisionResult.ERROR:
            self._fail(key, f"was to be rejected, but the attempt failed: {decision.message}")
        if not waiting.plugins:
            self._fail(key, "was to be rejected, but no plugin rejects it")
        if plugin is not None and plugin not in waiting.plugins:
            rejecting = ", ".join(waiting.plugins)
            self._fail(key, f"was to be rejected by {plugin}, but it is by {rejecting}")
        if reason is not None and reason not in waiting.reason:
            self._fail(key, f"was to be rejected with {reason!r}, but not so")

    def decisions(self) -> str:
        """Return where every pod is, with its scores, and why the others wait; a line for each."""
        self._finish()
        found = {each.pod: each for each in self.world.waiting()}
        return "".join(f"{line}\n" for line in decision_lines({**self._placed, **found}))

    def assert_decisions(self, file: str | Path | None = None) -> None:
        """Assert that `decisions` is what it was when its file was written.

        `pytest --update-decisions` writes the file. The fixture of pytest has a file for each test.

        Raises:
            RuntimeError: no file is named, and the cluster is not that of the fixture.
        """
        snapshot = self._snapshot if file is None else Snapshot(Path(file), self._updates)
        if snapshot is None:
            raise RuntimeError("name the file, or use the fixture `cluster`, which has one")
        snapshot.check(self.decisions())

    @property
    def _updates(self) -> bool:
        return self._snapshot is not None and self._snapshot.update

    # -- inside ----------------------------------------------------------------------------------

    def _finish(self) -> None:
        self._note(self.world.schedule())

    def _note(self, result: Result) -> None:
        self._placed.update((each.pod, each) for each in result.placed)

    def _finished_key(self, pod: str) -> str:
        self._finish()
        key = pod if "/" in pod else f"default/{pod}"
        self.world.pod(key)
        return key

    def _waiting(self, key: str) -> Waiting:
        return next(each for each in self.world.waiting() if each.pod == key)

    def _fail(self, key: str, sentence: str) -> NoReturn:
        placed = self._placed.get(key)
        waits = next((each for each in self.world.waiting() if each.pod == key), None)
        record = waits or placed
        decision: Decision | None = None if record is None else record.decision
        lines = tell(self.world.explain(key), () if decision is None else (decision,))
        raise AssertionError("\n  ".join([f"{key} {sentence}:", *lines]))

    def close(self) -> None:
        """End the tasks of the scheduler."""
        if self._world is not None:
            self._world.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
