"""Arguments of ResourceQuota."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from plugins.arguments import Arguments
from plugins.resource_quota.accounts import QuotaMode
from scheduler.framework.field_errors import forbidden, invalid, unsupported

NONE: Final = "None"
HOLD_AFTER: Final = "HoldAfter"
MEMORY: Final = "Memory"
API: Final = "Api"

DEFAULT_HOLD_AFTER: Final = timedelta(minutes=10)


class ResourceQuotaArgs(Arguments):
    """Arguments of ResourceQuota."""

    quota_mode: str = ""
    """The names of a quota that are enforced when a pod is scheduled: `DeferredKeys`, those of the
    domain deferred.kubestow.io; `Native`, built-in compute names, for an API server that implements
    KEP-5465 itself; `Both`; or `Off`. Default: DeferredKeys, the only one that is right on a stock
    API server, and without effect where no quota has such a key."""

    fairness: str = ""
    """`None`: the first pod that fits. `HoldAfter`: the oldest pod that only a quota has held for
    `holdAfter` gets what is freed, so that small pods cannot starve a big one. Default: None, as in
    KEP-5465; HoldAfter where `holdAfter` is given."""

    hold_after: timedelta | None = None
    """How long a pod is held before quota is kept for it. Default with HoldAfter: 10m."""

    max_hold: timedelta = timedelta(minutes=30)
    """How long quota is kept for one pod at most; then it is open to all for `holdAfter`.
    Default: 30m."""

    claim_pending: bool = True
    """Whether a deferred pod that fits the quota and no node claims its share for labelling:
    another one that would not fit on top of it is then reported as held by the quota, so that an
    autoscaler does not buy nodes for both. Never keeps a pod from a node. Default: true."""

    reservation: str = ""
    """Where the reservations of pods to be bound are kept. `Memory`: exact with one scheduler.
    `Api`: in the quota's annotations as well, exact with several, at two small writes per pod and
    quota. Default: Memory."""

    def __post_init__(self) -> None:
        """Fill in what depends on other fields."""
        self.quota_mode = self.quota_mode or QuotaMode.DEFERRED_KEYS.value
        self.reservation = self.reservation or MEMORY
        if not self.fairness:
            self.fairness = NONE if self.hold_after is None else HOLD_AFTER
        if self.fairness == HOLD_AFTER and self.hold_after is None:
            self.hold_after = DEFAULT_HOLD_AFTER

    @property
    def mode(self) -> QuotaMode:
        """`quotaMode`, once checked."""
        return QuotaMode(self.quota_mode)


def argument_problems(args: ResourceQuotaArgs) -> Iterator[tuple[str, str]]:
    """Yield every problem of the arguments."""
    modes = [mode.value for mode in QuotaMode]
    if args.quota_mode not in modes:
        yield "quotaMode", unsupported(args.quota_mode, modes)
    if args.fairness not in (NONE, HOLD_AFTER):
        yield "fairness", unsupported(args.fairness, (NONE, HOLD_AFTER))
    if args.reservation not in (MEMORY, API):
        yield "reservation", unsupported(args.reservation, (MEMORY, API))
    if args.fairness == NONE and args.hold_after is not None:
        yield "holdAfter", forbidden("may only be set when `fairness` is HoldAfter")
    for name, value in (("holdAfter", args.hold_after), ("maxHold", args.max_hold)):
        if value is not None and value <= timedelta():
            yield name, invalid(f"{value.total_seconds():g}s", "must be greater than zero")
