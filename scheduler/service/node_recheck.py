"""NodeRecheck: prevents binds to a node that others have changed and that no longer fits.

The node is checked before the Bind plugins run, and again when the request of a bind is about to be
sent, since it may have waited in between. Each check costs one comparison unless another writer has
changed the node since.
"""

from __future__ import annotations

from scheduler.api.pod import Pod
from scheduler.engine import Attempt, Engine, Failure
from scheduler.metrics import SchedulerMetrics


class NodeRecheck:
    """The pods whose Bind plugins run. Used only from the scheduling loop's event loop."""

    def __init__(self, metrics: SchedulerMetrics) -> None:
        self._metrics = metrics
        self._binding: dict[str, tuple[Engine, Attempt]] = {}
        self._failures: dict[str, Failure] = {}

    def begin(self, engine: Engine, attempt: Attempt) -> Failure | None:
        """Check a pod that is about to be bound; a failure means that it must not be."""
        failure = self.check(engine, attempt)
        if failure is None:
            self._binding[attempt.info.uid] = engine, attempt
        return failure

    def precondition(self, pod: Pod) -> str:
        """Return why the bind request of `pod` must not be sent; empty if it may."""
        binding = self._binding.get(pod.metadata.uid)
        failure = None if binding is None else self.check(*binding)
        if failure is None:
            return ""
        self._failures[pod.metadata.uid] = failure
        return failure.message

    def end(self, attempt: Attempt) -> Failure | None:
        """End the check after the Bind plugins; return the failure if a request was not sent."""
        uid = attempt.info.uid
        self._binding.pop(uid, None)
        return self._failures.pop(uid, None) if self._failures else None

    def check(self, engine: Engine, attempt: Attempt) -> Failure | None:
        """Return why a pod no longer fits on its node; None if nobody else changed that."""
        if engine.cache.external_changes == attempt.seen or not engine.changed_by_others(attempt):
            return None
        failure = engine.recheck(attempt)
        self._metrics.node_recheck(fits=failure is None)
        return failure
