"""Asker: answers questions about the live state in slices, between others of the loop's work.

Each slice is one step of a question: a trial, which is applied, decided on and undone before
anything else runs. Slices begin only while no scheduling cycle is suspended and no relist is being
applied, and after each the loop is left to the scheduler for as long as the slice took.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass, replace
from time import thread_time
from typing import Final, TypeVar

from scheduler.api.pod import Pod
from scheduler.explain.records import Remedies, WhatIfQuestion, WhatIfResult
from scheduler.explain.what_if.changes import ChangeError, as_json
from scheduler.explain.what_if.limits import check_pod
from scheduler.explain.what_if.questions import ALONE, NO_QUOTA, NO_RESERVE, Answer, Question, parse
from scheduler.explain.what_if.remedies.search import ChangeSearch
from scheduler.explain.what_if.statistics import AskerStatistics
from scheduler.explain.what_if.trial import TrialParts
from scheduler.framework import Clock
from scheduler.service.questions import NotSyncedError, TooManyQuestionsError, asking_user

T = TypeVar("T")

SLICE_SECONDS: Final = 0.004
"""CPU time of one decision, after which it is cut. With applying and undoing below 10 ms."""
MAX_QUESTIONS: Final = 8
"""Questions answered at the same time; each waits for the others' slices."""
MAX_QUESTIONS_OF_USER: Final = 4
"""Those of one user, so that others can still ask."""
MIN_PAUSE: Final = 0.001
HELD_UP: Final = "nothing was tried in time, because a scheduling cycle was held up; ask again"


@dataclass(slots=True)
class Slices:
    """Measurements of the slices of one question."""

    count: int = 0
    longest: float = 0.0
    #: The longest in CPU time, which other processes of the machine do not lengthen.
    longest_cpu: float = 0.0
    #: The time ended before the question.
    cut: bool = False
    #: The state changed between two slices.
    changed: bool = False


class Asker:
    """Touched from the event loop that owns the state."""

    def __init__(
        self,
        parts: TrialParts,
        *,
        at_rest: Callable[[], Awaitable[None]],
        versions: Callable[[], str],
        clock: Clock,
        leading: Callable[[], bool],
        synced: Callable[[], bool],
    ) -> None:
        """`at_rest` waits until no cycle is suspended and no relist is applied.

        `synced`: all first lists are in.
        """
        self._parts = parts
        self._at_rest = at_rest
        self._versions = versions
        self._clock = clock
        self._leading = leading
        self._synced = synced
        self._users: Counter[str] = Counter()
        #: Held for a slice and the pause after it.
        self._turn = asyncio.Lock()
        self._statistics = AskerStatistics()

    def statistics(self) -> AskerStatistics:
        """Return counts."""
        return replace(self._statistics)

    async def what_if(self, body: bytes) -> WhatIfResult:
        """Answer `POST /debug/whatif`.

        Raises:
            ValueError: the question makes no sense.
            LookupError: there is no such pod.
            NotSyncedError: nothing can be said yet.
            QuestionFailedError: a plugin raised.
            TooManyQuestionsError: too many are being answered.
        """
        self._check_synced()
        asked = parse(body)
        question = Question(self._parts, asked, slice_seconds=SLICE_SECONDS)
        version, now = self._versions(), self._clock.now()
        slices = Slices()
        await self._run(question.run(), asked.seconds, slices)
        return _result(question.answer, asked, slices, version, now, self._leading())

    async def remedies(self, pod: str, limit: int, seconds: float) -> Remedies:
        """Return the remedies of a pending pod, `namespace/name`, that are found in time.

        Steps that take little are tried first. Of a pod that is too large none are looked for.

        Raises:
            LookupError: it does not wait any more.
            NotSyncedError: nothing can be said yet.
            TooManyQuestionsError: too many are being answered.
        """
        self._check_synced()
        search = ChangeSearch(self._parts, pod, limit=limit, seconds=SLICE_SECONDS)
        slices = Slices()
        stored: Pod | None = self._parts.stores["pods"].by_key(pod)
        try:
            if stored is not None:
                check_pod(as_json(stored), pod)
            found = await self._run(search.run(), seconds, slices)
        except ChangeError as error:
            return Remedies(complete=False, note=str(error))
        if found is None:
            found = search.report(complete=False)
        return replace(found, changed=slices.changed)

    async def _run(
        self, steps: Generator[None, None, T], seconds: float, slices: Slices
    ) -> T | None:
        """Run all steps; None if the time was over before."""
        user = asking_user.get()
        self._admit(user)
        monotonic, table = self._clock.monotonic, self._parts.cache.table
        end = monotonic() + seconds
        stamp = None
        try:
            while True:
                async with self._turn:
                    if not await self._rests(end - monotonic()):
                        slices.cut = True
                        return None
                    if stamp not in (None, (table.sequence, table.revision)):
                        slices.changed = True
                    began, began_cpu = monotonic(), thread_time()
                    try:
                        next(steps)
                    except StopIteration as finished:
                        found: T = finished.value
                        return found
                    finally:
                        took = monotonic() - began
                        self._count(slices, took, thread_time() - began_cpu)
                        stamp = table.sequence, table.revision
                    if monotonic() >= end:
                        slices.cut = True
                        return None
                    await asyncio.sleep(max(took, MIN_PAUSE))
        finally:
            steps.close()
            self._leave(user)

    def _check_synced(self) -> None:
        if not self._synced():
            raise NotSyncedError(
                "the scheduler has not read all nodes and pods yet, so that the answer could be "
                "wrong; ask again in a moment"
            )

    def _admit(self, user: str) -> None:
        """Count a question. Raises TooManyQuestionsError."""
        own = self._users[user]
        if own >= MAX_QUESTIONS_OF_USER or self._statistics.under_way >= MAX_QUESTIONS:
            self._statistics.refused += 1
            whose = "of this user " if own >= MAX_QUESTIONS_OF_USER else ""
            count = own if whose else self._statistics.under_way
            raise TooManyQuestionsError(f"{count} questions {whose}are being answered; ask again")
        self._users[user] += 1
        self._statistics.under_way += 1
        self._statistics.questions += 1

    def _leave(self, user: str) -> None:
        self._users[user] -= 1
        if not self._users[user]:
            del self._users[user]
        self._statistics.under_way -= 1

    async def _rests(self, seconds: float) -> bool:
        """Wait until a slice may begin; False if it may not in time."""
        try:
            async with asyncio.timeout(seconds):
                await self._at_rest()
        except TimeoutError:
            # An extender or an asynchronous plugin holds a cycle up.
            return False
        return True

    def _count(self, slices: Slices, took: float, cpu: float) -> None:
        slices.count += 1
        slices.longest = max(slices.longest, took)
        self._statistics.slices += 1
        slices.longest_cpu = max(slices.longest_cpu, cpu)
        statistics = self._statistics
        statistics.longest_slice = max(statistics.longest_slice, took)
        statistics.longest_slice_cpu = max(statistics.longest_slice_cpu, cpu)


def _result(
    answer: Answer, asked: WhatIfQuestion, slices: Slices, version: str, now: float, leading: bool
) -> WhatIfResult:
    first, last = answer.first, answer.last
    new = asked.manifest is not None or asked.copies > 1
    by_node: dict[str, int] = {}
    for node in answer.placed:
        by_node[node] = by_node.get(node, 0) + 1
    return WhatIfResult(
        leading=leading,
        now=now,
        resource_version=version,
        changed=slices.changed,
        pod=answer.pod,
        fits=len(answer.placed) >= asked.copies,
        node=answer.placed[0] if answer.placed else "",
        feasible=first.feasible,
        nodes=answer.nodes,
        message=last.message or last.error or ("" if slices.count else HELD_UP),
        plugins=list(last.plugins),
        preemption_node=last.preemption_node,
        victims=list(last.victims),
        copies=len(answer.placed),
        by_node=dict(sorted(by_node.items())),
        complete=answer.complete and not slices.cut,
        slices=slices.count,
        longest_slice=slices.longest,
        notes=[
            NO_RESERVE,
            *([ALONE] if asked.copies > 1 else []),
            *([NO_QUOTA] if new else []),
            *filter(None, [answer.assumed, answer.filled]),
        ],
        why=last.why,
    )
