"""When which usage is published: the pure half of the usage writer (KEP-5465 design 2.12).

Amounts are absolute and come from one source, the ledger; this module decides only about time:

* an increase is written at once, a decrease when it has lasted `DECREASE_DELAY`, so that a policy
  that reads `status.used` does not admit on a dip;
* one quota is written at most every `INTERVAL`, and what happens in between is one write;
* nothing is written that the object shows already, but each quota once after `begin`;
* what others change in our keys is put right; a failed write is made again with growing delays.

Invariant: at most one write per quota and `MAX_IN_FLIGHT` in all are under way. No clock, no I/O.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Final

from scheduler.client.backoff import Backoff
from scheduler.controllers.quota_usage.quota_patcher import Key

INTERVAL: Final = 0.5
"""Seconds between two writes of one quota."""
DECREASE_DELAY: Final = 2.0
"""Seconds for which usage must have been lower."""
CORRECTION_DELAY: Final = 2.0
"""Seconds before a value that others wrote is overwritten: two writers must not race each other."""
MAX_BACKOFF: Final = 30.0
MAX_IN_FLIGHT: Final = 4

NEVER: Final = math.inf

Usage = Mapping[str, str]
"""Whole numbers by deferred key."""


@dataclass(frozen=True, slots=True)
class Target:
    """What the ledger says of one quota."""

    uid: str
    used: Usage


@dataclass(frozen=True, slots=True)
class Publication:
    """One write to make; answer with `written`, `failed` or `gone`."""

    key: Key
    uid: str
    used: Usage


class _Quota:
    """What is known about one quota's published usage."""

    __slots__ = (
        "backoff",
        "due",
        "highs",
        "in_flight",
        "level",
        "meanwhile",
        "not_before",
        "shown",
        "uid",
        "version",
    )

    def __init__(self, uid: str, backoff: Backoff) -> None:
        self.uid = uid
        self.backoff = backoff
        #: Amounts when they were looked at last.
        self.level: dict[str, int] = {}
        #: By key: (until when it is to be shown, amount), amounts falling.
        self.highs: dict[str, deque[tuple[float, int]]] = {}
        #: What the object shows; None: to be written in any case.
        self.shown: dict[str, int] | None = None
        #: resourceVersion of our last write: what is older tells nothing new.
        self.version = 0
        #: The newest that the watch has shown while a write was under way: version and our keys.
        self.meanwhile: tuple[int, dict[str, int]] = (0, {})
        self.not_before = 0.0
        self.in_flight = False
        self.due = NEVER


class Publications:
    """See the module's docstring. Touched from one event loop."""

    def __init__(self, source: Callable[[Key], Target | None], random: Random) -> None:
        """`source` tells what is used now; None: nothing is to be published (any more)."""
        self._source = source
        self._random = random
        self._quotas: dict[Key, _Quota] = {}
        self._heap: list[tuple[float, Key]] = []
        self._in_flight = 0
        self._begun = False

    def __len__(self) -> int:
        return len(self._quotas)

    # -- what is told ----------------------------------------------------------------------------

    def begin(self) -> None:
        """This process publishes from here on: everything is written once.

        Also after an interruption: writes that were under way then must have ended.
        """
        self._begun = True
        self._in_flight = 0
        for key, quota in self._quotas.items():
            quota.in_flight = False
            quota.shown = None
            self._look(key, quota, 0.0)

    def changed(self, key: Key) -> None:
        """Usage or limits of a quota may have changed."""
        quota = self._quotas.get(key)
        if quota is None:
            quota = self._quotas[key] = self._fresh("")
        self._look(key, quota, quota.not_before)

    def seen(self, key: Key, uid: str, version: int, used: Mapping[str, int], now: float) -> None:
        """The object as the watch shows it, our keys only; `version` is its resourceVersion."""
        quota = self._quotas.get(key)
        if quota is None:
            return
        if quota.in_flight:
            # Of the write or of somebody after it: its answer will tell.
            if uid == quota.uid:
                quota.meanwhile = version, dict(used)
            return
        if quota.shown is None:
            return
        if uid != quota.uid:
            self._quotas[key] = fresh = self._fresh("")
            self._look(key, fresh, 0.0)
        elif version > quota.version and used != quota.shown:
            quota.shown = dict(used)
            self._look(key, quota, max(quota.not_before, now + CORRECTION_DELAY))

    def forget(self, key: Key) -> None:
        """The quota is gone."""
        quota = self._quotas.pop(key, None)
        if quota is not None and quota.in_flight:
            self._in_flight -= 1

    # -- what is to be done ----------------------------------------------------------------------

    def plan(self, now: float) -> tuple[list[Publication], float]:
        """Writes to begin now, and when to ask again unless something happens before."""
        writes: list[Publication] = []
        while self._begun and self._heap and self._in_flight < MAX_IN_FLIGHT:
            due, key = self._heap[0]
            if due > now:
                return writes, due
            heapq.heappop(self._heap)
            quota = self._quotas.get(key)
            if quota is None or quota.due != due:
                continue
            quota.due = NEVER
            write = self._judge(key, quota, now)
            if write is not None:
                writes.append(write)
        # With all slots taken the end of a write is what to wait for.
        return writes, NEVER

    def written(self, write: Publication, version: int) -> None:
        """The write was made; `version` is the object's resourceVersion since, 0 if unknown."""
        quota = self._end(write)
        if quota is not None:
            quota.version = max(quota.version, version)
            quota.shown = {key: int(text) for key, text in write.used.items()}
            quota.backoff.reset()
            due = quota.not_before
            newest, used = quota.meanwhile
            if newest > quota.version and used != quota.shown:
                quota.shown = used
                due += CORRECTION_DELAY
            self._look(write.key, quota, due)

    def failed(self, write: Publication, now: float) -> float:
        """The write may not have been made; returns the seconds until the next try."""
        quota = self._end(write)
        if quota is None:
            return 0.0
        delay = quota.backoff.next()
        quota.shown = None
        quota.not_before = now + delay
        self._look(write.key, quota, quota.not_before)
        return delay

    def gone(self, write: Publication) -> None:
        """There is no such object, or its name is another's: the watch will tell the rest."""
        quota = self._end(write)
        if quota is None:
            return
        target = self._source(write.key)
        if target is None or target.uid == write.uid:
            del self._quotas[write.key]
        else:
            self._look(write.key, quota, 0.0)

    # -- inside ----------------------------------------------------------------------------------

    def _fresh(self, uid: str) -> _Quota:
        backoff = Backoff(self._random, initial=INTERVAL, cap=MAX_BACKOFF)
        return _Quota(uid, backoff)

    def _end(self, write: Publication) -> _Quota | None:
        """The quota of a write that has ended, unless it was forgotten or replaced meanwhile."""
        quota = self._quotas.get(write.key)
        if quota is None or not quota.in_flight or quota.uid != write.uid:
            return None
        quota.in_flight = False
        self._in_flight -= 1
        return quota

    def _look(self, key: Key, quota: _Quota, when: float) -> None:
        if when < quota.due and not quota.in_flight:
            quota.due = when
            heapq.heappush(self._heap, (when, key))

    def _judge(self, key: Key, quota: _Quota, now: float) -> Publication | None:
        target = self._source(key)
        if target is None:
            del self._quotas[key]
            return None
        if quota.uid != target.uid:
            quota = self._quotas[key] = self._fresh(target.uid)
        goal, wake = _goal(quota, target.used, now)
        shown = quota.shown
        if shown is not None and all(shown.get(name) == amount for name, amount in goal.items()):
            self._look(key, quota, wake)
            return None
        quota.in_flight = True
        quota.meanwhile = (0, {})
        quota.not_before = now + INTERVAL
        self._in_flight += 1
        return Publication(key, quota.uid, {name: str(amount) for name, amount in goal.items()})


def _goal(quota: _Quota, used: Usage, now: float) -> tuple[dict[str, int], float]:
    """What is to be shown now, and when that ends by itself."""
    goal: dict[str, int] = {}
    wake = NEVER
    for name, text in used.items():
        amount = int(text)
        highs = quota.highs.setdefault(name, deque())
        before = quota.level.get(name, amount)
        if amount < before:
            while highs and highs[-1][1] <= before:
                highs.pop()
            highs.append((now + DECREASE_DELAY, before))
        while highs and (highs[0][0] <= now or highs[0][1] <= amount):
            highs.popleft()
        quota.level[name] = amount
        goal[name] = highs[0][1] if highs else amount
        if highs:
            wake = min(wake, highs[0][0])
    for name in quota.highs.keys() - used.keys():
        del quota.highs[name]
        quota.level.pop(name, None)
    return goal, wake
