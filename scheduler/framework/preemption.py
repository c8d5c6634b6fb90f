"""Interface between PostFilter plugins and the engine's search for preemption victims.

The engine searches for victims, because it can run filters on thousands of hypothetical nodes. The
plugin decides which pods may preempt, and evicts the victims.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from scheduler.api.pod import Pod
from scheduler.framework.node_status import NodeToStatus
from scheduler.framework.state import CycleState


@dataclass(frozen=True, slots=True)
class PreemptionRules:
    """Extent of the search, and eligible victims."""

    #: Number of candidates to find, in percent of the nodes where preemption may help.
    min_candidate_nodes_percentage: int = 10
    #: Minimum number of candidates to find.
    min_candidate_nodes_absolute: int = 100
    #: Whether only pods whose schedulerName is a profile of this process are eligible.
    own_victims_only: bool = True


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node on which the pod would fit without the victims."""

    node_name: str
    #: The most important victim first; never empty.
    victims: tuple[Pod, ...]
    #: Number of victims whose eviction violates a PodDisruptionBudget.
    pdb_violations: int


@dataclass(frozen=True, slots=True)
class PreemptionFinding:
    """The outcome of a search: exactly one of chosen, message, error and pending is set."""

    chosen: Candidate | None = None
    #: Why no node is a candidate, worded like a FailedScheduling message.
    message: str = ""
    #: With `message`: the plugins that rejected nodes even without the victims.
    rejectors: frozenset[str] = frozenset()
    #: The error that ended the search.
    error: str = ""
    #: Await this for the outcome if extenders take part; only in a cycle that may be suspended.
    pending: Coroutine[Any, Any, PreemptionFinding] | None = None


Harm = Callable[[Candidate], int]
"""Returns how many further pods must be evicted because of a candidate's victims, such as members
of their groups. Candidates with the least harm are preferred to all others."""


class PreemptionSearch(Protocol):
    """Finds the best preemption candidate (upstream: `preemption.go: Evaluator`)."""

    def find(
        self,
        state: CycleState,
        pod: Pod,
        statuses: NodeToStatus,
        rules: PreemptionRules,
        harm: Harm | None = None,
    ) -> PreemptionFinding:
        """Dry-run preemption on nodes whose status is Unschedulable, and choose one.

        Pure: neither `state` nor the node table changes.
        """
        ...

    def own(self, pod: Pod) -> bool:
        """Whether a pod's scheduler is one of this process's profiles."""
        ...

    def others_below(self, pod: Pod) -> Mapping[str, int]:
        """Count the placed pods of lower priority that are not `own`, by their schedulerName."""
        ...

    def observe(self, victims: int) -> None:
        """Record a preemption attempt and its number of victims; 0 if it found none."""
        ...
