"""The questions that a world answers about its present state, and stays as it is."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from scheduler.explain.records import PodExplanation, Remedies
from scheduler.explain.records.remedies import DEFAULT_REMEDIES
from scheduler.offline.assembly import Assembly
from scheduler.offline.editing import Editing
from scheduler.offline.records import Capacity
from scheduler.offline.trial import MAX_COPIES, Trial, explain


class Asking(Editing):
    """Answers questions by trials, which are undone."""

    _assembly: Assembly

    @abstractmethod
    def _settle(self) -> None:
        """Show the scheduler every change made so far."""

    def trial(self) -> Trial:
        """Return a context in which changes can be tried, and which undoes them at its end.

        >>> from kubestow import offline
        >>> with offline.World() as world:
        ...     _ = world.add_nodes(offline.node("small", cpu=1))
        ...     _ = world.add_pods(offline.pod("big", cpu=8))
        ...     with world.trial() as trial:
        ...         _ = trial.add_nodes(offline.node("large", cpu=16))
        ...         trial.place("default/big").node
        'large'
        """
        self._settle()
        return Trial(self._assembly, default_scheduler=self._default_scheduler, adopt=self._adopt)

    def how_many_fit(self, pod: Mapping[str, Any], limit: int = MAX_COPIES) -> Capacity:
        """Count how many copies of a pod fit beside what is there now; the world stays as it is."""
        with self.trial() as trial:
            return trial.how_many_fit(pod, limit)

    def remedies(self, pod: str, *, limit: int = DEFAULT_REMEDIES) -> Remedies:
        """Look for what would have to change for a pending pod to fit; each was tried.

        >>> from kubestow import offline
        >>> with offline.World() as world:
        ...     _ = world.add_nodes(offline.node("small", cpu=4))
        ...     _ = world.add_pods(offline.pod("big", cpu=6))
        ...     world.remedies("default/big").remedies[0].text
        'request at most 4 cpu'

        Raises:
            LookupError: there is no such pod, or it has a node.
        """
        with self.trial() as trial:
            return trial.remedies(pod, limit=limit)

    def explain(self, pod: str, *, top: int = 10, examples: int = 3) -> PodExplanation:
        """Explain a pod, `namespace/name`, as `kubestow explain` does.

        Raises:
            LookupError: there is no such pod.
        """
        self._settle()
        return explain(self._assembly, pod, top=top, examples=examples)
