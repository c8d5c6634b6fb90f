"""What a PostFilter plugin and the search for victims say to each other.

The search itself runs filters on hypothetical nodes for thousands of pods, so it belongs to the
engine; who may preempt, and what happens to victims, is the plugin's business.
"""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

from scheduler.api.pod import Pod
from scheduler.framework.node_status import NodeToStatus
from scheduler.framework.state import CycleState


@dataclass(frozen=True, slots=True)
class PreemptionRules:
    """How hard to search, and among whom."""

    #: Candidates wanted, percent of the nodes where preemption may help.
    min_candidate_nodes_percentage: int = 10
    #: Candidates wanted at least.
    min_candidate_nodes_absolute: int = 100
    #: Victims are only pods whose schedulerName is one of this process's profiles.
    own_victims_only: bool = True


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node on which the pod would fit without the victims."""

    node_name: str
    #: Most important first; never empty.
    victims: tuple[Pod, ...]
    #: Victims whose disruption budget is used up.
    pdb_violations: int


@dataclass(frozen=True, slots=True)
class PreemptionFinding:
    """The outcome of a search: exactly one of chosen, message, error and pending is set."""

    chosen: Candidate | None = None
    #: Why no node is a candidate, in the form of a FailedScheduling message.
    message: str = ""
    #: With `message`: the plugins that turned nodes down even without the victims.
    refusers: frozenset[str] = frozenset()
    #: What kept the search from an answer.
    error: str = ""
    #: Extenders have a say: await this for the outcome. Only PostFilter of a cycle that may be
    #: suspended gets it.
    pending: Coroutine[Any, Any, PreemptionFinding] | None = None


class PreemptionSearch(Protocol):
    """Finds the node where preemption does the least harm."""

    def find(
        self, state: CycleState, pod: Pod, statuses: NodeToStatus, rules: PreemptionRules
    ) -> PreemptionFinding:
        """Dry-run preemption on nodes whose status is Unschedulable, and choose one.

        Pure: neither `state` nor the node table changes.
        """
        ...

    def own(self, pod: Pod) -> bool:
        """Whether a pod's scheduler is one of this process's profiles."""
        ...

    def observe(self, victims: int) -> None:
        """Count one attempt to preempt, which evicts `victims` pods; 0: it came to nothing."""
        ...
