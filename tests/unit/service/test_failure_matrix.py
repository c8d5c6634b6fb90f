"""Effects of a failure in each stage: what is undone, published and reported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from scheduler.framework import (
    SKIP,
    Code,
    NominatingInfo,
    PostFilterResult,
    Status,
    error,
    unschedulable,
)
from scheduler.queue import QueueState
from tests.unit.engine.harness import Calls, plugin
from tests.unit.service.harness import Service

UNSCHEDULABLE_PODS, BACKOFF = QueueState.UNSCHEDULABLE, QueueState.BACKOFF
UNSCHEDULABLE, BROKEN = "Unschedulable", "SchedulerError"
NONE, OTHERS, ALL = "none", "others", "all"


@dataclass(frozen=True)
class Row:
    """One stage: the plugin that fails there, and what must follow."""

    plugin: dict[str, Any]
    place: QueueState
    reason: str
    message: str
    released: bool
    woken: str = NONE
    #: What the test does between the scheduling and the binding cycle.
    during: Callable[[Service], None] | None = None
    nodes: tuple[str, ...] = ("n1",)
    nominated: str = ""


def raising(text: str) -> Callable[..., Any]:
    def method(*_: Any) -> Any:
        raise ValueError(text)

    return method


def returning(result: Any) -> Callable[..., Any]:
    return lambda *_: result


def waiting(service: Service) -> Any:
    (only,) = service.waiting_pods
    return only


WAIT = (Status(Code.WAIT), 60.0)
BIND: dict[str, Any] = {"bind": returning(None)}
NO = unschedulable("no")
ONE = "0/1 nodes are available: 1 no."

MATRIX: dict[str, Row] = {
    "PreFilter error": Row(
        {"pre_filter": returning(error("oh"))},
        BACKOFF, BROKEN, 'running PreFilter plugin "P": oh', released=False,
    ),
    "Filter error": Row(
        {"filter": returning(error("oh"))},
        BACKOFF, BROKEN, 'running "P" filter plugin: oh', released=False,
    ),
    "Score error": Row(
        {"score": returning(error("oh"))},
        BACKOFF, BROKEN, 'running Score plugins: plugin "P" failed with: oh',
        released=False, nodes=("n1", "n2"),
    ),
    "no nodes": Row(
        {}, BACKOFF, UNSCHEDULABLE, "no nodes available to schedule pods", released=False, nodes=(),
    ),
    "no fit": Row(
        {"filter": returning(NO)}, UNSCHEDULABLE_PODS, UNSCHEDULABLE, ONE, released=False,
    ),
    "no fit, nomination": Row(
        {
            "filter": returning(NO),
            "post_filter": returning(PostFilterResult(None, NominatingInfo("n1"))),
        },
        UNSCHEDULABLE_PODS, UNSCHEDULABLE, ONE, released=False, nominated="n1",
    ),
    "Reserve rejected": Row(
        {"reserve": returning(NO)}, UNSCHEDULABLE_PODS, UNSCHEDULABLE, ONE, released=True,
    ),
    "Reserve error": Row(
        {"reserve": returning(error("oh"))},
        BACKOFF, BROKEN, 'running Reserve plugin "P": oh', released=True,
    ),
    "Permit rejected": Row(
        {"permit": returning((NO, 0.0))}, UNSCHEDULABLE_PODS, UNSCHEDULABLE, ONE, released=True,
    ),
    "Permit error": Row(
        {"permit": returning((error("oh"), 0.0))},
        BACKOFF, BROKEN, 'running Permit plugin "P": oh', released=True,
    ),
    "PreBindPreFlight error": Row(
        {"pre_bind_pre_flight": returning(error("oh")), "pre_bind": returning(None)},
        BACKOFF, BROKEN, 'running PreBindPreFlight "P": oh', released=True, woken=ALL,
    ),
    "PreBindPreFlight rejected": Row(
        {"pre_bind_pre_flight": returning(NO), "pre_bind": returning(None)},
        BACKOFF, BROKEN,
        'PreBindPreFlight P returned "Unschedulable", which is unsupported. It is supposed to '
        "return Success, Skip, or Error status",
        released=True, woken=ALL,
    ),
    "wait rejected": Row(
        {"permit": returning(WAIT)}, UNSCHEDULABLE_PODS, UNSCHEDULABLE, ONE,
        released=True, woken=OTHERS,
        during=lambda service: waiting(service).reject("P", "no"),
    ),
    "wait timed out": Row(
        {"permit": returning((Status(Code.WAIT), 0.0))}, UNSCHEDULABLE_PODS, UNSCHEDULABLE,
        "0/1 nodes are available: 1 rejected due to timeout after waiting 0s at plugin P.",
        released=True, woken=OTHERS,
    ),
    "waiting pod preempted": Row(
        {"permit": returning(WAIT)}, BACKOFF, BROKEN, "waiting on permit for pod: make room",
        released=True, woken=ALL,
        during=lambda service: waiting(service).preempt("P", "make room"),
    ),
    "PreBind rejected": Row(
        {"pre_bind": returning(NO)}, BACKOFF, UNSCHEDULABLE, "no", released=True, woken=OTHERS,
    ),
    "PreBind rejected with a reason of its own": Row(
        {"pre_bind": returning(Status(Code.UNSCHEDULABLE, ("no",), condition_reason="Quota"))},
        BACKOFF, "Quota", "no", released=True, woken=OTHERS,
    ),
    "PreBind error": Row(
        {"pre_bind": returning(error("oh"))},
        BACKOFF, BROKEN, 'running PreBind plugin "P": oh', released=True, woken=ALL,
    ),
    "PreBind raises": Row(
        {"pre_bind": raising("oh")},
        BACKOFF, BROKEN, 'running PreBind plugin "P": oh', released=True, woken=ALL,
    ),
    "Bind rejected": Row(
        {"bind": returning(NO)}, BACKOFF, UNSCHEDULABLE, "no", released=True, woken=OTHERS,
    ),
    "Bind error": Row(
        {"bind": returning(error("oh"))},
        BACKOFF, BROKEN, 'running Bind plugin "P": oh', released=True, woken=ALL,
    ),
}  # fmt: skip


async def failed(row: Row) -> tuple[Service, Any, Calls]:
    """A service after the attempt of a row; its pod was nominated to a node called old."""
    released = Calls()
    ledger = plugin("Ledger", reserve=returning(None), unreserve=released("unreserve"))
    service = Service(plugin("P", **(BIND | row.plugin)), ledger)
    service.world.nodes(*row.nodes)
    service.pending("bystander")
    await service.attempt()
    pod = service.pending("p", nominated="old", priority=10)
    service.moves.clear()
    service.events.notes.clear()
    service.dispatcher.patches.clear()
    during = row.during
    await service.attempt(None if during is None else lambda: during(service))
    return service, pod, released


@pytest.mark.parametrize("stage", MATRIX)
async def test_a_failed_attempt(stage: str) -> None:
    row = MATRIX[stage]
    service, pod, released = await failed(row)
    assert service.place(pod) is row.place
    assert released.made == ["unreserve"] * row.released
    assert service.cache.get_pod(pod.uid) is None
    (note,) = [note for note in service.events.notes if note[0] == "p"]
    assert note == ("p", "FailedScheduling", row.message)
    patch = service.dispatcher.patches[-1]
    (condition,) = patch.conditions
    assert (condition.type, condition.status) == ("PodScheduled", "False")
    assert (condition.reason, condition.message) == (row.reason, row.message)
    assert service.nominated_to("p") == row.nominated
    assert patch.nominated_node_name == row.nominated


@pytest.mark.parametrize("under_way", [False, True])
async def test_an_expected_node_that_the_watch_has_not_shown_is_taken_back(
    under_way: bool,
) -> None:
    """The known pod has no nomination yet: neither the nomination nor its end may be lost."""
    service = Service(plugin("P", permit=returning((Status(Code.WAIT), 0.0)), **BIND))
    service.world.nodes("n1")
    service.pending("p")
    service.dispatcher.under_way = {"p"} if under_way else set()
    await service.attempt()
    expected, refused = service.dispatcher.patches
    assert expected.nominated_node_name == "n1"
    assert refused.nominated_node_name == ("" if under_way else None)


@pytest.mark.parametrize("stage", [stage for stage, row in MATRIX.items() if row.nodes])
async def test_who_hears_of_the_place_that_became_free(stage: str) -> None:
    row = MATRIX[stage]
    service, pod, _ = await failed(row)
    bystander = service.informer["default/bystander"]
    if row.woken == NONE:
        assert service.moves == []
        assert service.place(bystander) is UNSCHEDULABLE_PODS
        return
    (move,) = service.moves
    assert (move.label, move.old, move.new) == ("AssignedPodDelete", "p", "")
    assert not move.excludes(bystander)
    assert move.excludes(pod) == (row.woken == OTHERS)
    assert service.place(bystander) in (QueueState.ACTIVE, BACKOFF)


@pytest.mark.parametrize(
    ("results", "reason"),
    [
        ((SKIP, None, error("never")), None),
        ((SKIP, error("oh"), None), 'running Bind plugin "B1": oh'),
        ((None,), None),
    ],
)
async def test_bind_plugins_are_asked_until_one_answers(
    results: tuple[Any, ...], reason: str | None
) -> None:
    calls = Calls()
    binders = [
        plugin(f"B{number}", bind=calls(str(number), result))
        for number, result in enumerate(results)
    ]
    service = Service(*binders)
    service.world.nodes("n1")
    service.pending("p")
    await service.attempt()
    notes = [note for _, _, note in service.events.notes]
    assert notes == ([reason] if reason else ["Successfully assigned default/p to n1"])
    assert calls.made == [str(number) for number in range(min(len(results), 2))]


async def test_a_pod_that_no_bind_plugin_takes_is_retried_without_a_word() -> None:
    service = Service(plugin("B", bind=returning(SKIP)))
    service.world.nodes("n1")
    pod = service.pending("p")
    await service.attempt()
    assert service.place(pod) is BACKOFF
    assert service.events.notes == []
    assert service.dispatcher.patches == []


@pytest.mark.parametrize("flight", [SKIP, None])
async def test_the_expected_node_is_written_only_for_work_before_the_bind(flight: Any) -> None:
    calls = Calls()
    slow = plugin("P", pre_bind_pre_flight=returning(flight), pre_bind=calls("pre_bind"), **BIND)
    service = Service(slow)
    service.world.nodes("n1")
    service.pending("p")
    await service.attempt()
    expected = [patch.nominated_node_name for patch in service.dispatcher.patches]
    assert expected == ([] if flight is SKIP else ["n1"])
    assert calls.made == ([] if flight is SKIP else ["pre_bind"])


@pytest.mark.parametrize("change", ["deleted", "bound", "replaced", "updated"])
async def test_what_the_informer_shows_meanwhile_decides_about_the_requeue(change: str) -> None:
    """Facts 80 to 82."""
    service = Service(plugin("P", **BIND, pre_bind=returning(error("oh"))))
    service.world.nodes("n1")
    pod = service.pending("p")
    newest = {
        "deleted": None,
        "bound": service.world.pod("p", nodeName="n9"),
        "replaced": service.world.pod("p"),
        "updated": service.world.pod("p", priority=7),
    }[change]

    def meanwhile() -> None:
        del service.informer[pod.key]
        if newest is not None:
            if change == "replaced":
                newest.metadata.uid = "another"
            service.informer[pod.key] = newest

    await service.attempt(meanwhile)
    requeued = [view.uid for view in service.queue.views()]
    conditions = [patch for patch in service.dispatcher.patches if patch.conditions]
    assert not service.queue.statistics().in_flight
    if change == "updated":
        assert requeued == [pod.uid]
        service.clock.time += 10.0
        service.queue.run_due()
        info = service.queue.pop()
        assert info is not None
        assert info.pod.priority == 7
        assert len(conditions) == 1
    else:
        assert requeued == []
        assert conditions == []


async def test_a_pod_that_is_queued_again_by_an_event_stays_queued_once() -> None:
    """An assumed pod that is being deleted was forgotten, and then it changed once more."""
    service = Service(plugin("P", **BIND, pre_bind=returning(error("oh"))))
    service.world.nodes("n1")
    pod = service.pending("p")

    def meanwhile() -> None:
        service.queue.done(pod.uid)
        service.queue.add(pod)

    await service.attempt(meanwhile)
    assert service.place(pod) is QueueState.ACTIVE
    assert not service.queue.statistics().in_flight


async def test_a_pod_that_is_being_deleted_is_dropped_with_an_event() -> None:
    """Fact 85."""
    service = Service(plugin("P", **BIND))
    service.world.nodes("n1")
    pod = service.pending("p")
    pod.metadata.deletion_timestamp = "2026-01-01T00:00:00Z"
    await service.attempt()
    note = "skip schedule deleting pod: default/p"
    assert service.events.notes == [("p", "FailedScheduling", note)]
    assert service.dispatcher.patches == []
    assert service.place(pod) is None


async def test_a_pod_in_the_cache_under_its_uid_cannot_be_assumed() -> None:
    service = Service(plugin("P", **BIND))
    service.world.nodes("n1")
    pod = service.pending("p")
    service.cache.add_pod(service.world.pod("p", nodeName="n1"))
    await service.attempt()
    assert service.place(pod) is BACKOFF
    (patch,) = service.dispatcher.patches
    assert patch.conditions[0].message == "pod p(default/p) is in the cache, so can't be assumed"


async def test_malformed_names_of_pods_to_activate_are_ignored() -> None:
    def name_pods(state: Any, *_: Any) -> None:
        state.pods_to_activate.update(["", "no-namespace", "a/b/c", "/"])

    service = Service(plugin("P", reserve=name_pods, unreserve=lambda *_: None, **BIND))
    service.world.nodes("n1")
    service.pending("p")
    await service.attempt()
    assert [reason for _, reason, _ in service.events.notes] == ["Scheduled"]
