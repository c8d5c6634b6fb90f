"""The values that nodes have of a label, and which of them a misspelt value means.

A pod may ask for any value and nodes may have thousands, so both are bounded.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from difflib import SequenceMatcher, get_close_matches
from typing import Final

import numpy as np

from scheduler.framework.nodes import NodeTableView

MAX_COMPARED: Final = 50
"""Values of nodes that are compared, the most frequent first."""
MAX_WANTED: Final = 5
"""Values of a pod that are compared with each of them: a comparison takes up to 0.1 ms."""
MAX_LENGTH: Final = 63
"""Characters of the value of a label."""
_SIMILAR: Final = 0.8
_DIGIT: Final = re.compile(r"\d")
_OTHERS: Final = re.compile(r"[^a-z0-9]+")


def values_of_nodes(table: NodeTableView, key: str) -> list[tuple[str, int]]:
    """Return the values that nodes have of a label and the numbers of nodes, most nodes first."""
    ids = table.label_column(key)[table.rows]
    counts = np.bincount(ids[ids >= 0])
    values = table.label_values(key).values
    found = [(values[at], int(counts[at])) for at in np.flatnonzero(counts).tolist()]
    return sorted(found, key=lambda each: (-each[1], each[0]))


def nearest_value(wanted: Sequence[str], known: Sequence[tuple[str, int]]) -> tuple[str, str]:
    """Return the first wanted value that is similar to a known one, and that one; else empty texts.

    >>> known = [("zone-0", 2), ("zone-1", 1)]
    >>> nearest_value(["zone0"], known), nearest_value(["Zone_1"], known)
    (('zone0', 'zone-0'), ('Zone_1', 'zone-1'))
    >>> nearest_value(["zone2"], known), nearest_value(["z" * 64], known)
    (('', ''), ('', ''))

    Of a misspelt value the number is right: another zone of a region is no misspelling. Nor is one
    that is equally similar to several.

    >>> nearest_value(["zone-d"], [("zone-a", 1), ("zone-b", 1)])
    ('', '')
    >>> nearest_value(["dta0"], [("data-0", 1), ("data0", 1)])
    ('dta0', 'data0')
    """
    by_plain: dict[str, list[str]] = {}
    for each, _ in known[:MAX_COMPARED]:
        by_plain.setdefault(_OTHERS.sub("", each.lower()), []).append(each)
    for value in wanted[:MAX_WANTED]:
        if len(value) > MAX_LENGTH:
            continue
        plain = _OTHERS.sub("", value.lower())
        same = [each for each in by_plain if _number(each) == _number(plain)]
        near = get_close_matches(plain, same, 2, _SIMILAR)
        ratios = {SequenceMatcher(None, each, plain).ratio() for each in near}
        if plain and near and len(ratios) == len(near):
            return value, get_close_matches(value, by_plain[near[0]], 1, 0.0)[0]
    return "", ""


def keys_of_nodes(table: NodeTableView) -> frozenset[str]:
    """Return the keys of the labels of the first nodes."""
    rows = table.rows[:MAX_COMPARED].tolist()
    return frozenset(key for row in rows for key in table.node_info(row).labels)


def key_meant(table: NodeTableView, key: str) -> str:
    """Return the key of a label similar to this one, which no node has; empty: another case."""
    return "" if values_of_nodes(table, key) else nearest_key(key, keys_of_nodes(table))


def nearest_key(wanted: str, known: Collection[str]) -> str:
    """Return the key of a label that is similar to one that no node has; empty if none is.

    Prefix and name are compared each by itself: all keys of one prefix are alike.

    >>> known = ["topology.kubernetes.io/zone", "kubernetes.io/hostname"]
    >>> [nearest_key(f"topology.kubernetes.io/{name}", known) for name in ("zones", "rack")]
    ['topology.kubernetes.io/zone', '']
    >>> nearest_key("kubernets.io/hostname", known)
    'kubernetes.io/hostname'
    """
    prefix, _, name = wanted.rpartition("/")
    by_name: dict[str, str] = {}
    for each in sorted(known)[:MAX_COMPARED]:
        above, _, own = each.rpartition("/")
        if above == prefix or (own not in by_name and nearest_value([prefix], [(above, 1)])[1]):
            by_name[own] = each
    near = nearest_value([name], [(each, 1) for each in by_name])[1]
    return by_name.get(near, "")


def _number(value: str) -> str:
    """Return a value from its first digit on."""
    found = _DIGIT.search(value)
    return "" if found is None else value[found.start() :]
