"""Accounts of the CPU time that each namespace has recently used beyond an ordinary share.

Pods are popped in QueueSort order, so a hundred pods that take a quarter of a second each would
delay everything behind them. Their namespace therefore gets an account, a leaky bucket: expensive
attempts add debt, time pays it back. While the debt is over the limit, pods of other namespaces are
popped first, whatever their priority, because every tenant may use a high priority class.

- An attempt is charged only for what exceeds an ordinary attempt's share.
- All namespaces with debt share limit and drain, so that many expensive namespaces together take no
  more than one would. If all namespaces are expensive, all are over the limit, and the order is
  QueueSort's again.
- A debt is capped at the amount that is paid back within `MAX_DEFERRAL`.

Cycles of pod groups are long even if each member is cheap. So pods in groups have a separate
account: after a group cycle they are deferred for a time in proportion to its length.

Bounded: a namespace without debt has no account, and beyond `MAX_ACCOUNTS` the smallest debt is
dropped. Times are monotonic seconds; the clock is injected.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Final

FREE_SHARE: Final = 0.02
"""Share of the cycle budget (10 ms of 500 ms) that every attempt may use without a charge."""
LIMIT_SHARE: Final = 0.5
"""Share of the cycle budget (250 ms of 500 ms): a namespace with more debt is deferred. Its
attempts until then, including the one that exceeds the limit, take less than a second."""
DRAIN: Final = 0.1
"""Seconds of debt paid back each second: the share of one CPU that expensive pods keep."""
MAX_DEFERRAL: Final = 30.0
"""Maximum seconds for which a namespace is deferred, unless it is charged again."""
MAX_ACCOUNTS: Final = 256

GROUPS: Final = "/groups"
"""Name of the account of pods in groups; a namespace cannot contain a slash."""


class NamespaceAccounts:
    """The debts of namespaces, and the namespaces over the limit."""

    def __init__(self, monotonic: Callable[[], float], cycle_budget: float = math.inf) -> None:
        """`cycle_budget` in seconds; infinite disables charging."""
        self._monotonic = monotonic
        self._free = cycle_budget * FREE_SHARE
        self._limit = cycle_budget * LIMIT_SHARE
        self._debts: dict[str, float] = {}
        self._settled = -math.inf
        #: Namespaces over the limit -> when each no longer is.
        self._over: dict[str, float] = {}
        #: Monotonic time until which pods in groups are deferred.
        self._groups_until = -math.inf

    def __len__(self) -> int:
        return len(self._debts)

    def charge(self, namespace: str, seconds: float, free: float | None = None) -> bool:
        """Charge seconds of work to the namespace; return whether that put it over the limit.

        The first `free` seconds are not charged; None: the free share of an attempt.
        """
        if self._limit == math.inf:
            return False
        excess = seconds - (self._free if free is None else free)
        if excess <= 0.0:
            return False
        now = self._monotonic()
        before = self._over.get(namespace, -math.inf) > now
        self._settle(now)
        self._debts[namespace] = self._debts.get(namespace, 0.0) + excess
        if len(self._debts) > MAX_ACCOUNTS:
            del self._debts[min(self._debts, key=self._debts.__getitem__)]
        limit, drain = self._limit / len(self._debts), DRAIN / len(self._debts)
        cap = limit + MAX_DEFERRAL * drain
        for name, debt in self._debts.items():
            self._debts[name] = min(debt, cap)
        self._over = {
            name: now + (debt - limit) / drain for name, debt in self._debts.items() if debt > limit
        }
        return namespace in self._over and not before

    def defer_groups(self, seconds: float) -> None:
        """Defer pods in groups for `seconds` from now on."""
        self._groups_until = max(self._groups_until, self._monotonic() + seconds)

    def over_limit(self) -> Collection[str]:
        """Return the accounts whose pods are popped after all others now; usually none."""
        if self._groups_until > -math.inf:
            if self._groups_until > self._monotonic():
                return {*self.namespaces_over_limit(), GROUPS}
            self._groups_until = -math.inf
        return self.namespaces_over_limit() if self._over else ()

    def namespaces_over_limit(self) -> Collection[str]:
        """Return the namespaces among `over_limit`."""
        if not self._over:
            return ()
        now = self._monotonic()
        if min(self._over.values()) <= now:
            self._over = {name: until for name, until in self._over.items() if until > now}
        return self._over.keys()

    def _settle(self, now: float) -> None:
        if self._debts:
            paid = (now - self._settled) * DRAIN / len(self._debts)
            self._debts = {name: debt - paid for name, debt in self._debts.items() if debt > paid}
        self._settled = now
