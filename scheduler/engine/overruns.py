"""Pods that are set aside because an attempt at one like them used up the budget of a cycle.

Overruns are counted per template in a namespace (profile, pod signature, namespace),
not per pod: ten thousand clones of one expensive pod get one attempt between two pauses, not one
each.

Each overrun doubles both the pause and the budget of the next attempt, up to a limit each. The
share of the loop that a template can take thus never grows, and where the environment is slow
rather than the pod (a scalar plugin on thousands of nodes, cold caches) the pod is scheduled after
few pauses.
The larger budget is kept after a success, so that the next pod of the template needs no pause.

Bounded: the template that was looked up longest ago is forgotten first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

from config.validation import MAX_CYCLE_BUDGET_FACTOR
from scheduler.api.pod import Pod

FIRST_PAUSE: Final = 10.0
"""Seconds. Twenty times the default budget: a template takes 5 % of the loop at most."""
MAX_PAUSE: Final = 300.0
"""Seconds. As long as a pod stays unschedulable at most before it is tried again."""
MAX_BUDGET_FACTOR: Final = float(MAX_CYCLE_BUDGET_FACTOR)
"""The largest budget, 2 s by default: everything else waits for that cycle."""
MAX_TEMPLATES: Final = 4096


@dataclass(slots=True)
class Overrun:
    """The overruns of one template."""

    #: Factor of the ordinary budget that the next attempt gets.
    factor: float = 1.0
    #: Seconds of the last pause, 0 after a cycle that kept its budget.
    pause: float = 0.0
    #: Monotonic time at which the pause ends.
    until: float = 0.0


class Overruns:
    """The templates whose cycles used up their budget. Times are monotonic seconds."""

    __slots__ = ("_capacity", "known")

    def __init__(self, capacity: int = MAX_TEMPLATES) -> None:
        self._capacity = capacity
        #: By template; usually empty, which every cycle looks at.
        self.known: OrderedDict[Hashable, Overrun] = OrderedDict()

    def factor(self, pod: Pod) -> float:
        """Return the factor of the ordinary budget that the next attempt at the pod gets."""
        known = self.known.get(_template(pod))
        return 1.0 if known is None else known.factor

    def pause_left(self, pod: Pod, now: float) -> float:
        """Seconds for which no pod of this template is tried; 0 when it may be."""
        template = _template(pod)
        known = self.known.get(template)
        if known is None:
            return 0.0
        self.known.move_to_end(template)
        return max(0.0, known.until - now)

    def overran(self, pod: Pod, now: float) -> Overrun:
        """Begin the next pause and enlarge the next budget: the budget was used up."""
        template = _template(pod)
        known = self.known.get(template)
        if known is None:
            known = self.known[template] = Overrun()
            if len(self.known) > self._capacity:
                self.known.popitem(last=False)
        known.pause = min(2.0 * known.pause, MAX_PAUSE) if known.pause else FIRST_PAUSE
        known.until = now + known.pause
        known.factor = min(2.0 * known.factor, MAX_BUDGET_FACTOR)
        return known

    def kept(self, pod: Pod) -> None:
        """Note a cycle within its budget: the next pause, if any, is a first one again."""
        known = self.known.get(_template(pod))
        if known is not None:
            known.pause = known.until = 0.0


def _template(pod: Pod) -> Hashable:
    # A signature's id is never reused, so nothing has to keep the signature alive.
    signature = pod.interned
    own = pod.uid if signature is None else signature.id
    return own, pod.metadata.namespace, pod.spec.scheduler_name
