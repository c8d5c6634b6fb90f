"""BindingBarrier: binds the members of a group once all of them are ready, or none of them.

Each binding cycle arrives at the barrier after PreBind. When the last one has arrived, every member
is checked again: it must still be assumed, and must still fit on its node if another writer has
changed that. No other code runs between this check and the first bind. If a member fails before, no
member is bound. From the first bind on nothing can be undone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from scheduler.engine import Attempt, Failure
from scheduler.engine.failure import REASON_UNSCHEDULABLE

UNDONE: Final = "{group}: not bound, because member {pod} could not be: {why}"
LEFT: Final = "it was deleted or its binding cycle ended"


class BindingBarrier:
    """The barrier of one group. Used only from the scheduling loop's event loop."""

    def __init__(
        self,
        group: str,
        attempts: Sequence[Attempt],
        is_assumed: Callable[[str], bool],
        recheck: Callable[[Attempt], Failure | None],
        on_failure: Callable[[Attempt, Failure, bool], None],
    ) -> None:
        """Prepare.

        `recheck` returns why a member no longer fits on its node. `on_failure` is called with the
        member that keeps all from being bound, why, and True; or (False) each that is not bound
        after the first bind.
        """
        self.group = group
        self._attempts = {attempt.info.uid: attempt for attempt in attempts}
        self._is_assumed = is_assumed
        self._recheck = recheck
        self._on_failure = on_failure
        self._arrived: set[str] = set()
        self._open = asyncio.Event()
        #: UID and failure of the member that keeps all members from being bound.
        self._broken: tuple[str, Failure] | None = None

    async def arrive(self, attempt: Attempt) -> Failure | None:
        """Wait for the other members; return why this one must not be bound, or None."""
        self._arrived.add(attempt.info.uid)
        if self._open.is_set():
            return self._failure_of(attempt)
        if len(self._arrived) == len(self._attempts):
            self._decide()
        else:
            await self._open.wait()
        return self._failure_of(attempt)

    async def opened(self, attempt: Attempt) -> Failure | None:
        """Like `arrive`, for members beyond the minimum: the barrier does not wait for them."""
        await self._open.wait()
        return self._failure_of(attempt)

    @property
    def is_open(self) -> bool:
        """Whether the decision has been made, in favour of binding or against it."""
        return self._open.is_set()

    def leave(self, attempt: Attempt, failure: Failure | None = None) -> None:
        """Handle the end of a binding cycle; if it has not arrived, no member is bound."""
        if attempt.info.uid not in self._arrived and not self._open.is_set():
            self._break(attempt, failure or _left())
        elif failure is not None and failure.message and self._broken is None:
            self._on_failure(attempt, failure, False)

    def _decide(self) -> None:
        for uid, attempt in self._attempts.items():
            failure = self._recheck(attempt) if self._is_assumed(uid) else _left()
            if failure is not None:
                self._break(attempt, failure)
                return
        self._open.set()

    def _break(self, attempt: Attempt, failure: Failure) -> None:
        self._broken = attempt.info.uid, failure
        self._open.set()
        self._on_failure(attempt, failure, True)

    def _failure_of(self, attempt: Attempt) -> Failure | None:
        if self._broken is None:
            return None
        uid, failure = self._broken
        if uid == attempt.info.uid:
            return failure
        pod = self._attempts[uid].info.key
        text = UNDONE.format(group=self.group, pod=pod, why=failure.message)
        return Failure(reason=REASON_UNSCHEDULABLE, message=text, nominating=None)


def _left() -> Failure:
    return Failure(reason=REASON_UNSCHEDULABLE, message=LEFT, nominating=None)
