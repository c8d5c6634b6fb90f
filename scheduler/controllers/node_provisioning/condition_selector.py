"""ConditionSelector: the pods that need the condition, for the criterion NodeProvisioningFailed.

Pure. Selecting too many is safe: a pod whose annotation PodTopologySpread rejects keeps its hard
constraints whatever the condition is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from config import ResolvedProfile
from plugins.pod_topology_spread.arguments import PodTopologySpreadArgs
from plugins.pod_topology_spread.fallback_annotation import ANNOTATION, NODE_PROVISIONING_FAILED
from scheduler.api.pod import Pod


def profiles_that_fall_back_by_default(profiles: Iterable[ResolvedProfile]) -> Iterator[str]:
    """Yield the scheduler names of profiles whose default constraints have the criterion."""
    for profile in profiles:
        args = profile.args.get("PodTopologySpread")
        if isinstance(args, PodTopologySpreadArgs) and any(
            NODE_PROVISIONING_FAILED in each.fallback_criteria for each in args.constraints
        ):
            yield profile.scheduler_name


class ConditionSelector:
    """Predicate for pods of our scheduler names that have no node."""

    def __init__(self, *, every_pod: bool, by_default: Collection[str] = ()) -> None:
        """Select every pod, or those with the criterion.

        `by_default` names the profiles whose default constraints have it.
        """
        self._every_pod = every_pod
        self._by_default = frozenset(by_default)

    def __call__(self, pod: Pod) -> bool:
        """Whether the condition matters for this pod."""
        if self._every_pod:
            return True
        constraints = pod.spec.topology_spread_constraints
        if not constraints:
            return pod.spec.scheduler_name in self._by_default
        return NODE_PROVISIONING_FAILED in pod.metadata.annotations.get(ANNOTATION, "") or any(
            NODE_PROVISIONING_FAILED in each.fallback_criteria for each in constraints
        )
