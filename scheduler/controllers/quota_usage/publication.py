"""Publications: which usage to write when, the pure half of the usage writer.

Amounts are absolute and come from one source, the ledger (docs/deferred-quota.md, rule Q10); this
module decides only about time:

* an increase is written at once, a decrease when it has lasted `DECREASE_DELAY`, so that a policy
  that reads `status.used` does not admit on a dip;
* one quota is written at most every `INTERVAL`; changes in between become one write;
* a write that would change nothing is left out, except the first one of each quota after `begin`;
* changes of deferred keys by other writers are overwritten; a failed write is repeated, with
  growing delays.

Invariant: at most one write per quota and `MAX_IN_FLIGHT` in all are under way. No clock, no I/O.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
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
class Publication:
    """Usage of one quota to be written."""

    key: Key
    uid: str
    used: Usage


@dataclass(slots=True)
class _Quota:
    """The published usage of one quota."""

    uid: str
    backoff: Backoff
    latest: dict[str, int] = field(default_factory=dict)
    """Amounts when they were planned last."""
    delayed: dict[str, deque[tuple[float, int]]] = field(default_factory=dict)
    """Amounts that decreased, by key: (monotonic second until which to publish it, amount) in the
    order of falling amounts."""
    shown: dict[str, int] | None = None
    """What the object contains; None: to be written in any case."""
    version: int = 0
    """resourceVersion of the last write: older objects are ignored."""
    observed_in_flight: tuple[int, dict[str, int]] = (0, {})
    """The newest object observed while a write was under way: version and deferred keys."""
    not_before: float = 0.0
    in_flight: bool = False
    due: float = NEVER


class Publications:
    """The writes that are due, by quota. Touched from one event loop."""

    def __init__(self, source: Callable[[Key], Publication | None], random: Random) -> None:
        """`source(key)` returns the usage now; None: nothing is to be published (any more)."""
        self._source = source
        self._random = random
        self._quotas: dict[Key, _Quota] = {}
        self._heap: list[tuple[float, Key]] = []
        self._in_flight = 0
        self._begun = False

    def __len__(self) -> int:
        return len(self._quotas)

    # -- observations ----------------------------------------------------------------------------

    def begin(self) -> None:
        """Start to publish, every quota once; also after an interruption.

        Writes that were under way before the interruption must have ended.
        """
        self._begun = True
        self._in_flight = 0
        for key, quota in self._quotas.items():
            quota.in_flight = False
            quota.shown = None
            self._schedule(key, quota, 0.0)

    def changed(self, key: Key) -> None:
        """Note that usage or limits of a quota may have changed."""
        quota = self._quotas.get(key)
        if quota is None:
            quota = self._quotas[key] = self._fresh("")
        self._schedule(key, quota, quota.not_before)

    def seen(self, key: Key, uid: str, version: int, used: Mapping[str, int], now: float) -> None:
        """Record an observed object: its resourceVersion and deferred keys."""
        quota = self._quotas.get(key)
        if quota is None:
            return
        if quota.in_flight:
            # It contains the write or a later one: the response to the write tells which.
            if uid == quota.uid:
                quota.observed_in_flight = version, dict(used)
            return
        if quota.shown is None:
            return
        if uid != quota.uid:
            self._quotas[key] = fresh = self._fresh("")
            self._schedule(key, fresh, 0.0)
        elif version > quota.version and used != quota.shown:
            quota.shown = dict(used)
            self._schedule(key, quota, max(quota.not_before, now + CORRECTION_DELAY))

    def forget(self, key: Key) -> None:
        """Drop a deleted quota."""
        quota = self._quotas.pop(key, None)
        if quota is not None and quota.in_flight:
            self._in_flight -= 1

    # -- writes ----------------------------------------------------------------------------------

    def plan(self, now: float) -> tuple[list[Publication], float]:
        """Return the writes to begin now, and when to plan again if nothing changes before.

        Report each write with `written`, `failed` or `not_found`.
        """
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
            write = self._plan_one(key, quota, now)
            if write is not None:
                writes.append(write)
        # With all slots taken, the end of a write is the next occasion.
        return writes, NEVER

    def written(self, write: Publication, version: int) -> None:
        """Note that a write was made; `version` is the new resourceVersion, 0 if unknown."""
        quota = self._end(write)
        if quota is not None:
            quota.version = max(quota.version, version)
            quota.shown = {key: int(text) for key, text in write.used.items()}
            quota.backoff.reset()
            due = quota.not_before
            newest, used = quota.observed_in_flight
            if newest > quota.version and used != quota.shown:
                quota.shown = used
                due += CORRECTION_DELAY
            self._schedule(write.key, quota, due)

    def failed(self, write: Publication, now: float) -> float:
        """Note that a write may not have been made. Returns the seconds until the next attempt."""
        quota = self._end(write)
        if quota is None:
            return 0.0
        delay = quota.backoff.next()
        quota.shown = None
        quota.not_before = now + delay
        self._schedule(write.key, quota, quota.not_before)
        return delay

    def not_found(self, write: Publication) -> None:
        """Note that the object is deleted, or its name in use by another: the watch will follow."""
        quota = self._end(write)
        if quota is None:
            return
        target = self._source(write.key)
        if target is None or target.uid == write.uid:
            del self._quotas[write.key]
        else:
            self._schedule(write.key, quota, 0.0)

    # -- inside ----------------------------------------------------------------------------------

    def _fresh(self, uid: str) -> _Quota:
        backoff = Backoff(self._random, initial=INTERVAL, cap=MAX_BACKOFF)
        return _Quota(uid, backoff)

    def _end(self, write: Publication) -> _Quota | None:
        """Return the quota of a write that ended, unless it was forgotten or replaced meanwhile."""
        quota = self._quotas.get(write.key)
        if quota is None or not quota.in_flight or quota.uid != write.uid:
            return None
        quota.in_flight = False
        self._in_flight -= 1
        return quota

    def _schedule(self, key: Key, quota: _Quota, when: float) -> None:
        if when < quota.due and not quota.in_flight:
            quota.due = when
            heapq.heappush(self._heap, (when, key))

    def _plan_one(self, key: Key, quota: _Quota, now: float) -> Publication | None:
        target = self._source(key)
        if target is None:
            del self._quotas[key]
            return None
        if quota.uid != target.uid:
            quota = self._quotas[key] = self._fresh(target.uid)
        goal, wake = _goal(quota, target.used, now)
        shown = quota.shown
        if shown is not None and all(shown.get(name) == amount for name, amount in goal.items()):
            self._schedule(key, quota, wake)
            return None
        quota.in_flight = True
        quota.observed_in_flight = (0, {})
        quota.not_before = now + INTERVAL
        self._in_flight += 1
        return Publication(key, quota.uid, {name: str(amount) for name, amount in goal.items()})


def _goal(quota: _Quota, used: Usage, now: float) -> tuple[dict[str, int], float]:
    """Return the amounts to publish now, and when the next delayed decrease is due."""
    goal: dict[str, int] = {}
    wake = NEVER
    for name, text in used.items():
        amount = int(text)
        delayed = quota.delayed.setdefault(name, deque())
        before = quota.latest.get(name, amount)
        if amount < before:
            while delayed and delayed[-1][1] <= before:
                delayed.pop()
            delayed.append((now + DECREASE_DELAY, before))
        while delayed and (delayed[0][0] <= now or delayed[0][1] <= amount):
            delayed.popleft()
        quota.latest[name] = amount
        goal[name] = delayed[0][1] if delayed else amount
        if delayed:
            wake = min(wake, delayed[0][0])
    for name in quota.delayed.keys() - used.keys():
        del quota.delayed[name]
        quota.latest.pop(name, None)
    return goal, wake
