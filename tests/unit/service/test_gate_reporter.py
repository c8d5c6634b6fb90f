"""Times of writes of a plugin's own PodScheduled reason: delayed, dropped, thinned out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.api.meta import Condition
from scheduler.api.pod import Pod
from scheduler.framework import Code, QueuedPodInfo, Status, unresolvable
from scheduler.queue import QueueNominator, SchedulingQueue
from scheduler.queue.signals import Signals
from scheduler.service.gate_reporter import (
    GATED_BY_PLUGIN,
    MAX_PER_TURN,
    NUMBERS_PERIOD,
    GateReporter,
)
from scheduler.service.rejection_messages import message_class
from scheduler.service.status_writer import POD_SCHEDULED, StatusWriter
from tests.unit.engine.harness import Clock, plugin
from tests.unit.queue.doubles import make_pod
from tests.unit.service.harness import RecordingDispatcher, Service

DELAY = 1.0
REASON = "ResourceQuotaValidated"
NOT_HELPFUL = "0/1 nodes are available: 1 Preemption is not helpful for scheduling."


def refusal(message: str, reason: str = REASON) -> Status:
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (message,), "Quota", condition_reason=reason)


def used(cpu: object) -> Status:
    return refusal(f"quota exceeded: team-1, used: requests.cpu={cpu}, limited: requests.cpu=10")


class Queued(SchedulingQueue):
    """UIDs of waiting pods, in the place of the queue."""

    def __init__(self) -> None:
        self.uids: set[str] = set()
        self.signals = Signals()

    def __contains__(self, uid: object) -> bool:
        return uid in self.uids


class RecordingStatuses(StatusWriter):
    """Keeps what would be written."""

    def __init__(self) -> None:
        self.written: list[tuple[str, str, str]] = []
        self.afresh: list[bool] = []

    def not_scheduled(
        self,
        pod: Pod,
        reason: str,
        message: str,
        more: Sequence[Condition] = (),
        *,
        nominated: str | None = None,
        afresh: bool = False,
    ) -> None:
        self.written.append((pod.metadata.name, reason, message))
        self.afresh.append(afresh)


@dataclass
class Desk:
    """A reporter, the queue and the informer that it reads, and what it wrote."""

    delay: float = DELAY
    clock: Clock = field(default_factory=Clock)
    queued: Queued = field(default_factory=Queued)
    informer: dict[str, Pod] = field(default_factory=dict)
    statuses: RecordingStatuses = field(default_factory=RecordingStatuses)
    woken: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.reporter = GateReporter(
            self.queued,
            lambda namespace, name: self.informer.get(f"{namespace}/{name}"),
            self.statuses,
            self.clock,
            delay=self.delay,
            conditions=lambda pod, info: (),
            wake=lambda: self.woken.append(self.clock.time),
        )
        self.queued.signals.on_gated.subscribe(self.reporter.held)

    def pod(self, name: str = "a", reason: str = "", message: str = "") -> QueuedPodInfo:
        """A pod that a gate holds."""
        info = QueuedPodInfo(make_pod(name), 0.0, gating_plugin="Quota")
        self.queued.uids.add(info.uid)
        self.show(info, reason, message)
        return info

    def show(self, info: QueuedPodInfo, reason: str = "", message: str = "") -> None:
        """The informer delivers the pod, with a condition if one is given."""
        if reason:
            made = Condition(type=POD_SCHEDULED, status="False", reason=reason, message=message)
            status = msgspec.structs.replace(info.pod.status, conditions=(made,))
            info.pod = msgspec.structs.replace(info.pod, status=status)
        self.informer[info.key] = info.pod

    def after(self, seconds: float) -> list[str]:
        """Return the writes, by pod and message, after this time."""
        self.statuses.written.clear()
        self.clock.time += seconds
        self.reporter.run_due()
        return [f"{name}: {message.partition('cpu=')[2] or message}"
                for name, _, message in self.statuses.written]  # fmt: skip


def test_a_refusal_is_written_after_the_delay() -> None:
    desk = Desk()
    desk.reporter.held(desk.pod(), refusal("no money"))
    assert desk.reporter.next_due() == desk.clock.time + DELAY
    assert desk.woken == [desk.clock.time]
    assert desk.after(DELAY - 0.01) == []
    desk.after(0.01)
    assert desk.statuses.written == [("a", REASON, "no money")]
    assert desk.reporter.next_due() is None


def test_without_a_delay_it_is_written_at_the_next_turn() -> None:
    desk = Desk(delay=0.0)
    desk.reporter.held(desk.pod(), refusal("no"))
    assert desk.after(0) == ["a: no"]


@pytest.mark.parametrize("status", [
    unresolvable("waiting for scheduling gates: [g]").by("SchedulingGates"),
    Status(Code.ERROR, (), error=ValueError("boom"), condition_reason=REASON),
])  # fmt: skip
def test_refusals_without_a_reason_and_errors_are_not_written(status: Status) -> None:
    desk = Desk()
    info = desk.pod()
    desk.reporter.held(info, status)
    assert desk.reporter.next_due() is None
    desk.reporter.held(info, refusal("no"))
    desk.reporter.held(info, status)
    assert desk.after(NUMBERS_PERIOD) == []
    assert desk.reporter.statistics().dropped == 1


def test_a_gate_of_another_plugin_has_a_reason_in_any_case_and_is_told_once_a_minute() -> None:
    desk = Desk()
    desk.reporter.held(info := desk.pod(), unresolvable("opens at 9").by("OfficeHours"))
    assert desk.after(DELAY) == ["a: plugin OfficeHours: opens at 9"]
    desk.reporter.held(info, unresolvable("opens tomorrow").by("OfficeHours"))
    assert desk.after(NUMBERS_PERIOD - 0.01) == []
    desk.after(0.01)
    assert desk.statuses.written == [("a", GATED_BY_PLUGIN, "plugin OfficeHours: opens tomorrow")]


def _open(desk: Desk, info: QueuedPodInfo) -> None:
    info.gating_plugin = ""


def _in_flight(desk: Desk, info: QueuedPodInfo) -> None:
    desk.queued.uids.discard(info.uid)


def _attempted(desk: Desk, info: QueuedPodInfo) -> None:
    info.attempts += 1


def _deleted(desk: Desk, info: QueuedPodInfo) -> None:
    del desk.informer[info.key]


def _replaced(desk: Desk, info: QueuedPodInfo) -> None:
    desk.informer[info.key] = make_pod("a", uid="another")


def _bound(desk: Desk, info: QueuedPodInfo) -> None:
    pod = make_pod("a")
    pod.spec.node_name = "n1"
    desk.informer[info.key] = pod


def _terminating(desk: Desk, info: QueuedPodInfo) -> None:
    info.pod.metadata.deletion_timestamp = "2026-01-01T00:00:00Z"


def _rejected_by_an_attempt(desk: Desk, info: QueuedPodInfo) -> None:
    assert not desk.reporter.superseded(info.uid)


@pytest.mark.parametrize(
    "moves_on",
    [
        _open, _in_flight, _attempted, _deleted, _replaced, _bound, _terminating,
        _rejected_by_an_attempt,
    ],
)  # fmt: skip
def test_nothing_is_written_about_a_pod_that_has_moved_on(moves_on: object) -> None:
    desk = Desk()
    info = desk.pod()
    desk.reporter.held(info, refusal("no"))
    assert callable(moves_on)
    moves_on(desk, info)
    assert desk.after(DELAY) == []
    assert desk.after(NUMBERS_PERIOD) == []
    assert desk.reporter.statistics().waiting == 0


def test_only_the_last_of_several_refusals_is_written_and_none_prolongs_the_wait() -> None:
    desk = Desk()
    info = desk.pod()
    for step, text in enumerate(("first", "second", "third")):
        desk.reporter.held(info, refusal(text))
        assert desk.after(0.25) == [], step
    assert desk.after(0.25) == ["a: third"]
    assert len(desk.woken) == 1


def test_the_same_refusal_is_written_once() -> None:
    desk = Desk()
    info = desk.pod()
    for _ in range(3):
        desk.reporter.held(info, refusal("no"))
    assert desk.after(DELAY) == ["a: no"]
    for _ in range(100):
        desk.reporter.held(info, refusal("no"))
        assert desk.after(0.5) == []
    assert desk.reporter.statistics().unchanged == 100


def test_a_refusal_that_was_taken_back_before_it_was_written_leaves_no_trace() -> None:
    desk = Desk()
    info = desk.pod()
    desk.reporter.held(info, refusal("no"))
    desk.after(DELAY)
    desk.reporter.held(info, refusal("something else"))
    desk.reporter.held(info, refusal("no"))
    assert desk.after(NUMBERS_PERIOD - DELAY - 1) == []


def test_numbers_alone_are_written_once_a_minute() -> None:
    desk = Desk()
    info = desk.pod()
    desk.reporter.held(info, used(0))
    desk.after(DELAY)
    writes = []
    for second in range(1, 200):
        desk.reporter.held(info, used(second))
        writes += desk.after(1.0)
    assert [text.partition(",")[0] for text in writes] == ["a: 60", "a: 120", "a: 180"]


def test_another_kind_of_refusal_does_not_wait_for_the_minute() -> None:
    desk = Desk()
    info = desk.pod()
    desk.reporter.held(info, used(1))
    desk.after(DELAY)
    desk.reporter.held(info, used(2))
    assert desk.after(5) == []
    desk.reporter.held(info, refusal("another quota"))
    assert desk.after(0) == ["a: another quota"]
    desk.reporter.held(info, refusal("another quota", "OtherReason"))
    desk.after(DELAY)
    assert desk.statuses.written == [("a", "OtherReason", "another quota")]


def test_ten_thousand_held_pods_cause_no_write_each_per_event() -> None:
    desk = Desk()
    infos = [desk.pod(f"p{number}") for number in range(10_000)]
    for info in infos:
        desk.reporter.held(info, used(10))
    assert len(desk.after(DELAY)) == MAX_PER_TURN
    while desk.after(0):
        pass
    assert desk.reporter.statistics().written == 10_000
    for event in range(5):
        for info in infos:
            desk.reporter.held(info, used(9 - event))
        assert desk.after(2.0) == []
    assert desk.reporter.statistics().written == 10_000


def test_after_a_restart_what_the_pod_says_is_taken_as_written() -> None:
    desk = Desk()
    info = desk.pod(reason=REASON, message="no")
    desk.reporter.held(info, refusal("no"))
    assert desk.after(DELAY) == []
    desk.reporter.held(info, refusal("more"))
    assert desk.after(DELAY) == ["a: more"]
    other = desk.pod("b", reason="Unschedulable", message="no")
    desk.reporter.held(other, refusal("no"))
    assert desk.after(DELAY) == ["b: no"]


def test_whether_a_gate_or_an_attempt_says_it_is_no_news_not_even_after_a_restart() -> None:
    desk = Desk()
    attempt = f"0/1 nodes are available: used: cpu=1. preemption: {NOT_HELPFUL}"
    info = desk.pod(reason=REASON, message=attempt)
    desk.reporter.held(info, refusal("used: cpu=1"))
    assert desk.after(NUMBERS_PERIOD * 2) == []
    desk.reporter.held(info, refusal("used: cpu=1"))
    assert desk.after(NUMBERS_PERIOD * 2) == []
    desk.reporter.held(info, refusal("used: cpu=2"))
    assert desk.after(NUMBERS_PERIOD) == ["a: 2"]


def test_what_an_attempt_wrote_meanwhile_is_written_over() -> None:
    """Held, admitted, Unschedulable, held again: the watch may still show the first condition."""
    desk = Desk()
    info = desk.pod()
    desk.reporter.held(info, refusal("no"))
    desk.after(DELAY)
    desk.show(info, reason=REASON, message="no")
    assert desk.reporter.superseded(info.uid)
    assert not desk.reporter.superseded(info.uid)
    info.attempts += 1
    desk.reporter.held(info, refusal("no"))
    assert desk.after(DELAY) == ["a: no"]
    assert desk.statuses.afresh == [False, True]


def test_the_condition_known_here_proves_nothing_after_an_attempt() -> None:
    desk = Desk()
    info = desk.pod(reason=REASON, message="no")
    info.attempts = 1
    assert not desk.reporter.superseded(info.uid)
    desk.reporter.held(info, refusal("no"))
    assert desk.after(DELAY) == ["a: no"]
    assert desk.statuses.afresh == [True]


@pytest.mark.parametrize("arrived", [True, False])
def test_a_write_that_never_arrived_is_made_again_at_a_later_refusal(arrived: bool) -> None:
    desk = Desk()
    info = desk.pod()
    desk.reporter.held(info, refusal("no"))
    desk.after(DELAY)
    if arrived:
        desk.show(info, reason=REASON, message="no")
    desk.after(NUMBERS_PERIOD)
    desk.reporter.held(info, refusal("no"))
    assert desk.after(DELAY) == ([] if arrived else ["a: no"])


def test_an_attempt_that_was_turned_down_with_a_reason_is_reported_the_same_way() -> None:
    desk = Desk()
    info = desk.pod()
    info.gating_plugin = ""
    info.attempts = 1
    desk.reporter.rejected(info, REASON, "no")
    desk.reporter.rejected(info, REASON, "no")
    assert desk.after(DELAY) == ["a: no"]
    info.attempts = 2
    desk.reporter.rejected(info, REASON, "no")
    assert desk.after(DELAY) == []
    desk.reporter.rejected(info, REASON, "yes")
    info.attempts = 3
    assert desk.after(DELAY) == [], "another attempt is under way or over"


def test_pods_that_are_gone_are_forgotten() -> None:
    desk = Desk()
    for number in range(5_000):
        info = desk.pod(f"p{number}")
        desk.reporter.held(info, refusal("no"))
        if number >= 10:
            del desk.informer[info.key]
    assert desk.reporter.statistics().pods <= 1_000 + 10
    while desk.reporter.next_due() is not None:
        desk.after(DELAY)
    assert desk.reporter.statistics().written == 10


@pytest.mark.parametrize(
    ("message", "other", "same"),
    [
        ("used: cpu=10", "used: cpu=9", True),
        ("used: cpu=1500m", "used: cpu=2", True),
        ("memory=2.5Gi", "memory=512Mi", True),
        ("0/5 nodes are available", "0/12 nodes are available", True),
        ("waits 1m30s.", "waits 2m.", True),
        ("over by -3", "over by 12", True),
        ("quota team-1 exceeded", "quota team-2 exceeded", False),
        ("quota a2 exceeded", "quota a3 exceeded", False),
        ("used: cpu=1", "used: memory=1", False),
        (f"0/1 nodes are available: used: cpu=1. preemption: {NOT_HELPFUL}", "used: cpu=2", True),
        ("used: cpu=1", "used: cpu=1, memory=1", False),
    ],
)
def test_messages_that_differ_in_numbers_only_are_of_one_class(
    message: str, other: str, same: bool
) -> None:
    assert (message_class(message) == message_class(other)) is same


@given(st.integers(0, 10**18), st.sampled_from(["", "m", "Ki", "Gi", "e3"]))
def test_every_quantity_is_a_number(value: int, unit: str) -> None:
    assert message_class(f"cpu={value}{unit},") == "cpu=#,"


def test_a_hostile_message_is_classified_in_linear_time() -> None:
    # Backtracking would take longer than the universe has left.
    assert message_class("1" * 5_000 + "-").endswith("-")


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["hold", "attempt", "show", "open"]),
            st.sampled_from(["used 1", "used 2", "broke"]),
            st.sampled_from([0.0, 0.4, 2.0, 70.0]),
        ),
        max_size=30,
    )
)
def test_in_the_end_the_status_says_what_holds_the_pod(steps: list[tuple[str, str, float]]) -> None:
    """Whatever happened: two minutes after the last refusal, and never two writes in a second."""
    desk = Desk()
    info = desk.pod()
    shown = ""
    times: list[float] = []
    for step, message, pause in [*steps, ("hold", "used 1", 0.0), ("wait", "", 61.0)]:
        if step == "hold":
            info.gating_plugin = "Quota"
            desk.reporter.held(info, refusal(message))
        elif step == "attempt":
            desk.reporter.superseded(info.uid)
            info.attempts += 1
            shown = "unschedulable"
        elif step == "open":
            info.gating_plugin = ""
        elif step == "show":
            desk.show(info, reason=REASON, message=shown)
        before = len(desk.statuses.afresh)
        desk.after(pause)
        if len(desk.statuses.afresh) > before:
            shown = desk.statuses.written[-1][2]
            times.append(desk.clock.time)
    assert shown == "used 1"
    assert all(later - earlier >= DELAY for earlier, later in pairwise(times))


# -- StatusWriter --------------------------------------------------------------------------------


@pytest.mark.parametrize("afresh", [False, True])
def test_a_condition_is_written_afresh_only_where_the_watch_cannot_be_trusted(afresh: bool) -> None:
    dispatcher = RecordingDispatcher()
    nominator = QueueNominator(lambda namespace, name: None, dispatcher.nomination_under_way)
    writer = StatusWriter(dispatcher, Clock(), nominator)
    since = "2026-01-01T00:00:00Z"
    pod = make_pod("a")
    shown = Condition(
        type=POD_SCHEDULED, status="False", reason=REASON, message="no", last_transition_time=since
    )
    pod.status.conditions = (shown,)
    writer.not_scheduled(pod, REASON, "no", afresh=afresh)
    assert len(dispatcher.patches) == (1 if afresh else 0)
    for patch in dispatcher.patches:
        (condition,) = patch.conditions
        assert (condition.reason, condition.message) == (REASON, "no")
        assert condition.last_transition_time == since


# -- FailureHandler ------------------------------------------------------------------------------


def rejected() -> tuple[Service, GateReporter]:
    """A service whose pods are all rejected with a reason of its plugin's own."""
    service = Service(plugin("Quota", filter=lambda *_: refusal("no")))
    service.world.nodes("n1")
    return service, service.gates


async def test_an_attempt_with_a_reason_of_its_own_is_written_after_the_delay() -> None:
    service, reporter = rejected()
    service.pending("p")
    await service.attempt()
    assert service.dispatcher.patches == []
    service.clock.time += DELAY
    reporter.run_due()
    (patch,) = service.dispatcher.patches
    assert patch.conditions[0].reason == REASON
    assert patch.nominated_node_name is None


async def test_a_nomination_that_ends_is_written_at_once_with_the_reason() -> None:
    service, reporter = rejected()
    service.pending("p", nominated="n1")
    await service.attempt()
    (patch,) = service.dispatcher.patches
    assert patch.conditions[0].reason == REASON
    assert patch.nominated_node_name == ""
    assert reporter.next_due() is None
