"""DisruptionUnits: pods that must be evicted together, such as the members of a gang.

Preempting one member of such a group evicts all of them, because the rest could not do any useful
work. So nodes are preferred where no group is disrupted, and a group with any member of the same or
a higher priority is not eligible.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from scheduler.api.pod import Pod
from scheduler.cache import NodeTable
from scheduler.engine.preemption.candidates import importance
from scheduler.engine.runtime import Framework
from scheduler.framework.preemption import Candidate


class DisruptionUnits:
    """The units of one profile, as defined by its grouping plugin (`evicted_with`)."""

    def __init__(self, framework: Framework, table: NodeTable) -> None:
        self._evicted_with = getattr(framework.grouping, "evicted_with", None)
        self._name_of = getattr(framework.grouping, "group_name", None)
        self._table = table

    @property
    def exist(self) -> bool:
        """Whether there may be any units."""
        return self._evicted_with is not None

    def others(self, pod: Pod, candidates: Sequence[Candidate]) -> Sequence[Candidate]:
        """Return the candidates whose victims are not of the pod's own group.

        Evicting its own members would not bring a group closer to its minimum.
        """
        name = None if self._name_of is None else self._name_of(pod)
        if name is None:
            return candidates
        assert self._name_of is not None
        namespace, name_of = pod.metadata.namespace, self._name_of
        return [
            each
            for each in candidates
            if not any(
                victim.metadata.namespace == namespace and name_of(victim) == name
                for victim in each.victims
            )
        ]

    def least_harmful(self, pod: Pod, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Add the rest of each victim's unit; return the candidates with the fewest additions."""
        completed: list[tuple[int, Candidate]] = []
        for each in candidates:
            victims = self._complete(each.victims)
            if all(victim.priority < pod.priority for victim in victims):
                added = len(victims) - len(each.victims)
                whole = Candidate(each.node_name, tuple(victims), each.pdb_violations)
                completed.append((added, whole if added else each))
        least = min((added for added, _ in completed), default=0)
        return [each for added, each in completed if added == least]

    def _complete(self, victims: Sequence[Pod]) -> list[Pod]:
        assert self._evicted_with is not None
        found = {victim.metadata.uid: victim for victim in victims}
        for victim in victims:
            missing = [uid for uid in self._evicted_with(victim, found.keys()) if uid not in found]
            if missing:
                found.update((each.metadata.uid, each) for each in self._placed(missing))
        return sorted(found.values(), key=importance) if len(found) > len(victims) else [*victims]

    def _placed(self, uids: Iterable[str]) -> Iterable[Pod]:
        """Yield the placed pods with these UIDs, in the order of rows and of each row's pods."""
        wanted = set(uids)
        for pods in self._table.pods:
            if pods and not wanted.isdisjoint(pods):
                yield from (pod for uid, pod in pods.items() if uid in wanted)
