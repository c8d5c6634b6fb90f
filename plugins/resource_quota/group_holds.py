"""GroupHolds: groups that quota holds, each represented by one of its pods.

The leader has a place in the order of held pods; the other pods follow it. Pods without gates are
not charged while quota holds them, neither leaders nor followers (docs/deferred-quota.md, rule Q2).
"""

from __future__ import annotations

from collections.abc import Callable

from plugins.resource_quota.records import PodRecord, Together
from plugins.resource_quota.together import members_of


class GroupHolds:
    """Part of the ledger, which owns the records changed here."""

    def __init__(
        self, reconcile: Callable[[PodRecord], None], on_follow: Callable[[PodRecord], None]
    ) -> None:
        """`reconcile` brings the accounts up to date; `on_follow` is called for new followers."""
        self._reconcile = reconcile
        self._on_follow = on_follow

    def join(self, record: PodRecord, together: Together | None) -> None:
        """Let a pod wait for the quota of its group `together`, or with None for its own."""
        if together is None and record.together is None:
            return
        changed = [each for each in members_of(record) if each.leader is record]
        for each in changed:
            each.leader = None
        record.together = together
        if together is not None:
            record.leader = None
            followers = list(members_of(record))[1:]
            for each in followers:
                self.join(each, None)
                self._on_follow(each)
                each.leader = record
            changed += followers
        for each in dict.fromkeys((record, *changed)):
            self._reconcile(each)

    def reconcile(self, leader: PodRecord) -> None:
        """Update the accounts of a group after its leader was held or released."""
        for each in members_of(leader):
            if not each.deferred or each is leader:
                self._reconcile(each)
