"""The match of pods by a quota's `scopes` and `scopeSelector` (`pods.go: podMatchesScopeFunc`).

All scopes must match; a quota without scopes covers every pod of its namespace. An unknown scope
covers no pod, since a quota must not charge pods for which it was not meant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from scheduler.api.pod import Pod, ResourceRequirements
from scheduler.api.policy import ResourceQuotaSpec
from scheduler.api.quantity import parse
from scheduler.api.requests import CPU, MEMORY, is_pod_level_resource_name
from scheduler.api.selectors import EXISTS, Requirement

PRIORITY_CLASS: Final = "PriorityClass"

ScopeMatch = Callable[[Pod], bool]


def scope_match(spec: ResourceQuotaSpec) -> ScopeMatch:
    """Return the function that tests whether a quota covers a pod."""
    tests = [_scope_test(name, EXISTS) for name in spec.scopes]
    if spec.scope_selector is not None:
        tests += [
            _scope_test(each.scope_name, each.operator, each.values)
            for each in spec.scope_selector.match_expressions
        ]
    return lambda pod: all(test(pod) for test in tests)


def _scope_test(scope: str, operator: str, values: Iterable[str] = ()) -> ScopeMatch:
    if scope == PRIORITY_CLASS:
        # A label selector over {PriorityClass: name}; a pod without a class has no such label.
        requirement = Requirement(scope, operator, values)
        return lambda pod: requirement.accepts(pod.spec.priority_class_name or None)
    return _SCOPES.get(scope, lambda _pod: False)


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
    affinity = pod.spec.affinity
    if affinity is None:
        return False
    return any(
        term.namespaces or term.namespace_selector is not None
        for part in (affinity.pod_affinity, affinity.pod_anti_affinity)
        if part is not None
        for term in (*part.required, *(each.pod_affinity_term for each in part.preferred))
    )


_SCOPES: Final[dict[str, ScopeMatch]] = {
    "Terminating": _terminating,
    "NotTerminating": lambda pod: not _terminating(pod),
    "BestEffort": _best_effort,
    "NotBestEffort": lambda pod: not _best_effort(pod),
    "CrossNamespacePodAffinity": _crosses_namespaces,
}
