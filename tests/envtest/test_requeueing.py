"""Rows of the requeueing table on a real API server: the same data, another cluster.

One scheduler serves all rows, with a profile for each set of plugins, and never flushes
unschedulable pods: only events requeue them. All pods that one event requeues move in one step, so
once the expected ones have moved, the others stay.
"""

from __future__ import annotations

import http
from collections.abc import Iterable, Iterator
from typing import Any, Final

import pytest

from devtools.control_plane.admin import ApiError
from devtools.control_plane.control_plane import ControlPlane, ManagedProcess
from devtools.control_plane.inspecting import Inspector
from devtools.control_plane.kubestow import start_kubestow
from tests.envtest.workload import until
from tests.integration.requeueing.replay import profile_plugins
from tests.integration.requeueing.rows import (
    Action,
    Create,
    Delete,
    Patch,
    Row,
    request,
)
from tests.integration.requeueing.table import TABLE, missing

pytestmark = pytest.mark.envtest

NUMBERS: Final = (
    "1", "2", "3", "5", "6", "7", "8", "9", "10", "11", "12", "20", "21", "22", "23", "24",
    "25", "26", "27", "28", "30", "31", "32", "33", "34", "35", "37", "38", "39", "41", "42",
    "44", "45", "46", "47", "48", "49", "50", "51", "52", "53", "54", "56", "58", "59", "60a",
    "60b", "61", "62", "63a", "63b", "64a", "64b", "64c", "65a", "65b", "65c", "66", "67",
)  # fmt: skip
"""Rows that wake somebody."""

QUIET: Final = {"4": "NodeUpdateNodeLabel", "19": "NodeUpdateNodeAllocatable", "36": "NodeAdd"}
"""Rows that wake nobody, and the event that must have been handled before one can say so."""


NOT_HERE: Final = {
    "14": "wakes nobody, and no event follows whose handling one could wait for",
    **dict.fromkeys(
        ("16", "17", "18"), "extended resources out of DeviceClasses are not supported"
    ),
    "29": "the woken pod is bound here, which rightly wakes another one",
    "40": "as row 29",
    "43": "without hints; the scheduler of these tests has them",
    "55": "deletes a claim and creates it anew; a controller would have to let go of the first one",
    "57": "as row 55",
    "68": "the API server rejects the row's pods, whose features it guards by gates of its own",
    "69": "as row 68",
    "70": "its feature can do without: an update of the pod says the same",
    "71": "as row 68",
}
"""Rows that are not replayed on a real API server, and why; the embedded one replays them."""

PROTECTED: Final = ("PersistentVolume", "PersistentVolumeClaim")
"""Kinds that the API server gives a finalizer, which only a controller would take away."""


def _row(number: str) -> Row:
    return next(row for row in TABLE if row.number == number)


def _parameters(numbers: Iterable[str]) -> list[Any]:
    found = [_row(number) for number in numbers]
    return [
        pytest.param(
            row, id=row.number, marks=[pytest.mark.skip(missing(row))] if missing(row) else []
        )
        for row in found
    ]


def profile_of(row: Row) -> str:
    return f"rows-{'-'.join(row.plugins)}".lower()


@pytest.fixture(scope="module")
def scheduler(control_plane: ControlPlane) -> Iterator[ManagedProcess]:
    """A profile per set of plugins; backoff as short as a configuration allows."""
    rows = [_row(number) for number in (*NUMBERS, *QUIET)]
    profiles = {
        profile_of(row): {"schedulerName": profile_of(row), "plugins": profile_plugins(row)}
        for row in rows
        if not missing(row)
    }
    process = start_kubestow(
        control_plane,
        {
            "clientConnection": {"qps": 1000, "burst": 1000},
            "podInitialBackoffSeconds": 1,
            "podMaxBackoffSeconds": 1,
            "profiles": list(profiles.values()),
        },
        ["--pod-max-in-unschedulable-pods-duration=0s"],
        name="kubestow-requeueing",
    )
    yield process
    process.stop_cleanly()


class RowReplay:
    """One row on the shared cluster; `take_down` deletes its objects."""

    def __init__(self, row: Row, control_plane: ControlPlane, inspector: Inspector) -> None:
        self.row = row
        self.inspector = inspector
        self._admin = control_plane.admin
        self._namespace = f"requeueing-{row.number}"
        self._made: list[Delete] = []
        self._admin.ensure("/api/v1/namespaces", {"metadata": {"name": self._namespace}})

    def perform(self, actions: Iterable[Action]) -> None:
        for action in actions:
            self._send(action)
            if isinstance(action, Create):
                manifest = action.manifest
                self._made.append(Delete(manifest["kind"], manifest["metadata"]["name"]))

    def _send(self, action: Action) -> None:
        self._admin.request(*request(action, self._namespace, profile_of(self.row)))

    def reject_all(self) -> None:
        """Create the row's objects; wait until all pods are rejected, with their conditions."""
        self.perform(Create(each) for each in self.row.initial)
        until(self._nodes_seen, f"row {self.row.number}: nodes seen")
        self.perform(Create(each) for each in self.row.pending)
        until(self._all_rejected, f"row {self.row.number}: all pods rejected")

    def _all_rejected(self) -> bool:
        return not self.awake() and set(self.views()) == set(self.row.pod_names)

    def _nodes_seen(self) -> bool:
        """Whether the cache has all nodes: their watch may lag behind that of the pods."""
        there = len(self._admin.request("GET", "/api/v1/nodes")["items"])  # type: ignore[arg-type]
        return self.inspector.sample("scheduler_cache_size", type="nodes") == there

    def views(self) -> dict[str, dict[str, Any]]:
        return self.inspector.queue(self._namespace)

    def attempts(self) -> dict[str, int]:
        return {name: view["attempts"] for name, view in self.views().items()}

    def awake(self) -> set[str]:
        """Return the pods that are not unschedulable."""
        views = self.views()
        return {
            name
            for name in self.row.pod_names
            if name not in views or views[name]["place"] != "unschedulable"
        }

    def woken_since(self, attempts: dict[str, int]) -> set[str]:
        """Return the pods that were requeued, even if they are unschedulable again by now."""
        views = self.views()
        return {
            name
            for name, before in attempts.items()
            if name not in views
            or views[name]["place"] != "unschedulable"
            or views[name]["attempts"] > before
        }

    def take_down(self) -> None:
        """Delete the pods first: a pending pod must not react to the other deletions."""
        for what in sorted(self._made, key=lambda each: each.kind != "Pod"):
            try:
                self._send(what)
                if what.kind in PROTECTED:
                    self._send(Patch(what.kind, what.name, {"metadata": {"finalizers": None}}))
            except ApiError as error:
                if error.status != http.HTTPStatus.NOT_FOUND:
                    raise
        until(lambda: not self.views(), f"row {self.row.number}: forgotten")
        until(self._nodes_seen, f"row {self.row.number}: nodes gone")


@pytest.fixture
def replay(row: Row, control_plane: ControlPlane, scheduler: ManagedProcess) -> Iterator[RowReplay]:
    """Create a row whose pods are all rejected; take it down at the end."""
    replay = RowReplay(row, control_plane, Inspector(scheduler, control_plane))
    try:
        replay.reject_all()
        yield replay
        assert scheduler.running, scheduler.describe("ended")
    finally:
        replay.take_down()


@pytest.mark.parametrize("row", _parameters(NUMBERS))
def test_an_event_requeues_exactly_the_pods_it_can_help(row: Row, replay: RowReplay) -> None:
    before = replay.attempts()
    replay.perform(row.trigger)
    until(lambda: replay.woken_since(before) >= row.requeued, f"{sorted(row.requeued)} woken")
    assert replay.woken_since(before) == row.requeued


@pytest.mark.parametrize("row", _parameters(QUIET))
def test_an_event_that_helps_no_pod_requeues_none(row: Row, replay: RowReplay) -> None:
    def handled() -> float:
        name = "scheduler_event_handling_duration_seconds_count"
        return replay.inspector.sample(name, event=QUIET[row.number])

    before, earlier = replay.attempts(), handled()
    replay.perform(row.trigger)
    until(lambda: handled() > earlier, f"{QUIET[row.number]} handled")
    assert replay.woken_since(before) == set()


def test_every_row_is_replayed_or_has_a_reason_not_to() -> None:
    replayed = {*NUMBERS, *QUIET}
    assert len(replayed) >= 25
    assert not replayed & NOT_HERE.keys()
    assert {row.number for row in TABLE} == replayed | NOT_HERE.keys()
