"""One task for all controllers of an embedded cluster, driven by store changes and the clock.

Invariant: a controller acts only from the task, never from inside a store notification, so that
writers are not slowed down by the consequences of their writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from simulator.api import STRATEGIC_PATCH, Api
from simulator.controllers.kubelet import Action, Kubelet, PatchStatus
from simulator.errors import ApiError
from simulator.store import StoreChange

_SLICE: Final = 32
"""Actions between two yields to the event loop: about 5 ms."""


class Controller(Protocol):
    """Observer of every change of the store, which works in slices."""

    def observe(self, table: str, change: StoreChange, now: float) -> None:
        """Note a change. Must not write."""

    def next_due(self) -> float | None:
        """Return when work is due next (epoch seconds, the past for now); None: after a change."""

    def work(self, now: float, limit: int) -> None:
        """Do up to about `limit` pieces of the work that is due."""


class KubeletController:
    """The fake kubelet over an `Api`."""

    def __init__(self, api: Api, kubelet: Kubelet) -> None:
        self._api = api
        self._pods = api.resources.of_kind("v1", "Pod")
        self._kubelet = kubelet

    def observe(self, table: str, change: StoreChange, now: float) -> None:
        """Follow pods; a new node wakes those that were bound to it before it came."""
        if table == "pods":
            if change.type == "DELETED":
                self._kubelet.forget(change.version.namespace, change.version.name)
            else:
                self._kubelet.observe(change.version.obj, now)
        elif table == "nodes" and change.type == "ADDED":
            for version in self._api.store.items("pods"):
                if version.obj["spec"].get("nodeName") == change.version.name:
                    self._kubelet.observe(version.obj, now)

    def next_due(self) -> float | None:
        """Return when the kubelet's next action is due."""
        return self._kubelet.next_due()

    def work(self, now: float, limit: int) -> None:
        """Carry out due actions.

        An action that is rejected lost a race; the winner's change is observed later.
        """
        for action in self._kubelet.due(now, limit):
            try:
                self._carry_out(action)
            except ApiError:
                continue

    def _carry_out(self, action: Action) -> None:
        current = self._api.get(self._pods, action.namespace, action.name)
        if current.obj["metadata"].get("uid") != action.uid:
            return
        if isinstance(action, PatchStatus):
            self._api.patch(
                self._pods,
                action.namespace,
                action.name,
                {"status": action.patch},
                STRATEGIC_PATCH,
                subresource="status",
            )
        else:
            self._api.delete(self._pods, action.namespace, action.name, {"gracePeriodSeconds": 0})


class Runner:
    """Owner of the task and the switches. Start it with `run` in a task group."""

    def __init__(
        self, api: Api, controllers: Mapping[str, Controller], off: frozenset[str]
    ) -> None:
        self._api = api
        self._controllers = dict(controllers)
        self._on = {name: name not in off for name in controllers}
        self._wake = asyncio.Event()
        self._undo: list[Callable[[], None]] = []

    def names(self) -> dict[str, bool]:
        """Return every controller and whether it acts."""
        return dict(self._on)

    def switch(self, name: str, on: bool) -> None:
        """Switch a controller. It always observes, so it catches up when switched on again."""
        if name not in self._on:
            raise KeyError(name)
        self._on[name] = on
        self._wake.set()

    def wake(self) -> None:
        """Check again when each controller is due, after a setting was changed."""
        self._wake.set()

    def attach(self) -> None:
        """Start observing: the objects in the store, then every change."""
        now = self._api.clock.now()
        store = self._api.store
        for row in self._api.resources:
            if not row.storage:
                for version in store.items(row.table):
                    self._notify(row.table, StoreChange("ADDED", version, None, version.rv), now)
        self._undo.append(store.subscribe(None, self._observe))
        self._undo.append(self._api.clock.on_jump.subscribe(self._wake.set))

    def detach(self) -> None:
        """Stop observing."""
        for undo in self._undo:
            undo()
        self._undo = []

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            delay = self._delay()
            if delay == 0.0:
                self.work_once()
                await asyncio.sleep(0)
                continue
            try:
                async with asyncio.timeout(delay):
                    await self._wake.wait()
            except TimeoutError:
                continue
            self._wake.clear()

    def work_once(self) -> bool:
        """Run one slice of every controller that is on. Whether any had work that was due."""
        now = self._api.clock.now()
        worked = False
        for name, controller in self._controllers.items():
            due = controller.next_due() if self._on[name] else None
            if due is not None and due <= now:
                worked = True
                controller.work(now, _SLICE)
        return worked

    def _delay(self) -> float | None:
        dues = [self._controllers[name].next_due() for name, on in self._on.items() if on]
        known = [due for due in dues if due is not None]
        return self._api.clock.real_delay(min(known)) if known else None

    def _observe(self, table: str, change: StoreChange) -> None:
        self._notify(table, change, self._api.clock.now())
        self._wake.set()

    def _notify(self, table: str, change: StoreChange, now: float) -> None:
        for controller in self._controllers.values():
            controller.observe(table, change, now)
