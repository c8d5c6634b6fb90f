"""A judgement of disagreement waits for bindings that arrive in another order."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

from scheduler.api.pod import Pod
from scheduler.explain.records.shadow import ShadowPod, ShadowVerdict
from scheduler.service.subscriptions import SubscriptionBoard
from scheduler.shadow.doubts import DOUBT_SECONDS, MAX_DOUBTS, Doubts
from scheduler.shadow.judging import Look


class Stage:
    """Doubts with a clock, and looks that the test decides."""

    def __init__(self) -> None:
        self.now = 100.0
        self.agrees = True
        self.aside: list[set[str]] = []
        self.final: list[ShadowPod] = []
        self.timers = 0
        assessor: Any = self
        clock: Any = self
        subscriptions = SubscriptionBoard(self.timer)
        self.doubts = Doubts(assessor, self.without, clock, self.final.append, subscriptions)

    def timer(self) -> None:
        self.timers += 1

    def monotonic(self) -> float:
        return self.now

    def look(self, pod: Pod, there: str) -> Look:
        return Look("other", agrees=self.agrees, fits=True)

    @contextmanager
    def without(self, uids: Collection[str]) -> Iterator[None]:
        self.aside.append(set(uids))
        yield

    def add(self, number: int, verdict: ShadowVerdict = ShadowVerdict.OTHER) -> None:
        judged = ShadowPod(
            pod=f"a/{number}", uid=str(number), profile="p", verdict=verdict, there="n",
            bound=1.0, plugin="Fit", message="why",
        )  # fmt: skip
        self.doubts.add(judged, Pod(), number)
        self.doubts.applied(str(number), number)

    @property
    def verdicts(self) -> list[tuple[str, ShadowVerdict]]:
        return [(each.pod, each.verdict) for each in self.final]


def test_agreement_is_final_at_once() -> None:
    stage = Stage()
    stage.add(1, ShadowVerdict.TIE)
    assert stage.verdicts == [("a/1", ShadowVerdict.TIE)]
    assert stage.doubts.next_due() is None


def test_an_earlier_pod_may_explain_a_later_one() -> None:
    stage = Stage()
    stage.add(2)
    stage.add(3)
    assert stage.verdicts == []
    stage.add(1, ShadowVerdict.SAME)
    # Without the pod itself, and those that came after it.
    assert stage.aside == [{"2", "3"}, {"3"}]
    assert stage.verdicts == [
        ("a/1", ShadowVerdict.SAME),
        ("a/2", ShadowVerdict.WINDOW),
        ("a/3", ShadowVerdict.WINDOW),
    ]
    assert (stage.final[1].plugin, stage.final[1].message) == ("", "")


def test_a_later_pod_explains_nothing() -> None:
    stage = Stage()
    stage.add(1)
    stage.add(2, ShadowVerdict.SAME)
    assert stage.aside == []
    stage.now += DOUBT_SECONDS
    assert stage.doubts.next_due() == stage.now
    stage.doubts.run_due()
    assert stage.verdicts[-1] == ("a/1", ShadowVerdict.OTHER)
    assert stage.final[-1].plugin == "Fit"


def test_a_doubt_that_remains_is_kept_until_its_time_is_over() -> None:
    stage = Stage()
    stage.agrees = False
    stage.add(2)
    stage.add(1, ShadowVerdict.SAME)
    assert stage.verdicts == [("a/1", ShadowVerdict.SAME)]
    stage.doubts.run_due()
    assert len(stage.final) == 1
    stage.doubts.settle()
    assert stage.verdicts[-1] == ("a/2", ShadowVerdict.OTHER)


def test_doubts_are_bounded() -> None:
    stage = Stage()
    for number in range(MAX_DOUBTS + 3):
        stage.add(number)
    assert [each.pod for each in stage.final] == ["a/0", "a/1", "a/2"]
    assert stage.timers == MAX_DOUBTS + 3
