"""Pod templates that are paused because an attempt exceeded the budget of a cycle.

Overruns are counted per template (profile, pod signature, namespace), not per pod: ten thousand
clones of one expensive pod get one attempt between two pauses in total, not one each.

Each overrun doubles both the pause and the budget of the next attempt, up to a limit each. So the
fraction of time that a template can take never grows; and if the environment is slow rather than
the pod (a scalar plugin on thousands of nodes, cold caches), the pod is scheduled after a few
pauses. The larger budget is kept after a success, so that the next pod of the template needs no
pause.

The number of templates is bounded; the least recently used one is dropped.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

from config.validation import MAX_CYCLE_BUDGET_FACTOR
from scheduler.api.pod import Pod

FIRST_PAUSE: Final = 10.0
"""Seconds. Twenty times the default budget, so a template takes at most 5 % of the loop's time."""
MAX_PAUSE: Final = 300.0
"""Seconds. The same as the maximum time in the unschedulable pods before a retry."""
MAX_BUDGET_FACTOR: Final = float(MAX_CYCLE_BUDGET_FACTOR)
"""Factor of the largest budget, 2 s by default. Small, since everything waits for the cycle."""
MAX_TEMPLATES: Final = 4096


@dataclass(slots=True)
class Overrun:
    """The overruns of one template."""

    #: Factor of the ordinary budget that the next attempt gets.
    factor: float = 1.0
    #: Duration of the last pause in seconds; 0 after a cycle within its budget.
    pause: float = 0.0
    #: Monotonic time at which the pause ends.
    until: float = 0.0


class Overruns:
    """Templates whose cycles exceeded their budget. Times are monotonic seconds."""

    __slots__ = ("_capacity", "by_template")

    def __init__(self, capacity: int = MAX_TEMPLATES) -> None:
        self._capacity = capacity
        #: By template; usually empty, so cycles check that first.
        self.by_template: OrderedDict[Hashable, Overrun] = OrderedDict()

    def factor(self, pod: Pod) -> float:
        """Return the factor of the ordinary budget that the next attempt at the pod gets."""
        overrun = self.by_template.get(_template(pod))
        return 1.0 if overrun is None else overrun.factor

    def pause_left(self, pod: Pod, now: float) -> float:
        """Return the seconds for which no pod of this template is tried; 0 for none."""
        template = _template(pod)
        overrun = self.by_template.get(template)
        if overrun is None:
            return 0.0
        self.by_template.move_to_end(template)
        return max(0.0, overrun.until - now)

    def overran(self, pod: Pod, now: float) -> Overrun:
        """Start a pause and double the next budget, after a cycle over its budget."""
        template = _template(pod)
        overrun = self.by_template.get(template)
        if overrun is None:
            overrun = self.by_template[template] = Overrun()
            if len(self.by_template) > self._capacity:
                self.by_template.popitem(last=False)
        overrun.pause = min(2.0 * overrun.pause, MAX_PAUSE) if overrun.pause else FIRST_PAUSE
        overrun.until = now + overrun.pause
        overrun.factor = min(2.0 * overrun.factor, MAX_BUDGET_FACTOR)
        return overrun

    def kept(self, pod: Pod) -> None:
        """Reset the pause after a cycle within its budget; the next one is a first pause again."""
        overrun = self.by_template.get(_template(pod))
        if overrun is not None:
            overrun.pause = overrun.until = 0.0


def _template(pod: Pod) -> Hashable:
    # A signature's id is never reused, so nothing has to keep the signature alive.
    signature = pod.interned
    own = pod.uid if signature is None else signature.id
    return own, pod.metadata.namespace, pod.spec.scheduler_name
