"""Usage by priority, and what-if overlays, against a recount after any sequence of changes."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.api import Node, Pod, PodSignatures
from scheduler.api.requests import Resources
from scheduler.cache import Cache, NodeOverlay
from scheduler.cache.priority_usage import MAX_BANDS
from scheduler.framework.nodes import PotentialVictims

SIGNATURES = PodSignatures()
KINDS: list[tuple[str, dict[str, Any]]] = [
    ("plain", {"cpu": "1", "memory": "1Gi"}),
    ("disk", {"cpu": "100m", "ephemeral-storage": "5Gi"}),
    ("gpu", {"cpu": "1", "example.com/gpu": "2"}),
    ("fpga", {"example.com/fpga": "1"}),
    ("nothing", {}),
]
SCALARS = ("example.com/gpu", "example.com/fpga", "example.com/none")


def pod(index: int, kind: int, priority: int, scheduler: str = "a") -> Pod:
    raw = {
        "metadata": {"name": f"p{index}", "namespace": "d", "uid": f"p{index}"},
        "spec": {
            "schedulerName": scheduler,
            "priority": priority,
            "containers": [{"name": "c", "resources": {"requests": KINDS[kind][1]}}],
        },
    }
    made = msgspec.convert(raw, Pod)
    SIGNATURES.intern(made)
    return made


def below(pods: list[Pod], priority: int, schedulers: set[str] | None) -> list[Pod]:
    return [
        each
        for each in pods
        if each.priority < priority
        and (schedulers is None or each.spec.scheduler_name in schedulers)
    ]


def total(pods: list[Pod]) -> tuple[list[int], list[int]]:
    """Amounts of native resources and of `SCALARS`."""
    assigned = [each.signature.assigned for each in pods]
    return [
        sum(each.milli_cpu for each in assigned),
        sum(each.memory for each in assigned),
        sum(each.ephemeral_storage for each in assigned),
    ], [sum(each.scalar(name) for each in assigned) for name in SCALARS]


_changes = st.lists(
    st.tuples(
        st.integers(0, 11),
        st.integers(0, 99),
        st.integers(0, len(KINDS) - 1),
        st.sampled_from([-1, 0, 7, 100]),
        st.sampled_from(["a", "b"]),
    ),
    max_size=40,
)


@settings(max_examples=40, deadline=None)
@given(_changes, st.sampled_from([-5, 0, 8, 1000]), st.sampled_from([None, {"a"}, set[str]()]))
def test_bands_equal_a_recount(
    changes: list[tuple[int, int, int, int, str]], priority: int, schedulers: set[str] | None
) -> None:
    """A pod appears, moves, changes its signature (a resize) or disappears; the table grows."""
    cache = Cache()
    where: dict[int, tuple[Pod, str]] = {}
    for index, node, kind, value, scheduler in changes:
        if index in where and node % 3 == 0:
            cache.remove_pod(where.pop(index)[0])
            continue
        made = pod(index, kind, value, scheduler)
        made.spec.node_name = f"n{node}"
        cache.update_pod(made)
        where[index] = made, f"n{node}"
    cache.validate()
    usage = cache.table.priorities
    victims = PotentialVictims(priority, frozenset(schedulers) if schedulers is not None else None)
    amounts, pods = usage.total_of(victims)
    freed = [usage.scalar_total_of(victims, name, slice(None)) for name in SCALARS]
    for row, name in enumerate(cache.table.names):
        there = [each for each, node in where.values() if node == name and name]
        wanted = below(there, priority, schedulers)
        assert pods[row] == len(wanted)
        native, scalars = total(wanted)
        assert amounts[:, row].tolist() == native
        assert [int(column[row]) for column in freed] == scalars
    assert not cache.table.priorities.unbanded.any()


def test_rows_added_later_have_columns_too() -> None:
    cache = Cache()
    for index in range(200):
        made = pod(index, index % 2, 1)
        made.spec.node_name = f"n{index}"
        cache.add_pod(made)
    _, pods = cache.table.priorities.total_of(PotentialVictims(2, None))
    assert int(pods.sum()) == 200
    assert len(pods) == cache.table.capacity


def test_pods_of_too_many_priorities_are_only_counted() -> None:
    cache = Cache()
    pods = [pod(index, 0, index) for index in range(MAX_BANDS + 3)]
    for each in pods:
        each.spec.node_name = "n"
        cache.add_pod(each)
    usage = cache.table.priorities
    assert len(usage) == MAX_BANDS
    row = cache.table.row_for_pods("n")
    assert int(usage.unbanded[row]) == 3
    # Whatever goes first, each pod is taken from where it was counted.
    for each in pods[:10]:
        cache.remove_pod(each)
    again = pod(900, 0, MAX_BANDS)
    again.spec.node_name = "n"
    cache.add_pod(again)
    assert int(usage.unbanded[row]) == 4
    for each in [*pods[10:], again]:
        cache.remove_pod(each)
    assert len(usage) == 0
    assert not np.any(usage.unbanded)


# -- overlays ------------------------------------------------------------------------------------


def recount(pods: list[Pod]) -> Resources:
    scalars: dict[str, int] = {}
    for each in pods:
        for name, amount in each.signature.assigned.scalars:
            scalars[name] = scalars.get(name, 0) + amount
    assigned = [each.signature.assigned for each in pods]
    return Resources(
        milli_cpu=sum(each.milli_cpu for each in assigned),
        memory=sum(each.memory for each in assigned),
        ephemeral_storage=sum(each.ephemeral_storage for each in assigned),
        scalars=tuple(sorted((name, each) for name, each in scalars.items() if each)),
    )


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=30))
def test_an_overlay_sums_what_is_on_it(changes: list[tuple[int, bool]]) -> None:
    cache = Cache()
    size = {"status": {"allocatable": {"cpu": "8", "pods": "110"}}}
    cache.set_node(msgspec.convert({"metadata": {"name": "n"}, **size}, Node))
    known = [pod(index, index % len(KINDS), 0) for index in range(10)]
    for each in known[:4]:
        each.spec.node_name = "n"
        cache.add_pod(each)
    row = cache.table.row_of("n")
    assert row is not None
    before = cache.table.requested_of(row)
    overlay = NodeOverlay(cache.table, row)
    for index, add in changes:
        (overlay.add_pod if add else overlay.remove_pod)(known[index])
        copy = overlay.copy()
        copy.remove_pod(known[0])
        assert overlay.requested == recount(list(overlay.pods))
        assert copy.requested == recount(list(copy.pods))
    assert cache.table.requested_of(row) == before
