"""Usage of an object by quota key: the evaluators of pods, claims, services and counts.

Written from the documented behaviour of v1.36, apart from the scheduler's own arithmetic, so that
each checks the other. Amounts are exact (`Quantity`). Nothing here reads a store or decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from scheduler.api.quantity import Quantity, parse
from simulator.objects import JsonObject, dig, parse_time
from simulator.pods import qos_class
from simulator.resources import Resource

Amounts: TypeAlias = dict[str, Quantity]
"""Quantities by resource name or by quota key."""

ONE: Final = parse("1")
ZERO: Final = parse("0")
COMPUTE: Final = ("cpu", "memory", "ephemeral-storage")
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
_LEGACY: Final = ("configmaps", "secrets", "replicationcontrollers", "resourcequotas")
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


def _larger(left: Amounts, right: Amounts) -> Amounts:
    most = dict(left)
    for name, amount in right.items():
        if name not in most or amount > most[name]:
            most[name] = amount
    return most


# --------------------------------------------------------------------------------------------- pods


def is_native_resource(name: str) -> bool:
    """Whether a resource is Kubernetes' own: without a domain, or of its domain."""
    return "/" not in name or "kubernetes.io/" in name


def is_compute_key(key: str) -> bool:
    """Whether a built-in quota key is about requests of containers, not about counts."""
    return is_pod_key(key) and key not in ("pods", "count/pods")


def is_pod_key(key: str) -> bool:
    """Whether a quota key is counted by the evaluator of pods."""
    return (
        key in _POD_KEYS
        or key.startswith(("hugepages-", "requests.hugepages-"))
        or (key.startswith("requests.") and not is_native_resource(key))
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
            actual = _larger(actual, amounts(status.get("allocatedResources")))
        return actual if _infeasible(pod) else _larger(requested, actual)
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
            start = _larger(start, before)
        else:
            start = _larger(start, added(before, requested))
    total = _larger(total, start)
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
        elif not is_native_resource(name):
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


# ------------------------------------------------------------------------- claims, services, others


def _claim_usage(claim: JsonObject, _now: float) -> Amounts:
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


def _is_claim_key(key: str) -> bool:
    plain = ("count/persistentvolumeclaims", "persistentvolumeclaims", "requests.storage")
    return key in plain or key.endswith(tuple(_STORAGE_CLASS + name for name in plain[1:]))


def _service_usage(service: JsonObject, _now: float) -> Amounts:
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


def _is_service_key(key: str) -> bool:
    return key in ("count/services", "services", "services.nodeports", "services.loadbalancers")


_DEVICES: Final = ".deviceclass.resource.k8s.io/devices"
_COUNT_CLAIMS: Final = "count/resourceclaims.resource.k8s.io"
MAX_RESULTS: Final = 32
"""Devices of a request for all of them: as many as a claim can have."""


def _device_claim_usage(claim: JsonObject, _now: float) -> Amounts:
    """Count devices by class; of alternatives the largest number of each class."""
    used: Amounts = {_COUNT_CLAIMS: ONE}
    for request in dig(claim, "spec", "devices", "requests") or ():
        alternatives = request.get("firstAvailable") or [request.get("exactly") or {}]
        largest: Amounts = {}
        for each in alternatives:
            exact = each.get("allocationMode", "ExactCount") == "ExactCount"
            count = each.get("count", 1) if exact else MAX_RESULTS
            key = f"{each.get('deviceClassName', '')}{_DEVICES}"
            largest = _larger(largest, {key: parse(count)})
        used = added(used, largest)
    return used


def _is_device_claim_key(key: str) -> bool:
    return key == _COUNT_CLAIMS or key.endswith(_DEVICES)


class Evaluator(NamedTuple):
    """Usage computation for the objects of one resource."""

    handles: Callable[[str, str], bool]
    """Whether a write is looked at, by operation and subresource."""
    matches: Callable[[str], bool]
    """Whether a quota key is this evaluator's."""
    usage: Callable[[JsonObject, float], Amounts]
    constraint: Callable[[JsonObject, Iterable[str]], str]
    """The error about amounts that an object lacks, given the limited keys."""
    in_scope: Callable[[JsonObject, Scope], bool]


def _creates(operation: str, subresource: str) -> bool:
    return operation == "CREATE" and not subresource


def _writes(operation: str, subresource: str) -> bool:
    return operation in ("CREATE", "UPDATE") and not subresource


def _creates_or_resizes(operation: str, subresource: str) -> bool:
    return _creates(operation, subresource) or (operation, subresource) == ("UPDATE", "resize")


def _nothing_missing(_obj: JsonObject, _keys: Iterable[str]) -> str:
    return ""


def _in_no_scope(_obj: JsonObject, _scope: Scope) -> bool:
    return False


_SPECIAL: Final[Mapping[str, Evaluator]] = {
    "pods": Evaluator(_creates_or_resizes, is_pod_key, pod_usage, must_specify, pod_in_scope),
    "persistentvolumeclaims": Evaluator(
        _writes, _is_claim_key, _claim_usage, _nothing_missing, _in_no_scope
    ),
    "resourceclaims.resource.k8s.io": Evaluator(
        _creates, _is_device_claim_key, _device_claim_usage, _nothing_missing, _in_no_scope
    ),
    "services": Evaluator(_writes, _is_service_key, _service_usage, _nothing_missing, _in_no_scope),
}


def evaluator_of(resource: Resource) -> Evaluator:
    """Return the evaluator of a kind; objects of kinds without their own are only counted."""
    special = _SPECIAL.get(resource.table)
    if special is not None:
        return special
    keys = [f"count/{resource.qualified}"]
    if resource.table in _LEGACY:
        keys.append(resource.table)
    charged = dict.fromkeys(keys, ONE)
    return Evaluator(
        _creates,
        charged.__contains__,
        lambda _obj, _now: dict(charged),
        _nothing_missing,
        _in_no_scope,
    )


def scopes_of(quota: JsonObject) -> list[Scope]:
    """Return every scope of a quota; an object must be in all of them to be counted."""
    spec = quota.get("spec") or {}
    found = [Scope(str(name), "Exists", ()) for name in spec.get("scopes") or ()]
    found += [
        Scope(
            str(one.get("scopeName", "")),
            str(one.get("operator", "")),
            tuple(str(value) for value in one.get("values") or ()),
        )
        for one in dig(spec, "scopeSelector", "matchExpressions") or ()
    ]
    return found


def in_scopes(evaluator: Evaluator, quota: JsonObject, obj: JsonObject) -> bool:
    """Whether a quota is about an object at all, keys aside."""
    return all(evaluator.in_scope(obj, scope) for scope in scopes_of(quota))
