"""Which pods need not be tried before their backoff ends: one just like them was turned down.

The queue tries pods in backoff early when it has nothing else to do. Where a thousand equal pods
wait, each event would bring a thousand attempts with one and the same answer, each of which
doubles a pod's backoff. So once a pod was turned down, those like it (same profile, shape, labels,
namespace and pin) are not tried early until something happens that any plugin waits for.

Invariant: what is known here is forgotten with the next such event. It never keeps a pod from the
attempt at the end of its backoff, so that nothing is lost where two pods are not as alike as they
look (annotations, owners).
"""

from __future__ import annotations

from collections.abc import Hashable

from scheduler.framework.queued import PostFilterOutcome, QueuedPodInfo
from scheduler.queue.pool import identity


def likeness(info: QueuedPodInfo) -> Hashable | None:
    """Equal for pods that an attempt cannot tell apart; None when nobody interned the shape."""
    alike = identity(info.pod)
    return None if alike is None else (alike, info.pod.spec.scheduler_name)


class Fruitless:
    """Pods turned down since the last event, by likeness."""

    __slots__ = ("_begun", "_known", "_round")

    def __init__(self) -> None:
        self._round = 0
        self._known: set[Hashable] = set()
        #: UIDs of pods in flight, and the round in which they were popped. As many as these.
        self._begun: dict[str, int] = {}

    def happened(self) -> None:
        """Something changed that may help somebody."""
        self._round += 1
        self._known.clear()

    def begun(self, uid: str) -> None:
        """An attempt begins."""
        self._begun[uid] = self._round

    def ended(self, uid: str) -> None:
        """The attempt is over, however it ended."""
        self._begun.pop(uid, None)

    def turned_down(self, info: QueuedPodInfo) -> None:
        """The attempt found no place. Must come before `ended`."""
        if (
            info.unschedulable_plugins
            and not info.pending_plugins
            and info.post_filter is not PostFilterOutcome.NOMINATED
            and self._begun.get(info.uid) == self._round
        ):
            self._known.add(likeness(info))

    def known(self, alike: Hashable | None) -> bool:
        """Whether a pod of this likeness was turned down, and nothing happened since."""
        return alike is not None and alike in self._known
