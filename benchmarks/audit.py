"""Audit: whether what a run did may be compared at all.

A scheduler that loses a pod, binds one twice or overfills a node is fast for the wrong reason.
Whether two sides did the same work is seen by whoever compares them (`report`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from benchmarks.operations import Observed
from scheduler.api.quantity import milli_value

Object = Mapping[str, Any]
_ENDED: Final = ("Succeeded", "Failed")
_MAX_NAMED: Final = 3


def audit(
    observed: Observed, nodes: Iterable[Object], pods: Iterable[Object], claims: Iterable[Object]
) -> list[str]:
    """Return the violations of a run, one sentence each; empty when it may be compared.

    Args:
        observed: what the load generator saw.
        nodes: every node at the end.
        pods: every pod at the end, as the API server has them.
        claims: every claim of devices at the end.
    """
    problems = []
    if lost := sum(not node for node in observed.nodes):
        problems.append(f"{lost} pods were never bound")
    if observed.bound_twice:
        problems.append(f"bound twice: {_some(observed.bound_twice)}")
    if over := overfilled(nodes, pods):
        problems.append(f"bound over capacity: {_some(over)}")
    if twice := allocated_twice(claims):
        problems.append(f"allocated twice: {_some(twice)}")
    return problems


def allocated_twice(claims: Iterable[Object]) -> list[str]:
    """Devices that more than one claim holds, but for those that claims may share, sorted."""
    held: Counter[str] = Counter()
    for claim in claims:
        allocation = claim.get("status", {}).get("allocation") or {}
        for each in allocation.get("devices", {}).get("results", ()):
            if "shareID" not in each and not each.get("adminAccess"):
                held[f"{each['driver']}/{each['pool']}/{each['device']}"] += 1
    return sorted(device for device, count in held.items() if count > 1)


def overfilled(nodes: Iterable[Object], pods: Iterable[Object]) -> list[str]:
    """Nodes whose pods ask for more than they have, with the resource, sorted.

    Counts containers only: the workloads have no init containers and no overhead. Resources for
    which a pod has a claim are those of devices.
    """
    used: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for pod in pods:
        node = pod["spec"].get("nodeName")
        if not node or pod["status"].get("phase") in _ENDED:
            continue
        used[node]["pods"] += 1000
        claimed = pod["status"].get("extendedResourceClaimStatus") or {}
        devices = {each["resourceName"] for each in claimed.get("requestMappings", ())}
        for container in pod["spec"]["containers"]:
            for name, amount in container.get("resources", {}).get("requests", {}).items():
                if name not in devices:
                    used[node][name] += _milli(amount)
    found = []
    for each in nodes:
        name = each["metadata"]["name"]
        allocatable = each["status"].get("allocatable", {})
        for resource, amount in used.pop(name, {}).items():
            if amount > _milli(allocatable.get(resource, "0")):
                found.append(f"{name} ({resource})")
    return sorted([*found, *(f"{name} (no such node)" for name in used)])


def _milli(text: str) -> int:
    return milli_value(text)


def _some(names: Sequence[str]) -> str:
    rest = len(names) - _MAX_NAMED
    return ", ".join(names[:_MAX_NAMED]) + (f" and {rest} more" if rest > 0 else "")
