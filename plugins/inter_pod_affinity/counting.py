"""Pods that the incoming pod's own terms are about, per row; thousands of terms in one walk."""

from __future__ import annotations

from plugins.inter_pod_affinity.pairs import Column, Sums
from plugins.inter_pod_affinity.terms import OwnTerms
from scheduler.framework import NodeTableView, TableWithoutVictims


def required_pods(own: OwnTerms, table: NodeTableView) -> Column:
    """(capacity,): pods that match all required terms."""
    if own.many_required is not None:
        return table.summed_pods(own.many_required)[0]
    return table.pod_counts(tuple(each.pods for each in own.required), terminating=True)


def removable_required_pods(own: OwnTerms, table: TableWithoutVictims) -> Column:
    """As `required_pods`, of those that go."""
    if own.many_required is not None:
        return table.summed_victims(own.many_required)[0]
    return table.victim_counts(tuple(each.pods for each in own.required))


def anti_pods(own: OwnTerms, table: NodeTableView) -> dict[str, Column]:
    """By topology key (capacity,): pods, once for each anti-affinity term that they match."""
    sums = Sums(table)
    if own.many_anti:
        for key, terms in own.many_anti.items():
            if sums.wants(key):
                sums.add(key, table.summed_pods(terms)[0])
        return sums.columns()
    for each in own.required_anti:
        if sums.wants(each.topology_key):
            sums.add(each.topology_key, table.pod_counts((each.pods,), terminating=True))
    return sums.columns()


def removable_anti_pods(own: OwnTerms, table: TableWithoutVictims) -> dict[str, Column]:
    """As `anti_pods`, of those that go."""
    sums = Sums(table)
    if own.many_anti:
        for key, terms in own.many_anti.items():
            if sums.wants(key):
                sums.add(key, table.summed_victims(terms)[0])
        return sums.columns()
    for each in own.required_anti:
        if sums.wants(each.topology_key):
            sums.add(each.topology_key, table.victim_counts((each.pods,)))
    return sums.columns()


def add_preferred(
    own: OwnTerms, table: NodeTableView, sums: Sums, *, weighted: bool = True
) -> None:
    """Add the pods that preferred terms are about, with the weights of these or just once each."""
    if own.many_preferred:
        for key, terms in own.many_preferred.items():
            if sums.wants(key):
                sums.add(key, table.summed_pods(terms)[weighted])
        return
    for each in own.preferred:
        if sums.wants(each.topology_key):
            counts = table.pod_counts((each.pods,), terminating=True)
            sums.add(each.topology_key, counts, each.weight if weighted else 1)
