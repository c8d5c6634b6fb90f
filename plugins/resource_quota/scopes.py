"""The match of pods by a quota's `scopes` and `scopeSelector` (`pods.go: podMatchesScopeFunc`).

All scopes must match; a quota without scopes covers every pod of its namespace. A scope that is not
known covers no pod: a quota must not charge pods it was not meant for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from scheduler.api.pod import Affinity, Pod, PodAffinity, PodAffinityTerm, ResourceRequirements
from scheduler.api.policy import ResourceQuotaSpec, ScopedResourceSelectorRequirement
from scheduler.api.quantity import parse
from scheduler.api.requests import CPU, MEMORY, is_pod_level_resource_name
from scheduler.api.selectors import DOES_NOT_EXIST, EXISTS, IN, NOT_IN

PRIORITY_CLASS: Final = "PriorityClass"

ScopeMatch = Callable[[Pod], bool]


def scope_match(spec: ResourceQuotaSpec) -> ScopeMatch:
    """Return the function that tests whether a quota covers a pod."""
    wanted = [ScopedResourceSelectorRequirement(scope_name=name, operator=EXISTS)
              for name in spec.scopes]  # fmt: skip
    if spec.scope_selector is not None:
        wanted += spec.scope_selector.match_expressions

    def match(pod: Pod) -> bool:
        return all(_matches(requirement, pod) for requirement in wanted)

    return match


def _matches(requirement: ScopedResourceSelectorRequirement, pod: Pod) -> bool:
    if requirement.scope_name == PRIORITY_CLASS:
        return _class_matches(requirement, pod.spec.priority_class_name)
    test = _SCOPES.get(requirement.scope_name)
    return test is not None and test(pod)


def _class_matches(requirement: ScopedResourceSelectorRequirement, name: str) -> bool:
    # The requirement is matched as a label selector over {PriorityClass: name}; a pod without a
    # class has no such label.
    operator = requirement.operator
    if operator == EXISTS:
        return bool(name)
    if operator == DOES_NOT_EXIST:
        return not name
    if operator == IN:
        return bool(name) and name in requirement.values
    return operator == NOT_IN and (not name or name not in requirement.values)


def _terminating(pod: Pod) -> bool:
    seconds = pod.spec.active_deadline_seconds
    return seconds is not None and seconds >= 0


def _best_effort(pod: Pod) -> bool:
    """Whether the pod's QoS class is BestEffort: it requests and limits no CPU and no memory."""
    level = pod.spec.resources
    if level is not None and any(map(is_pod_level_resource_name, (*level.requests, *level.limits))):
        return not _states_amounts((level,))
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    return not _states_amounts(each.resources for each in containers)


def _states_amounts(resources: Iterable[ResourceRequirements]) -> bool:
    return any(
        parse(raw).nano > 0
        for each in resources
        for stated in (each.requests, each.limits)
        for name, raw in stated.items()
        if name in (CPU, MEMORY)
    )


def _crosses_namespaces(pod: Pod) -> bool:
    affinity: Affinity | None = pod.spec.affinity
    if affinity is None:
        return False
    return any(
        term.namespaces or term.namespace_selector is not None
        for part in (affinity.pod_affinity, affinity.pod_anti_affinity)
        if part is not None
        for term in _terms(part)
    )


def _terms(part: PodAffinity) -> Iterable[PodAffinityTerm]:
    yield from part.required
    for each in part.preferred:
        yield each.pod_affinity_term


_SCOPES: Final[dict[str, ScopeMatch]] = {
    "Terminating": _terminating,
    "NotTerminating": lambda pod: not _terminating(pod),
    "BestEffort": _best_effort,
    "NotBestEffort": lambda pod: not _best_effort(pod),
    "CrossNamespacePodAffinity": _crosses_namespaces,
}
