"""The pods in each domain of hard constraints, for people."""

from __future__ import annotations

import numpy as np

from plugins.details import MAX_ITEMS, listed
from plugins.pod_topology_spread.filtering import Domains, HardState
from scheduler.framework import NodeTableView
from scheduler.framework.near_labels import key_meant


def domain_table(state: HardState, table: NodeTableView) -> str:
    """Return each constraint with its domains, the emptiest first, and the skew in each.

    The skew is that with the pod there: a domain whose skew is above maxSkew rejects it. Pods count
    that match and are not being deleted, on nodes that count. Of a label that no node has, a
    similar one that nodes have.
    """
    texts = (_of(state, index, domain, table) for index, domain in enumerate(state.domains))
    return listed(texts, len(state.domains), "; ")


def _of(state: HardState, index: int, domain: Domains, table: NodeTableView) -> str:
    constraint, minimum = domain.constraint, state.minimum(index)
    key = constraint.topology_key
    counts = domain.counts[:-1]
    known = domain.registered
    if not len(known):
        absent = f"{key}: no node that counts has this label"
        meant = key_meant(table, key)
        return f"{absent}; did you mean {meant}?" if meant else absent
    order = known[np.lexsort((known, counts[known]))]
    # The emptiest set the limit, the fullest are over it.
    shown = (
        order if len(order) <= MAX_ITEMS else np.concatenate((order[:2], order[2 - MAX_ITEMS :]))
    )
    rows = ", ".join(
        f"{domain.values.values[value]} {count} (skew {count + domain.own - minimum})"
        for value, count in zip(shown.tolist(), counts[shown].tolist(), strict=True)
    )
    more = f", {len(order) - len(shown)} between" if len(shown) < len(order) else ""
    few = "" if domain.enough else f", fewer than minDomains {constraint.min_domains}"
    return f"{key}, maxSkew {constraint.max_skew}, pods that count: {rows}{more}{few}"
