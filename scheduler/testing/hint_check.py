"""Hints, judged by what happens: a pod that a change helped must not stay unschedulable.

The queue of the world decides, with its real events, hints, keys and gates. Before a change and
after it the plugin is called for every pod that waits because of it. If its answer got better and
the queue leaves the pod where it is, the hint said SKIP, or no event is registered.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from scheduler.explain.records.queue import QueueState
from scheduler.offline.world import World
from scheduler.testing.answers import Answers, answers, passes


@dataclass(frozen=True, slots=True)
class _Held:
    """A pod that waits because of the plugin."""

    place: QueueState
    answers: Answers


class HintCheck:
    """Compares the moments before and after a change of a world."""

    def __init__(self, world: World, plugin: Any) -> None:
        self._world = world
        self._plugin = plugin
        self._held: dict[str, _Held] = {}
        #: Pods that a change helped, by whether the queue took them back.
        self.woken = self.forgotten = 0

    def before(self) -> None:
        """Note the pods that wait because of the plugin, and its answers about them."""
        self._held = {}
        for waiting in self._world.waiting():
            place = QueueState(waiting.state) if waiting.state in list(QueueState) else None
            if self._plugin.name in waiting.plugins and place is not None:
                self._held[waiting.pod] = _Held(place, self._answers(waiting.pod))

    def after(self, change: str) -> Iterator[str]:
        """Yield a sentence for each pod that the change helped and the queue did not take back."""
        places = {each.pod: each.state for each in self._world.waiting()}
        for key, held in self._held.items():
            if key not in places or _comes_back_by_itself(held.answers):
                continue
            helped = _helped(held, self._answers(key))
            if not helped:
                continue
            if places[key] in (QueueState.UNSCHEDULABLE, QueueState.GATED):
                self.forgotten += 1
                yield (
                    f"pod {key}: {helped} since {change}, but the pod stays {places[key]}: the "
                    "hint of that event returned SKIP, or the event is not registered"
                )
            else:
                self.woken += 1

    def _answers(self, key: str) -> Answers:
        table = self._world._assembly.state.cache.table
        clock = self._world._assembly.clock
        return answers(self._plugin, table, self._world.pod(key), clock.now())


def _comes_back_by_itself(found: Answers) -> bool:
    """Whether a rejection names its time, so that no event is needed."""
    statuses = (found.gate, found.whole, *found.nodes.values())
    return any(each is not None and each.requeue_after is not None for each in statuses)


def _helped(held: _Held, now: Answers) -> str:
    """Return what the plugin accepts now and did not accept before; empty for nothing."""
    if held.place is QueueState.GATED:
        return "pre_enqueue admits it" if passes(now.gate) else ""
    if not passes(now.gate) or not passes(now.whole):
        return ""
    before = held.answers
    rejected = not passes(before.whole) or len(before.accepted) < len(before.nodes)
    better = sorted(now.accepted - before.accepted)
    # Where nothing was rejected, Reserve or Permit rejected the pod, and Filter cannot judge it.
    return f"Filter accepts node {better[0]}" if rejected and better else ""
