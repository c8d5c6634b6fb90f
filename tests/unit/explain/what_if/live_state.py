"""Everything of a world that a trial could leave behind, as one comparable value."""

from __future__ import annotations

from typing import Any

import numpy as np

from scheduler import offline
from scheduler.cache import NodeTable
from scheduler.client.store import Store
from scheduler.explain.what_if.changes import as_json


def live_state(world: offline.World) -> dict[str, object]:
    """Return the node table, the cache, all objects, the queue and the random source.

    Objects are compared by what they hold and by identity: a trial that put an equal object back in
    place of the live one would have taken it from whoever else keeps it.
    """
    parts = world._assembly
    cache, queue = parts.state.cache, parts.scheduling.queue
    pods = parts.tables.stores["pods"].by_keys()
    return {
        "random": parts.random.getstate(),
        "table": _table(cache.table),
        "assumed": sorted(key for key, each in pods.items() if cache.is_assumed(each.uid)),
        "external changes": cache.external_changes,
        "anomalies": cache.statistics().anomalies,
        "objects": {name: _objects(store) for name, store in parts.tables.stores.items()},
        "queue": queue.views(namespace="", limit=1000),
        "queue statistics": queue.statistics(),
        "nominated": {key: queue.nominator.node_of(each.uid) for key, each in pods.items()},
        "references": parts.state.signatures.statistics().references,
        "waiting at Permit": len(parts.state.waiting_pods),
        "tasks": len(parts.background),
    }


def _table(table: NodeTable) -> object:
    names, free = table.layout()
    # Free rows at the end are taken in the same order as rows that were never used.
    while names and not names[-1]:
        names.pop()
    used = len(names)
    columns = (
        table.valid, table.unschedulable, table.pod_count, table.pod_limit,
        table.allocatable, table.requested, table.non_zero_requested,
    )  # fmt: skip
    return (
        names,
        [row for row in free if row < used],
        [np.ascontiguousarray(each[..., :used]).tobytes() for each in columns],
        [id(each) for each in table.nodes[:used]],
        [[(uid, id(pod)) for uid, pod in table.pods[row].items()] for row in range(used)],
        [table.requested_of(row) for row in range(used)],
        [table.taint_sets[each] for each in table.taint_set[:used].tolist()],
    )


def _objects(store: Store[Any]) -> object:
    found = {}
    for key, each in store.by_keys().items():
        namespace, _, name = key.rpartition("/")
        found[key] = id(each), as_json(each), store.raw(name, namespace)
    return found
