"""Callbacks of the ledger to its host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from plugins.resource_quota.accounts import Account


@dataclass(frozen=True, slots=True)
class LedgerCallbacks:
    """The callbacks; each must be quick."""

    on_release: Callable[[Sequence[str]], None] = lambda _uids: None
    """Called with pods that may pass now, in order: run PreEnqueue for them."""
    on_recheck: Callable[[Sequence[str]], None] = lambda _uids: None
    """Called with pods that were admitted before all pods and quotas were known, and do not fit."""
    on_changed: Callable[[Account], None] = lambda _account: None
    """Called if the account's sums or claims have changed, or it is new."""
    on_forgotten: Callable[[Account], None] = lambda _account: None
    """Called if the account's quota was deleted, or now has other limits or scopes."""
    on_overcommitted: Callable[[Account], None] = lambda _account: None
    """Called if more is taken than allowed: by a binding of another scheduler, a resize, a lowered
    limit, or (after a start) before this process."""
    on_timer: Callable[[], None] = lambda: None
    """Called if `Ledger.next_due` has moved to an earlier time."""
