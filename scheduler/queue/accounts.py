"""What each namespace has used lately of the time that all share, as far as it was not ordinary.

Pods are popped in the order of QueueSort, so a hundred pods that take a quarter of a second each
hold up everything behind them. Their namespace is a debtor then: a leaky bucket that expensive
attempts fill and time empties. While it is above its limit, pods of other namespaces are popped
first, whatever their priority, for a priority class is open to every tenant.

- An attempt is charged for what it used beyond an ordinary attempt's share; ordinary ones are not.
- Limit and drain are shared by all debtors, so that many expensive namespaces together take no more
  than one would. Where everything is expensive, everybody is over the limit, and the order is that
  of QueueSort again.
- A debt is limited to what `MAX_DEFERRAL` pays back; then the namespace's pods are as good as any.

Bounded: a namespace without debt has no account, and the smallest debts are forgotten first. Times
are seconds, monotonic; the clock is handed in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Final

FREE_SHARE: Final = 0.02
"""Of the budget of a cycle (10 ms of 500 ms): what every attempt may use without being charged."""
LIMIT_SHARE: Final = 0.5
"""Of the budget of a cycle (250 ms): the debt from which on a namespace is deferred. What is popped
before the account is full, and the attempt that fills it, stay below a second together."""
DRAIN: Final = 0.1
"""Seconds of debt forgiven each second: what expensive pods get of one CPU beside others."""
MAX_DEFERRAL: Final = 30.0
"""Seconds for which a namespace goes behind others at most, unless it is charged again."""
MAX_ACCOUNTS: Final = 256


class NamespaceAccounts:
    """The debts of namespaces, and who is over the limit."""

    __slots__ = ("_debts", "_free", "_limit", "_monotonic", "_over", "_settled")

    def __init__(self, monotonic: Callable[[], float], cycle_budget: float = math.inf) -> None:
        """`cycle_budget` in seconds; infinite: nobody is ever charged."""
        self._monotonic = monotonic
        self._free = cycle_budget * FREE_SHARE
        self._limit = cycle_budget * LIMIT_SHARE
        self._debts: dict[str, float] = {}
        self._settled = -math.inf
        #: The namespaces over the limit, and when each no longer is.
        self._over: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._debts)

    def charge(self, namespace: str, seconds: float, free: float | None = None) -> bool:
        """Work for the namespace took so long; whether that made its pods go behind others.

        `free` seconds are not charged; None: as for an attempt.
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
        most = limit + MAX_DEFERRAL * drain
        for debtor, debt in self._debts.items():
            self._debts[debtor] = min(debt, most)
        self._over = {
            debtor: now + (debt - limit) / drain
            for debtor, debt in self._debts.items()
            if debt > limit
        }
        return namespace in self._over and not before

    def over_limit(self) -> Collection[str]:
        """The namespaces whose pods go behind those of all others now; usually none."""
        if not self._over:
            return ()
        now = self._monotonic()
        if min(self._over.values()) <= now:
            self._over = {name: until for name, until in self._over.items() if until > now}
        return self._over.keys()

    def _settle(self, now: float) -> None:
        if self._debts:
            forgiven = (now - self._settled) * DRAIN / len(self._debts)
            self._debts = {
                name: debt - forgiven for name, debt in self._debts.items() if debt > forgiven
            }
        self._settled = now
