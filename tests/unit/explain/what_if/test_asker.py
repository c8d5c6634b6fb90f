"""Questions about a live state: in slices, bounded, and honest about what they saw."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import pytest

from scheduler import offline
from scheduler.explain.records import Remedies, WhatIfResult
from scheduler.explain.what_if import questions
from scheduler.explain.what_if.asker import (
    MAX_QUESTIONS,
    MAX_QUESTIONS_OF_USER,
    MIN_PAUSE,
    Asker,
)
from scheduler.explain.what_if.changes import ChangeError
from scheduler.service.questions import NotSyncedError, TooManyQuestionsError, asking_user


@pytest.fixture(autouse=True)
def no_cpu_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no slice end early because a collection of garbage took its CPU time."""
    monkeypatch.setattr(questions, "thread_time", lambda: 0.0)


class Gate:
    """Stands for the scheduling loop: lets slices begin, and calls `between` before each."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.open.set()
        self.slices = 0
        self.synced = True
        self.between: Any = lambda: None

    async def at_rest(self) -> None:
        await self.open.wait()
        self.slices += 1
        self.between()


@contextmanager
def asked_world(*objects: dict[str, Any]) -> Iterator[tuple[offline.World, Gate, Asker]]:
    with offline.World() as world:
        for each in objects:
            world.add(each)
        world.schedule()
        gate = Gate()
        asker = Asker(
            world._assembly.trial_parts(),
            at_rest=gate.at_rest,
            versions=lambda: "42",
            clock=world._assembly.clock,
            leading=lambda: True,
            synced=lambda: gate.synced,
        )
        yield world, gate, asker


def question(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


NODE, BIG = offline.node("n", cpu=4), offline.pod("big", cpu=8)


async def test_an_answer_names_the_version_it_was_asked_at_and_the_reason() -> None:
    with asked_world(NODE, BIG) as (_, _, asker):
        found = await asker.what_if(question(pod="default/big"))
    assert isinstance(found, WhatIfResult)
    assert (found.fits, found.resource_version, found.nodes) == (False, "42", 1)
    assert (found.changed, found.complete) == (False, True)
    assert found.plugins == ["NodeResourcesFit"]


async def test_an_answer_says_that_the_state_changed_between_slices() -> None:
    with asked_world(NODE, BIG) as (world, gate, asker):

        def change() -> None:
            if gate.slices == 2:
                world.cordon("n")
                world._settle()

        gate.between = change
        pod = offline.pod("small", cpu="100m")
        found = await asker.what_if(question(manifest=pod, copies=12))
        remedies = await asker.remedies("default/big", 5, 5.0)
    assert found.changed
    assert isinstance(remedies, Remedies)
    assert not remedies.changed


@pytest.mark.parametrize(
    ("asked", "new"),
    [
        ({"pod": "default/big"}, False),
        ({"pod": "default/big", "copies": 2}, True),
        ({"manifest": offline.pod("small", cpu=1)}, True),
    ],
)
async def test_an_answer_about_new_pods_says_that_no_ordinary_quota_was_checked(
    asked: dict[str, Any], new: bool
) -> None:
    with asked_world(NODE, BIG) as (_, _, asker):
        found = await asker.what_if(question(**asked))
    assert any("ordinary ResourceQuotas are not checked" in each for each in found.notes) is new


async def test_preemption_is_said_and_nobody_is_evicted() -> None:
    low = offline.pod("low", cpu=3, node="n")
    with asked_world(NODE, low) as (world, _, asker):
        high = offline.pod("high", cpu=2, priority=9)
        found = await asker.what_if(question(manifest=high))
        result = world.schedule()
    assert (found.preemption_node, found.victims) == ("n", ["default/low"])
    assert result.evicted == ()


async def test_slices_begin_only_at_rest() -> None:
    with asked_world(NODE, BIG) as (_, gate, asker):
        gate.open.clear()
        task = asyncio.create_task(asker.what_if(question(pod="default/big")))
        for _ in range(20):
            await asyncio.sleep(0)
        assert asker.statistics().slices == 0
        gate.open.set()
        await task
        assert asker.statistics().slices == 3


async def test_a_search_for_remedies_ends_in_time_with_those_found_so_far() -> None:
    nodes = [offline.node(f"n{i}", cpu=1 + i, taints=(f"t{i}:NoSchedule",)) for i in range(4)]
    with asked_world(*nodes, offline.pod("big", cpu=8)) as (world, gate, asker):
        every = await asker.remedies("default/big", 20, 5.0)
        gate.between = lambda: world.run(until=world.now + 0.1)
        some = await asker.remedies("default/big", 20, 0.5)
    assert every.complete
    assert not some.complete
    assert 0 < some.tried < every.tried


async def test_an_answer_does_not_wait_for_a_cycle_that_is_held_up() -> None:
    with asked_world(NODE, BIG) as (_, gate, asker):
        gate.open.clear()
        remedies = await asker.remedies("default/big", 5, 0.01)
        found = await asker.what_if(question(pod="default/big", seconds=0.1))
    assert (remedies.remedies, remedies.complete) == ((), False)
    assert (found.fits, found.complete) == (False, False)
    assert "held up" in found.message


async def test_time_that_is_over_gives_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    with asked_world(NODE, BIG) as (world, gate, asker):
        clock, now = world._assembly.clock, [0.0]
        monkeypatch.setattr(clock, "monotonic", lambda: now[0])

        def pass_time() -> None:
            now[0] += 1.0

        gate.between = pass_time
        pod = offline.pod("small", cpu="100m")
        found = await asker.what_if(question(manifest=pod, copies=30, seconds=4.0))
        remedies = await asker.remedies("default/big", 5, 5.0)
    assert 0 < found.copies < 30
    assert (found.complete, found.fits) == (False, False)
    assert not remedies.complete


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({}, "give either a pod"),
        ({"pod": "default/big", "manifest": {}}, "give either a pod"),
        ({"manifest": {"kind": "Node"}}, "is a Node"),
        ({"manifest": {"spec": []}}, "no Pod"),
        ({"pod": "default/big", "copies": 0}, "from 1 to 100"),
        ({"pod": "default/big", "seconds": 1e9}, "from 0.1 to 30"),
        ({"pod": "default/big", "drop_nodes": ["a=b"]}, "no node has a=b"),
        ({"pod": "default/big", "drop_nodes": ["="]}, "write KEY=VALUE"),
        ({"pod": "default/big", "add_nodes": [{"like": "x"}]}, "no node 'x'"),
        ({"pod": "default/big", "add_nodes": [{"name": "n"}]}, "a node 'n' already"),
        ({"pod": "default/big", "add_nodes": [{"taints": ["x"]}]}, "write KEY=VALUE:EFFECT"),
        ({"pod": "default/big", "add_nodes": [{"resources": {"cpu": "x"}}]}, "Node new-node"),
        ({"pod": "default/big", "fields": {"spec": 1}}, "JSON pointer"),
        ({"pod": "default/big", "fields": {"/spec/schedulerName": "x"}}, "schedulerName is 'x'"),
        ({"pod": "default/big", "fields": {"/metadata/name/x": 1}}, "no fields"),
        ({"pod": "default/big", "fields": {"/spec/foo": 1}}, "Pod default/big: unknown field"),
        ({"manifest": {}, "fields": {"/spec/hostname": 1}}, "does not read spec.hostname"),
        (
            {
                "pod": "default/big",
                "changes": [{"action": "set", "kind": "Node", "name": "n", "path": "/spec/taint"}],
            },
            'Node n: spec.taint is not .* reads; did you mean "taints"',
        ),
        (
            {"pod": "default/big", "changes": [{"action": "remove", "kind": "A", "name": "b"}]},
            "scheduling reads no 'A'",
        ),
    ],
)
async def test_a_question_that_makes_no_sense_is_refused(asked: dict[str, Any], text: str) -> None:
    with asked_world(NODE, BIG) as (world, _, asker):
        before = world._assembly.state.signatures.statistics().references
        with pytest.raises(ChangeError, match=text):
            await asker.what_if(question(**asked))
        world._assembly.state.cache.validate()
        assert world._assembly.state.signatures.statistics().references == before
        assert asker.statistics().under_way == 0


@pytest.mark.parametrize("depth", [100, 400, 900])
async def test_a_value_that_nests_deeply_harms_nobody(depth: int) -> None:
    deep: Any = "x"
    for _ in range(depth):
        deep = [deep]
    fields = {"/spec/affinity": deep, "/metadata/labels/a": deep, "/metadata/labels/b": "c"}
    with asked_world(NODE, BIG) as (world, _, asker):
        with pytest.raises(ChangeError):
            await asker.what_if(question(pod="default/big", fields=fields))
        world._assembly.state.cache.validate()
        assert not (await asker.what_if(question(pod="default/big"))).fits


async def test_a_pod_that_is_gone_is_no_pod() -> None:
    with asked_world(NODE, BIG) as (_, _, asker):
        with pytest.raises(LookupError, match='no pod "default/gone"'):
            await asker.what_if(question(pod="default/gone"))
        with pytest.raises(LookupError, match="does not wait"):
            await asker.remedies("default/gone", 5, 5.0)


async def test_nothing_is_answered_before_the_first_lists_are_in() -> None:
    with asked_world(NODE, BIG) as (_, gate, asker):
        gate.synced = False
        with pytest.raises(NotSyncedError, match="not read all nodes and pods yet"):
            await asker.what_if(question(pod="default/gone"))
        with pytest.raises(NotSyncedError):
            await asker.remedies("default/big", 5, 5.0)
        gate.synced = True
        assert not (await asker.what_if(question(pod="default/big"))).fits


async def test_one_user_leaves_room_for_the_questions_of_others() -> None:
    def ask(user: str) -> asyncio.Task[WhatIfResult]:
        asking_user.set(user)
        return asyncio.create_task(asker.what_if(question(pod="default/big")))

    with asked_world(NODE, BIG) as (_, gate, asker):
        gate.open.clear()
        tasks = [ask("a") for _ in range(MAX_QUESTIONS_OF_USER)]
        refused = ask("a")
        others = [ask("b") for _ in range(MAX_QUESTIONS - MAX_QUESTIONS_OF_USER)]
        await asyncio.sleep(0)
        with pytest.raises(TooManyQuestionsError, match=f"{MAX_QUESTIONS_OF_USER} questions of"):
            await refused
        with pytest.raises(TooManyQuestionsError, match=f"^{MAX_QUESTIONS} questions are"):
            await ask("c")
        gate.open.set()
        await asyncio.gather(*tasks, *others)
        assert asker.statistics().under_way == 0
        await ask("a")


async def test_questions_share_the_pauses() -> None:
    """Between two slices, of whichever questions, the loop is left to others."""
    with asked_world(NODE, BIG) as (_, gate, asker):
        began = list[float]()
        loop = asyncio.get_running_loop()
        gate.between = lambda: began.append(loop.time())
        await asyncio.gather(*(asker.what_if(question(pod="default/big")) for _ in range(3)))
        assert len(began) == asker.statistics().slices
        pauses = [after - before for before, after in pairwise(began)]
    # The last slice of a question ends it, so that nobody waits for it.
    assert sum(pause >= MIN_PAUSE for pause in pauses) >= len(began) - 3 - 1
