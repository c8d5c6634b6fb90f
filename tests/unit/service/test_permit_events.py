"""Events release pods that wait at Permit for a plugin with `permit_on_events`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from scheduler.api import Pod
from scheduler.client.deltas import Delta, DeltaType
from scheduler.engine import WaitingPod
from scheduler.engine.plugin_calls import run_synchronously
from scheduler.framework import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    Code,
    EventResource,
    QueueingHint,
    Status,
    unschedulable,
)
from tests.unit.engine.harness import plugin
from tests.unit.service.harness import Service
from tests.unit.service.test_event_handlers import node, pod

WAIT = Status(Code.WAIT), 60.0
ALLOW = None, 0.0
POD_UPDATED = ClusterEvent(
    EventResource.TARGET_POD, ActionType.UPDATE | ActionType.UPDATE_POD_LABEL
)
NODE_ADDED = ClusterEvent(EventResource.NODE, ActionType.ADD)


class Permits:
    """Permit answers in order, the last for ever; remembers for which labels it was asked."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[dict[str, str]] = []

    def __call__(self, _state: Any, pod: Pod, _node_name: str) -> Any:
        self.asked.append(dict(pod.metadata.labels))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def permit_plugin(
    permit: Permits,
    *events: ClusterEvent,
    name: str = "P",
    again: bool = True,
    hint: Callable[..., QueueingHint] | None = None,
) -> type[Any]:
    registered: Iterable[Any] = [ClusterEventWithHint(each, hint) for each in events]
    return plugin(
        name, permit=permit, permit_on_events=again, events_to_register=lambda *_: registered
    )


class Waiting:
    """A service with one pod that waits at Permit."""

    def __init__(self, *plugins: type[Any]) -> None:
        self.service = Service(*plugins)
        self.service.world.nodes("n1")
        self.pod = pod(self.service)
        self.service.informer[self.pod.key] = self.pod
        self.service.handlers.pods([Delta(DeltaType.ADDED, self.pod)])
        info = self.service.queue.pop()
        assert info is not None
        attempt = run_synchronously(self.service.loop.schedule(info))
        assert attempt is not None
        found = attempt.waiting
        assert found is not None
        self.waiting: WaitingPod = found

    def add_node(self, name: str = "n2") -> None:
        self.service.handlers.nodes([Delta(DeltaType.ADDED, node(name))])

    def update_pod(self, version: str = "2", **labels: str) -> None:
        updated = pod(self.service, version=version, labels=labels)
        self.service.handlers.pods([Delta(DeltaType.MODIFIED, updated, self.pod)])
        self.pod = updated

    def outcome(self) -> str:
        """Empty while the pod waits, or code, plugin and message of the end."""
        result = self.waiting.result
        return "" if result is None else f"{result.code.label} {result.plugin} {result.message}"


def test_a_registered_event_runs_permit_again_and_releases_the_pod() -> None:
    permit = Permits(WAIT, WAIT, ALLOW)
    world = Waiting(permit_plugin(permit, NODE_ADDED))
    world.add_node("n2")
    assert world.outcome() == ""
    world.add_node("n3")
    assert world.outcome() == "Success  "
    world.add_node("n4")
    assert len(permit.asked) == 3


@pytest.mark.parametrize(
    "made",
    [
        permit_plugin(Permits(WAIT), NODE_ADDED, again=False),
        permit_plugin(Permits(WAIT), POD_UPDATED),
        permit_plugin(Permits(WAIT), NODE_ADDED, hint=lambda *_: QueueingHint.SKIP),
    ],
    ids=["not asked for", "another event", "the hint skips"],
)
def test_other_events_leave_permit_alone(made: Any) -> None:
    world = Waiting(made)
    world.add_node()
    assert world.outcome() == ""
    assert len(made.permit.asked) == 1


def test_permit_sees_the_changed_pod() -> None:
    permit = Permits(WAIT, ALLOW)
    world = Waiting(permit_plugin(permit, POD_UPDATED))
    world.update_pod(approved="yes")
    assert permit.asked == [{}, {"approved": "yes"}]
    assert world.outcome() == "Success  "


def test_permit_decides_by_what_its_plugin_has_heard_of_the_event() -> None:
    heard: list[Any] = []

    class Counting(Permits):
        def __call__(self, *arguments: Any) -> Any:
            return ALLOW if heard else super().__call__(*arguments)

    world = Waiting(permit_plugin(Counting(WAIT), NODE_ADDED))
    world.service.subscriptions.on_object("nodes", lambda _, new: heard.append(new))
    world.add_node()
    assert [each.name for each in heard] == ["n2"]
    assert world.outcome() == "Success  "


def test_a_rejection_ends_the_wait() -> None:
    world = Waiting(permit_plugin(Permits(WAIT, (unschedulable("no"), 0.0)), NODE_ADDED))
    world.add_node()
    assert world.outcome() == "Unschedulable P no"


def test_a_plugin_that_raises_ends_the_wait_with_an_error_that_names_it() -> None:
    world = Waiting(permit_plugin(Permits(WAIT, ValueError("oh")), NODE_ADDED))
    world.add_node()
    assert world.outcome().startswith("Error")
    assert 'running Permit plugin "P": oh' in world.outcome()
    assert world.waiting.raised is not None
    assert world.waiting.raised.origin == ("P", "Permit")
    assert "n2" in {each.name for each in world.service.cache.table.nodes if each is not None}


def test_a_hint_that_raises_counts_as_queue() -> None:
    def hint(*_: object) -> QueueingHint:
        raise ValueError("oh")

    world = Waiting(permit_plugin(Permits(WAIT, ALLOW), NODE_ADDED, hint=hint))
    world.add_node()
    assert world.outcome() == "Success  "


def test_the_pod_goes_on_waiting_for_plugins_that_nothing_released() -> None:
    first = permit_plugin(Permits(WAIT, ALLOW), NODE_ADDED, name="P1")
    second = permit_plugin(Permits(WAIT), NODE_ADDED, name="P2", again=False)
    world = Waiting(first, second)
    world.add_node()
    assert world.outcome() == ""
    assert world.waiting.pending_plugins() == ["P2"]


def test_waiting_longer_does_not_move_the_timeout() -> None:
    world = Waiting(permit_plugin(Permits(WAIT), NODE_ADDED))
    deadline = world.waiting.deadline()
    world.service.clock.time += 30
    world.add_node()
    assert world.waiting.deadline() == deadline
    assert world.waiting.expire(deadline)
