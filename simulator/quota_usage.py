"""Usage of pods, volume claims and services by quota key.

Written from the documented behaviour of v1.37, apart from the scheduler's own arithmetic, so that
each checks the other. Amounts are exact (`Quantity`). Nothing here reads a store or decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from scheduler.api.quantity import Quantity, parse
from simulator.objects import JsonObject, dig, parse_time
from simulator.pods import qos_class

Amounts: TypeAlias = dict[str, Quantity]
"""Quantities by resource name or by quota key."""

ONE: Final = parse("1")
ZERO: Final = parse("0")
COMPUTE: Final = ("cpu", "memory", "ephemeral-storage")
REQUESTS: Final = "requests."
DEVICE_CLASS: Final = "deviceclass.resource.kubernetes.io/"
"""Before the name of a class: the extended resource that every class has."""
_POD_KEYS: Final = frozenset(
    [
        "pods",
        "count/pods",
        *COMPUTE,
        *(f"{part}.{name}" for part in ("requests", "limits") for name in COMPUTE),
    ]
)
_MUST_SPECIFY: Final = frozenset(
    f"{part}{name}" for part in ("", "requests.", "limits.") for name in ("cpu", "memory")
)
_POD_LEVEL: Final = ("cpu", "memory")
_STORAGE_CLASS: Final = ".storageclass.storage.k8s.io/"
_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
_TERM_KINDS: Final = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)


class Scope(NamedTuple):
    """One condition a quota puts on the objects it counts."""

    name: str
    operator: str
    values: tuple[str, ...]


# ------------------------------------------------------------------------------------------ amounts


def amounts(texts: Mapping[str, str | int | float] | None) -> Amounts:
    """Read a resource list as exact amounts. Raises ValueError for a malformed quantity."""
    return {name: parse(text) for name, text in (texts or {}).items()}


def texts(found: Amounts) -> JsonObject:
    """Write amounts as the API does, in canonical form."""
    return {name: str(found[name]) for name in sorted(found)}


def added(left: Amounts, right: Amounts) -> Amounts:
    """Add amounts; the result has the keys of both."""
    total = dict(left)
    for name, amount in right.items():
        total[name] = total.get(name, ZERO) + amount
    return total


def taken_off(left: Amounts, right: Amounts) -> Amounts:
    """Subtract amounts; the result has the keys of both."""
    return added(left, {name: -amount for name, amount in right.items()})


def only(found: Amounts, keys: Iterable[str]) -> Amounts:
    """Return the entries of `found` for `keys`."""
    return {key: found[key] for key in keys if key in found}


def larger(left: Amounts, right: Amounts) -> Amounts:
    """Return the larger amount of each key."""
    most = dict(left)
    for name, amount in right.items():
        if name not in most or amount > most[name]:
            most[name] = amount
    return most


# --------------------------------------------------------------------------------------------- pods


def is_native_resource(name: str) -> bool:
    """Whether a resource is Kubernetes' own: without a domain, or of its domain."""
    return "/" not in name or "kubernetes.io/" in name


def is_extended(name: str) -> bool:
    """Whether a resource is an extended one: of a foreign domain, or the devices of a class."""
    return name.startswith(DEVICE_CLASS) or not is_native_resource(name)


def is_extended_key(key: str) -> bool:
    """Whether a quota key is about requests of an extended resource."""
    return key.startswith(REQUESTS) and is_extended(key.removeprefix(REQUESTS))


def is_compute_key(key: str) -> bool:
    """Whether a built-in quota key is about requests of containers, not about counts."""
    return is_pod_key(key) and key not in ("pods", "count/pods")


def is_pod_key(key: str) -> bool:
    """Whether a quota key is counted by the evaluator of pods."""
    return (
        key in _POD_KEYS
        or key.startswith(("hugepages-", "requests.hugepages-"))
        or is_extended_key(key)
    )


def _infeasible(pod: JsonObject) -> bool:
    return any(
        condition.get("type") == "PodResizePending" and condition.get("reason") == "Infeasible"
        for condition in dig(pod, "status", "conditions") or ()
    )


def _container_amounts(pod: JsonObject, part: str, container: JsonObject, init: bool) -> Amounts:
    """Return the requests of one container, with what a resize in progress still holds."""
    requested = amounts(dig(container, "resources", part))
    listed = "initContainerStatuses" if init else "containerStatuses"
    for status in dig(pod, "status", listed) or ():
        if status.get("name") != container.get("name") or status.get("resources") is None:
            continue
        actual = amounts(dig(status, "resources", part))
        if part == "requests":
            actual = larger(actual, amounts(status.get("allocatedResources")))
        return actual if _infeasible(pod) else larger(requested, actual)
    return requested


def pod_amounts(pod: JsonObject, part: str) -> Amounts:
    """Return the `requests` or `limits` of a whole pod, by resource name."""
    spec = pod["spec"]
    total: Amounts = {}
    for container in spec.get("containers") or ():
        total = added(total, _container_amounts(pod, part, container, init=False))
    before: Amounts = {}
    start: Amounts = {}
    for container in spec.get("initContainers") or ():
        stays = container.get("restartPolicy") == "Always"
        requested = (
            _container_amounts(pod, part, container, init=True)
            if stays
            else amounts(dig(container, "resources", part))
        )
        if stays:
            total, before = added(total, requested), added(before, requested)
            start = larger(start, before)
        else:
            start = larger(start, added(before, requested))
    total = larger(total, start)
    for name, amount in amounts(dig(spec, "resources", part)).items():
        if name in _POD_LEVEL or name.startswith("hugepages-"):
            total[name] = amount
    overhead = amounts(spec.get("overhead"))
    if part == "limits":
        overhead = {name: more for name, more in overhead.items() if total.get(name, ZERO)}
    return added(total, overhead)


def _by_key(requests: Amounts, limits: Amounts) -> Amounts:
    used: Amounts = {"pods": ONE}
    for name, amount in requests.items():
        if name in COMPUTE or name.startswith("hugepages-"):
            used[name] = used[f"requests.{name}"] = amount
        elif is_extended(name):
            used[f"requests.{name}"] = amount
    for name, amount in limits.items():
        if name in COMPUTE:
            used[f"limits.{name}"] = amount
    return used


def counts_for_quota(pod: JsonObject, now: float) -> bool:
    """Whether a pod is charged for more than being an object.

    Not when it has ended, nor when its deletion is overdue by a whole grace period.
    """
    if dig(pod, "status", "phase") in ("Succeeded", "Failed"):
        return False
    meta = pod["metadata"]
    deadline, grace = (
        parse_time(meta.get("deletionTimestamp")),
        meta.get("deletionGracePeriodSeconds"),
    )
    return deadline is None or grace is None or now <= deadline + float(grace)


def pod_usage(pod: JsonObject, now: float) -> Amounts:
    """Return the usage of a pod, by quota key."""
    used: Amounts = {"count/pods": ONE}
    if counts_for_quota(pod, now):
        used |= _by_key(pod_amounts(pod, "requests"), pod_amounts(pod, "limits"))
    return used


def must_specify(pod: JsonObject, keys: Iterable[str]) -> str:
    """Return the error about containers without an amount of a limited resource; empty for none."""
    required = sorted(_MUST_SPECIFY & frozenset(keys))
    spec = pod["spec"]
    whole = _by_key(
        amounts(dig(spec, "resources", "requests")), amounts(dig(spec, "resources", "limits"))
    )
    missing: dict[str, set[str]] = {}
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        given = _by_key(
            amounts(dig(container, "resources", "requests")),
            amounts(dig(container, "resources", "limits")),
        )
        for key in required:
            if key not in given and key not in whole:
                missing.setdefault(key, set()).add(str(container.get("name", "")))
    if not missing:
        return ""
    listed = (f"{key} for: {','.join(sorted(missing[key]))}" for key in sorted(missing))
    return f"must specify {'; '.join(listed)}"


def is_terminating(pod: JsonObject) -> bool:
    """Whether a pod has an active deadline: the scope Terminating."""
    deadline = dig(pod, "spec", "activeDeadlineSeconds")
    return isinstance(deadline, int) and deadline >= 0


def _reaches_other_namespaces(pod: JsonObject) -> bool:
    for kind in ("podAffinity", "podAntiAffinity"):
        for when in _TERM_KINDS:
            for entry in dig(pod, "spec", "affinity", kind, when) or ():
                term = entry.get("podAffinityTerm", entry)
                if term.get("namespaces") or term.get("namespaceSelector") is not None:
                    return True
    return False


def _of_class(scope: Scope, name: str) -> bool:
    match scope.operator:
        case "In":
            return bool(name) and name in scope.values
        case "NotIn":
            return not name or name not in scope.values
        case "DoesNotExist":
            return not name
    return bool(name)


def pod_in_scope(pod: JsonObject, scope: Scope) -> bool:
    """Whether a scope lets a pod through."""
    match scope.name:
        case "Terminating":
            return is_terminating(pod)
        case "NotTerminating":
            return not is_terminating(pod)
        case "BestEffort":
            return qos_class(pod["spec"]) == "BestEffort"
        case "NotBestEffort":
            return qos_class(pod["spec"]) != "BestEffort"
        case "PriorityClass":
            return _of_class(scope, str(dig(pod, "spec", "priorityClassName") or ""))
        case "CrossNamespacePodAffinity":
            return _reaches_other_namespaces(pod)
    return False


# ------------------------------------------------------------------------------- claims, services


def claim_usage(claim: JsonObject, _now: float) -> Amounts:
    """Return the usage of a PersistentVolumeClaim."""
    annotated = (dig(claim, "metadata", "annotations") or {}).get(_CLASS_ANNOTATION)
    of_class = str(annotated or dig(claim, "spec", "storageClassName") or "")
    used: Amounts = {"count/persistentvolumeclaims": ONE, "persistentvolumeclaims": ONE}
    requested = dig(claim, "spec", "resources", "requests", "storage")
    if requested is not None:
        used["requests.storage"] = parse(requested)
    if of_class:
        for key in ("persistentvolumeclaims", "requests.storage"):
            if key in used:
                used[f"{of_class}{_STORAGE_CLASS}{key}"] = used[key]
    return used


def is_claim_key(key: str) -> bool:
    """Whether a quota key is about PersistentVolumeClaims."""
    plain = ("count/persistentvolumeclaims", "persistentvolumeclaims", "requests.storage")
    return key in plain or key.endswith(tuple(_STORAGE_CLASS + name for name in plain[1:]))


def service_usage(service: JsonObject, _now: float) -> Amounts:
    """Return the usage of a Service."""
    spec = service.get("spec") or {}
    ports = parse(str(len(spec.get("ports") or ())))
    used: Amounts = {"count/services": ONE, "services": ONE}
    used["services.nodeports"] = used["services.loadbalancers"] = ZERO
    if spec.get("type") in ("NodePort", "LoadBalancer"):
        used["services.nodeports"] = ports
    if spec.get("type") == "LoadBalancer":
        used["services.loadbalancers"] = ONE
        if spec.get("allocateLoadBalancerNodePorts") is False:
            used["services.nodeports"] = ZERO
    return used


def is_service_key(key: str) -> bool:
    """Whether a quota key is about Services."""
    return key in ("count/services", "services", "services.nodeports", "services.loadbalancers")
