"""DecisionHistory: its bounds hold after any sequence of decisions, and bytes are counted."""

from __future__ import annotations

import gc
import tracemalloc
from struct import Struct
from typing import Any, Final

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from scheduler.engine.metrics import POINTS
from scheduler.explain.records import DecisionResult, RejectionCount
from scheduler.history import DecisionHistory
from scheduler.history.history import BYTES_PER_POD
from scheduler.history.remembered import BINDING, NUMBERS, Reason, Remembered
from scheduler.history.scores import BestNodes, Layout

LAYOUT: Final = Layout(
    ((0, True), (1, False), (2, False)),
    Struct("<qqbbb"),
    (("TaintToleration", 3, True), ("NodeResourcesFit", 1, False), ("ImageLocality", 1, False)),
)
NODES: Final = tuple(f"node-{number:06d}" for number in range(5000))


def remembered(
    history: DecisionHistory, uid: str, attempt: int, *, fails: str = "", best: int = 0
) -> Remembered:
    seconds = [0.001] * (1 + len(POINTS))
    numbers = NUMBERS.pack(history.seq + 1, 1.5e9, 5000, 5000, best, *seconds, False)
    names = tuple(NODES[(history.seq + each) % len(NODES)] for each in range(best))
    scores, chosen = None, b""
    if best:
        packed = [LAYOUT.one.pack(400 - each, 0, 100, 98, 2) for each in range(best)]
        scores = BestNodes(names, b"".join(packed), LAYOUT)
        chosen = packed[0]
    reason = None
    if fails:
        rejections = (RejectionCount("NodeResourcesFit", "Unschedulable", fails, 5000, fails),)
        reason = Reason(DecisionResult.UNSCHEDULABLE, f"0/5000 nodes: {fails}", rejections)
    node = names[0] if names else ""
    return Remembered(
        uid, "kubestow", attempt, "NodeAdd", "", node, numbers, scores, chosen, reason
    )


class Ring(RuleBasedStateMachine):
    """Records, ends, resizes and asks in any order, beside a plain model."""

    def __init__(self) -> None:
        super().__init__()
        self.pods, self.attempts = 3, 2
        self.history = DecisionHistory(self.pods, self.attempts)
        self.model: dict[str, list[int]] = {}

    @rule(
        name=st.sampled_from("abcdef"),
        incarnation=st.integers(0, 2),
        fails=st.sampled_from(["", "Insufficient cpu", "x" * 300]),
        best=st.integers(0, 5),
    )
    def decide(self, name: str, incarnation: int, fails: str, best: int) -> None:
        key = f"default/{name}"
        made = remembered(self.history, f"{name}{incarnation}", 1, fails=fails, best=best)
        self.history.record(key, made)
        if not self.pods:
            return
        decisions = self.model.pop(key, [])
        self.model[key] = [*decisions, self.history.seq][-self.attempts :]
        self.trim()

    def trim(self) -> None:
        self.model = dict(list(self.model.items())[-self.pods :]) if self.pods else {}
        # Where texts are long, the bound of bytes lets go of more.
        for key in list(self.model):
            if not self.history.of_pod(*key.split("/")):
                del self.model[key]

    @rule(
        name=st.sampled_from("abcdef"),
        fails=st.sampled_from(["", "y", "z" * 200]),
        binds=st.booleans(),
    )
    def end(self, name: str, fails: str, binds: bool) -> None:
        found = self.history.of_pod("default", name)
        if not found:
            return
        last = self.history.last(f"default/{name}", found[-1].uid, 1)
        assert last is not None
        reason = Reason(DecisionResult.ERROR, fails) if fails else None
        self.history.explain(last, reason)
        if binds:
            last.binding = BINDING.pack(2e9, -1.0, -1.0, 0.5)
        self.trim()

    @rule(pods=st.integers(0, 5), attempts=st.integers(1, 4))
    def resize(self, pods: int, attempts: int) -> None:
        self.pods, self.attempts = pods, attempts
        self.history.resize(pods, attempts)
        self.model = {key: seqs[-attempts:] for key, seqs in self.model.items()}
        self.trim()

    @invariant()
    def bounds_hold(self) -> None:
        statistics = self.history.statistics()
        assert statistics.pods == len(self.history) <= self.pods
        assert statistics.decisions <= self.pods * self.attempts
        assert 0 <= statistics.bytes <= self.pods * BYTES_PER_POD
        assert statistics.pods or not statistics.bytes

    @invariant()
    def the_last_decisions_are_known(self) -> None:
        for key, seqs in self.model.items():
            assert [each.seq for each in self.history.of_pod(*key.split("/"))] == seqs
        everything = sorted(seq for seqs in self.model.values() for seq in seqs)
        for limit in (1, 3, 100):
            assert [each.seq for each in self.history.latest(limit)] == everything[-limit:]
        after = [each for each in everything if each > 2]
        assert [each.seq for each in self.history.latest(100, since_seq=2)] == after


TestRing: Any = Ring.TestCase
TestRing.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)


def test_the_oldest_pod_goes_first_and_a_new_decision_keeps_a_pod() -> None:
    history = DecisionHistory(2, 5)
    for name in ("a", "b", "a", "c"):
        history.record(f"x/{name}", remembered(history, name, 1))
    assert [each.pod for each in history.latest(10)] == ["x/a", "x/a", "x/c"]
    assert history.statistics().evicted_pods == 1


def test_nothing_is_remembered_where_the_history_is_off() -> None:
    history = DecisionHistory(0)
    assert not history.enabled
    history.record("x/a", remembered(history, "a", 1))
    assert not history.latest(10)
    assert not history.bytes_used


def test_decisions_of_one_namespace() -> None:
    history = DecisionHistory()
    for namespace in ("x", "y", "x"):
        history.record(f"{namespace}/a", remembered(history, "a", 1))
    assert [each.seq for each in history.latest(1, namespace="y")] == [2]
    assert [each.seq for each in history.latest(5, namespace="x")] == [1, 3]


@pytest.mark.slow
@pytest.mark.parametrize("attempts", [1, 5])
def test_counted_bytes_are_those_that_python_holds(attempts: int) -> None:
    """Four rejections with a text of their own template, then a placement with five scores."""
    pods = 2000
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        history = DecisionHistory(pods)
        for attempt in range(1, attempts + 1):
            for pod in range(pods):
                last = attempt == attempts
                fails = "" if last else f"Insufficient cpu {pod % 50} {attempt}"
                uid = f"{pod:036d}"
                made = remembered(history, uid, attempt, fails=fails, best=5 if last else 0)
                history.record(f"default/deployment-{pod:08x}-abcde", made)
                if last:
                    made.binding = BINDING.pack(2e9, -1.0, -1.0, 0.5)
        gc.collect()
        held = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert len(history) == pods, "all of them are within the bound"
    assert held <= history.bytes_used <= 1.5 * held
    assert history.bytes_used <= pods * BYTES_PER_POD


def test_long_texts_are_within_the_bound_of_bytes() -> None:
    history = DecisionHistory(100)
    for pod in range(100):
        history.record(f"x/{pod}", remembered(history, "u", 1, fails=f"{pod} " + "é" * 5000))
    assert 0 < len(history) < 100
    assert history.bytes_used <= 100 * BYTES_PER_POD
