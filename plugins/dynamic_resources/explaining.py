"""Details of rejections by DynamicResources: how many devices match, and why others do not."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from plugins.details import MAX_ITEMS, listed
from plugins.dynamic_resources.attempt import PodClaims
from plugins.dynamic_resources.budget import Check, ExpensiveSelectorsError, SearchBudget
from plugins.dynamic_resources.cluster_devices import ClusterDevices
from plugins.dynamic_resources.devices import DeviceView
from plugins.dynamic_resources.errors import AllocationError
from plugins.dynamic_resources.selectors import SelectorError
from scheduler.api.devices import (
    ALL,
    DeviceRequest,
    DeviceSubRequest,
    ExactDeviceRequest,
)
from scheduler.api.node import Node
from scheduler.framework import NodeTableView, RejectedNodes
from scheduler.sanitizing.cutting import cut

MAX_NODES: Final = 16
MAX_DEVICES: Final = 512
"""Maximum number of devices of a node to examine, so that `kubestow explain` responds quickly."""
MAX_CONDITION: Final = 100

_AT_LEAST: Final = re.compile(
    r"""device\.capacity\[[^\]]*\]\.?\[?["']?(\w+)["']?\]?"""
    r"""\.compareTo\(quantity\(["']([^"']+)["']\)\)\s*>=?\s*0"""
)


@dataclass(slots=True)
class _Count:
    """Numbers of devices of a node with respect to one request."""

    node: str
    devices: int = 0
    matching: int = 0
    free: int = 0
    #: Unsatisfied conditions of devices that do not match.
    lacking: Counter[str] = field(default_factory=Counter)

    def text(self) -> str:
        """Return the numbers as text."""
        text = f"{self.matching} of {self.devices} devices on {self.node} match"
        if self.free < self.matching:
            text += f", {self.free} of them free"
        parts = [f"{count} {what}" for what, count in self.lacking.most_common(MAX_ITEMS)]
        return "; ".join((text, *parts))


def explain(
    devices: ClusterDevices,
    claims: PodClaims,
    table: NodeTableView,
    rejected: RejectedNodes,
    check_time: Callable[[], None] = lambda: None,
) -> str:
    """Describe open claims on the node that comes closest, and claims allocated on other nodes.

    `check_time` raises if that takes too long.
    """
    check = SearchBudget(lambda: 0.0, 0.0, check_time)
    texts = [
        f"claim {each.metadata.name} is allocated on other nodes"
        for each in claims.named
        if each.metadata.uid in claims.unavailable
    ]
    rows = rejected.otherwise_fit
    if not len(rows):
        rows = rejected.rows
    nodes = [table.node_info(int(row)).node for row in rows[:MAX_NODES]]
    texts += [
        f"claim {claim.metadata.name}, request {request.name}: "
        f"{_wanted(request)}{_nearest(devices, request, nodes, check)}"
        for claim in claims.open
        for request in claim.spec.devices.requests
    ]
    return listed(texts, len(texts), "; ")


def _wanted(request: DeviceRequest) -> str:
    exactly = request.exactly
    if exactly is None:
        return f"wants one of {len(request.first_available)} alternatives; "
    if exactly.allocation_mode == ALL:
        return f"wants all of class {exactly.device_class_name}; "
    return f"wants {exactly.count} of class {exactly.device_class_name}; "


def _nearest(
    devices: ClusterDevices, request: DeviceRequest, nodes: Sequence[Node], check: Check
) -> str:
    wanted = request.exactly or next(iter(request.first_available), None)
    if wanted is None or not nodes:
        return "no node to look at"
    try:
        counts = [_count(devices, wanted, node, check) for node in nodes]
    except ExpensiveSelectorsError:
        return "the selectors are too expensive to look at"
    return max(counts, key=lambda each: (each.free, each.matching, each.devices)).text()


def _count(
    devices: ClusterDevices,
    request: ExactDeviceRequest | DeviceSubRequest,
    node: Node,
    check: Check,
) -> _Count:
    count = _Count(node.metadata.name)
    taken = devices.allocated.state()
    conditions = list(_conditions(devices, request))
    for device in islice(_devices(devices, node), MAX_DEVICES):
        count.devices += 1
        failed = (each for each in conditions if not _holds(devices, each, device, check))
        missing = next(failed, None)
        if missing is not None:
            count.lacking[_lack(missing)] += 1
            continue
        count.matching += 1
        count.free += device.id not in taken.exclusive
    return count


def _devices(devices: ClusterDevices, node: Node) -> Iterator[DeviceView]:
    try:
        pools = devices.pools_of(node)
    except AllocationError:
        return
    for pool in pools:
        if pool.is_usable:
            yield from pool.devices


def _conditions(
    devices: ClusterDevices, request: ExactDeviceRequest | DeviceSubRequest
) -> Iterator[str]:
    device_class = devices.classes.get(request.device_class_name)
    selectors = () if device_class is None else device_class.spec.selectors
    for each in (*selectors, *request.selectors):
        if each.cel is not None:
            yield from conjuncts(each.cel.expression)


def _holds(devices: ClusterDevices, condition: str, device: DeviceView, check: Check) -> bool:
    try:
        return devices.selectors.matches(condition, device, check)
    except SelectorError:
        return False


def _lack(condition: str) -> str:
    found = _AT_LEAST.fullmatch(condition)
    if found is not None:
        return f"with {found[1]} below {found[2]}"
    return f"without {cut(condition, MAX_CONDITION)}"


def conjuncts(expression: str) -> list[str]:
    """Split an expression at each `&&` outside of brackets and string literals.

    >>> conjuncts('a && (b && c) && d == "&&"')
    ['a', '(b && c)', 'd == "&&"']
    """
    if "||" in expression or "?" in expression:
        # These operators bind less tightly than `&&`.
        return [expression.strip()]
    parts, depth, quote, start, position = [], 0, "", 0, 0
    while position < len(expression):
        sign = expression[position]
        if quote:
            if sign == "\\":
                position += 1
            elif sign == quote:
                quote = ""
        elif sign in "\"'":
            quote = sign
        elif sign in "([{":
            depth += 1
        elif sign in ")]}":
            depth -= 1
        elif not depth and expression.startswith("&&", position):
            parts.append(expression[start:position].strip())
            position += 1
            start = position + 1
        position += 1
    return [*parts, expression[start:].strip()]
