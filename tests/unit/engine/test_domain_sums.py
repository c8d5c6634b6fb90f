"""Sums by domain follow changed rows, whatever becomes of their labels."""

from __future__ import annotations

import random

import numpy as np
import pytest

from scheduler.cache import NodeTable
from scheduler.engine.domain_sums import DomainSums
from scheduler.testing import Cluster, node

KEY = "example.com/rack"


def table_of(cluster: Cluster) -> NodeTable:
    table: NodeTable = cluster.world._assembly.state.cache.table
    return table


def recounted(table: NodeTable, most: np.ndarray) -> dict[str, list[int]]:
    """Return the sums of all templates by value, without those that are 0."""
    found: dict[str, np.ndarray] = {}
    for row in table.rows.tolist():
        labels = table.node_info(row).labels
        if KEY in labels:
            found[labels[KEY]] = found.get(labels[KEY], 0) + most[:, row].astype(np.int64)
    return {value: sums.tolist() for value, sums in found.items() if sums.any()}


@pytest.mark.parametrize("seed", range(20))
def test_sums_equal_a_recount(seed: int) -> None:
    with Cluster(seed=seed) as cluster:
        check(cluster, random.Random(seed))


def check(cluster: Cluster, draw: random.Random) -> None:
    for number in range(30):
        cluster.add(node(f"n{number}", labels={KEY: f"r{draw.randrange(5)}"}))
    cluster.tick(1)
    table = table_of(cluster)
    most = np.array(
        [[draw.randrange(9) for _ in range(table.capacity)] for _ in range(3)], dtype=np.int32
    )
    most[:, ~table.valid] = 0
    sums = DomainSums(table, KEY)
    for _ in range(60):
        row = draw.randrange(30)
        action = draw.random()
        before = most.copy()
        if action < 0.3:
            labels = {KEY: draw.choice(("r1", "r2", f"new{draw.randrange(99)}"))}
            cluster.add(node(table.names[row], labels=labels if action < 0.25 else {}))
            cluster.tick(0.1)
        rows = np.array([row], dtype=np.intp)
        if action < 0.8:
            most[:, row] = [draw.randrange(9) for _ in range(3)]
            sums.change(rows, before[:, rows], most[:, rows])
        else:
            sums.change(rows, before[:, rows], before[:, rows])
            most[1, row] = draw.randrange(9)
            sums.change_one(1, rows, before[1, rows], most[1, rows])
        found = sums.by_domain(most)
        values = table.label_values(KEY).values
        named = {values[index]: each for index, each in enumerate(found.tolist()) if any(each)}
        assert named == recounted(table, most)
        assert sums.most(most).tolist() == found.max(axis=0).tolist()
