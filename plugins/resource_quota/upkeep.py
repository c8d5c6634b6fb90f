"""Periodic work on the ledger: outdated pod conditions are corrected, and quotas recounted.

`Sweep`: a deferred pod that passed its quotas but fits no node has the reason `Unschedulable`, and
an autoscaler adds a node for it. If usage rises, the quota would hold the pod despite a new node.
So within `SWEEP_SECONDS` PreEnqueue runs for it again, and holds it if it does not fit. (Pods with
a claim are corrected at once, see `Claims.withdraw`; after a restart, and with `claimPending:
false`, no pod has one.) The sweep never makes a held pod `Unschedulable`; only an attempt does.

`Audit`: every quota is recounted once in `ROUND_SECONDS`; a difference is a bug.

Both work in small steps, because they run between scheduling cycles. Times are monotonic seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from plugins.resource_quota.accounts import Account
from plugins.resource_quota.deferral import POD_SCHEDULED
from plugins.resource_quota.ledger import Ledger
from scheduler.api.pod import Pod

SWEEP_SECONDS: Final = 3.0
"""Delay after usage rose; with the delay of writes, conditions are corrected within 5 seconds."""
SWEEP_BATCH: Final = 500
SWEEP_INTERVAL: Final = 0.02
"""Seconds between two batches of one sweep."""
ROUND_SECONDS: Final = 60.0

UNSCHEDULABLE: Final = "Unschedulable"


class Sweep:
    """Corrects the conditions of unplaced pods after usage rose."""

    def __init__(self, ledger: Ledger, recheck: Callable[[Sequence[str]], None]) -> None:
        """`recheck(uids)`: run PreEnqueue again for these pods."""
        self._ledger = ledger
        self._recheck = recheck
        #: Pods with the reason Unschedulable, by namespace and UID.
        self._unplaced: dict[str, dict[str, Pod]] = {}
        #: Namespaces in which something has changed since the last sweep.
        self._changed: dict[str, None] = {}
        self._remaining: Iterator[Pod] | None = None
        self._due: float | None = None

    def observe(self, pod: Pod, now: float) -> None:
        """Record a pod in the state that the API server shows."""
        namespace, uid = pod.metadata.namespace, pod.metadata.uid
        if pod.spec.node_name or not _unplaced(pod):
            if self._unplaced:
                self.forget(pod)
        elif self._ledger.deferred(pod):
            self._unplaced.setdefault(namespace, {})[uid] = pod
            self.changed(namespace, now)

    def forget(self, pod: Pod) -> None:
        """Drop a deleted pod."""
        found = self._unplaced.get(pod.metadata.namespace)
        if found is not None and found.pop(pod.metadata.uid, None) is not None and not found:
            del self._unplaced[pod.metadata.namespace]

    def changed(self, namespace: str, now: float) -> None:
        """Record that usage or limits of a namespace have changed."""
        if namespace in self._unplaced:
            self._changed[namespace] = None
            if self._due is None:
                self._due = now + SWEEP_SECONDS

    def next_due(self) -> float | None:
        """Return when `run_due` is due."""
        return self._due

    def run_due(self, now: float) -> None:
        """Check a batch of pods, if that is due."""
        if self._due is None or self._due > now:
            return
        if self._remaining is None:
            namespaces, self._changed = self._changed, {}
            pods = [self._unplaced.get(name, {}).values() for name in namespaces]
            self._remaining = iter([pod for found in pods for pod in found])
        wrong = []
        for checked, pod in enumerate(self._remaining, start=1):
            if not self._ledger.holds(pod.metadata.uid) and self._ledger.violations(pod):
                wrong.append(pod.metadata.uid)
            if checked == SWEEP_BATCH:
                self._due = now + SWEEP_INTERVAL
                break
        else:
            self._remaining = None
            self._due = now + SWEEP_SECONDS if self._changed else None
        if wrong:
            self._recheck(wrong)


class Audit:
    """Recount of one quota at a time."""

    def __init__(self, ledger: Ledger, report: Callable[[int], None]) -> None:
        """`report(differences)` is called at the end of each round."""
        self._ledger = ledger
        self._report = report
        self._uncounted: list[Account] = []
        self._found = 0
        self._due: float | None = None
        self._pause = ROUND_SECONDS

    def next_due(self, now: float) -> float:
        """Return when `run_due` is due."""
        if self._due is None:
            self._due = now + ROUND_SECONDS
        return self._due

    def run_due(self, now: float) -> None:
        """Recount one quota, if that is due."""
        if self.next_due(now) > now:
            return
        if not self._uncounted:
            self._uncounted = list(self._ledger.accounts())
            self._pause = ROUND_SECONDS / max(1, len(self._uncounted))
            self._found = 0
        if self._uncounted:
            self._found += len(self._ledger.drift_of(self._uncounted.pop()))
        if not self._uncounted:
            self._report(self._found)
        self._due = now + self._pause


def _unplaced(pod: Pod) -> bool:
    return any(
        each.type == POD_SCHEDULED and each.status == "False" and each.reason == UNSCHEDULABLE
        for each in pod.status.conditions
    )
