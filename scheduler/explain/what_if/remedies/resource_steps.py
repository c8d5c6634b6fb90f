"""Steps for a pod that is too large: more on a node, a smaller request, fewer pods beside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from scheduler import framework
from scheduler.api.pod import Pod
from scheduler.api.quantity import NANO, parse
from scheduler.api.requests import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources
from scheduler.explain.records import Change, Code, Step
from scheduler.explain.what_if.changes import JsonObject, pointer
from scheduler.explain.what_if.remedies.situation import Situation, evictions, names
from scheduler.framework import NodeTableView, Rows

MAX_EVICTED: Final = 20
_MEBI: Final = 1 << 20
_COLUMNS: Final = {
    CPU: framework.CPU,
    MEMORY: framework.MEMORY,
    EPHEMERAL_STORAGE: framework.EPHEMERAL_STORAGE,
}


def amounts(resources: Resources) -> dict[str, int]:
    """Return amounts by name: millicores, bytes, counts."""
    found = {
        CPU: resources.milli_cpu,
        MEMORY: resources.memory,
        EPHEMERAL_STORAGE: resources.ephemeral_storage,
    }
    return found | dict(resources.scalars)


def quantity(name: str, amount: int) -> str:
    """Return an amount as it is written in a manifest.

    >>> quantity("cpu", 3500), quantity("cpu", 2000), quantity("memory", 3 << 30)
    ('3500m', '2', '3072Mi')
    """
    if name == CPU:
        return f"{amount // 1000}" if amount % 1000 == 0 else f"{amount}m"
    if _in_bytes(name) and amount % _MEBI == 0:
        return f"{amount // _MEBI}Mi" if amount else "0"
    return str(amount)


def spoken(name: str, amount: int) -> str:
    """Return an amount for a text.

    >>> spoken("cpu", 3500), spoken("memory", 5 << 29), spoken("hugepages-2Mi", 64 << 20)
    ('3.5', '2.5Gi', '64Mi')
    >>> spoken("memory", 1000), spoken("example.com/gpu", 2)
    ('1000', '2')
    """
    if name == CPU:
        return f"{amount / 1000:g}"
    if _in_bytes(name):
        for unit, size in (("Gi", 1 << 30), ("Mi", _MEBI)):
            if amount >= size:
                return f"{amount / size:.4g}{unit}"
    return str(amount)


def _in_bytes(name: str) -> bool:
    return name in (MEMORY, EPHEMERAL_STORAGE) or name.startswith("hugepages-")


def nearest(table: NodeTableView, pod: Pod, rows: Rows) -> Rows:
    """Return rows in the order of what the pod lacks there, as a share of what it requests."""
    lacking = np.zeros(len(rows))
    for name, need in amounts(pod.signature.requests).items():
        if need:
            native = _COLUMNS.get(name)
            if native is None:
                allocatable, used = table.scalar_amounts(name, rows)
            else:
                allocatable, used = table.allocatable[native, rows], table.requested[native, rows]
            np.maximum(lacking, (need - (allocatable - used)) / need, out=lacking)
    return rows[np.argsort(lacking, kind="stable")]


def resources(situation: Situation) -> Iterator[Step]:
    """Enlarge the node, lower the request, or evict pods."""
    node = situation.node
    row = None if node is None else situation.table.row_of(node.name)
    if node is None or row is None:
        return
    info = situation.table.node_info(row)
    allocatable, used = amounts(info.allocatable), amounts(info.requested)
    free = {name: allocatable.get(name, 0) - used.get(name, 0) for name in {*allocatable, *used}}
    needs = amounts(situation.pod.signature.requests)
    lacking = {
        name: need - free.get(name, 0)
        for name, need in needs.items()
        if need and need > free.get(name, 0)
    }
    crowded = info.allowed_pod_number <= len(situation.pods_on_node())
    changes = [
        Change(
            "set", "Node", node.name, pointer("status", "allocatable", name),
            quantity(name, allocatable.get(name, 0) + more),
        )
        for name, more in lacking.items()
    ]  # fmt: skip
    texts = [f"{spoken(name, more)} more {name}" for name, more in lacking.items()]
    if crowded:
        limit = str(len(situation.pods_on_node()) + 1)
        changes.append(
            Change("set", "Node", node.name, pointer("status", "allocatable", PODS), limit)
        )
        texts.append("room for one more pod")
    if not changes:
        return
    share = max((more / max(needs[name], 1) for name, more in lacking.items()), default=0.1)
    text = f"give node {node.name} {' and '.join(texts)}"
    yield Step(Code.MORE_ON_NODE, text, tuple(changes), 5.0 + 3.0 * min(share, 2.0), node.name)
    if lacking and not crowded:
        room = {name: max(0, free.get(name, 0)) for name in lacking}
        yield from lower_requests(situation, room, share, node.name)
    yield from _evict(situation, lacking, crowded=crowded)


def lower_requests(
    situation: Situation, room: dict[str, int], share: float, node: str
) -> Iterator[Step]:
    """Lower the requests of the pod to what there is room for, if there is any of each."""
    if not all(room.values()):
        return
    spec = situation.spec
    overhead = spec.get("overhead") or {}
    regular = spec.get("containers", [])
    lasting = [e for e in spec.get("initContainers", []) if e.get("restartPolicy") == "Always"]
    changes: list[Change] = []
    for name, amount in room.items():
        left = max(0, amount - _stated(overhead.get(name), name))
        each = left // max(1, len(regular) + len(lasting))
        for field in ("containers", "initContainers"):
            for index, container in enumerate(spec.get(field, [])):
                at = pointer("spec", field, index, "resources")
                changes += _limits(situation, container.get("resources") or {}, at, name, each)
        changes += _limits(situation, spec.get("resources") or {}, "/spec/resources", name, left)
    if not changes:
        return
    text = " and ".join(f"{spoken(name, amount)} {name}" for name, amount in room.items())
    cost = 3.0 + 4.0 * min(share, 1.0)
    yield Step(Code.LOWER_REQUEST, f"request at most {text}", tuple(changes), cost, node)


def _limits(
    situation: Situation, stated: JsonObject, at: str, name: str, amount: int
) -> Iterator[Change]:
    for field in ("requests", "limits"):
        values = stated.get(field)
        if values and name in values and _stated(values[name], name) > amount:
            extended = "/" in name or name.startswith("hugepages-")
            if field == "requests" or extended:
                yield situation.set_pod(at + pointer(field, name), quantity(name, amount))


def _stated(raw: object, name: str) -> int:
    """Return a stated amount as an integer, rounded up."""
    if raw is None:
        return 0
    exact = parse(str(raw)).nano
    unit = NANO // 1000 if name == CPU else NANO
    return -(-exact // unit)


def _evict(situation: Situation, lacking: dict[str, int], *, crowded: bool) -> Iterator[Step]:
    """Evict the fewest pods of least priority that make enough room."""
    node = situation.node
    assert node is not None
    pods = sorted(situation.evictable(), key=lambda each: (each.priority, each.key))
    chosen: list[Pod] = []
    left = dict(lacking)
    wants_one = crowded
    for pod in pods:
        uses = amounts(pod.signature.assigned)
        if wants_one or any(uses.get(name, 0) > 0 for name, more in left.items() if more > 0):
            chosen.append(pod)
            wants_one = False
            left = {name: more - uses.get(name, 0) for name, more in left.items()}
        if not wants_one and all(more <= 0 for more in left.values()):
            break
    if wants_one or any(more > 0 for more in left.values()) or not chosen:
        return
    if len(chosen) > MAX_EVICTED:
        return
    higher = max(each.priority for each in chosen) >= situation.pod.priority
    cost = 6.0 + len(chosen) + (4.0 if higher else 0.0)
    text = f"evict {names(chosen)} from {node.name}"
    yield Step(Code.EVICT_PODS, text, evictions(chosen), cost, node.name)
