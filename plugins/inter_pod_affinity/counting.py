"""Counts of pods per row that match the incoming pod's own terms."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from plugins.inter_pod_affinity.pairs import Column, Sums
from plugins.inter_pod_affinity.terms import OwnTerms
from scheduler.api.many_terms import ManyTerms
from scheduler.framework import Int64Column, NodeTableView, PodTerm, TableWithoutVictims

SumPods = Callable[[ManyTerms], tuple[Int64Column, Int64Column]]
CountPods = Callable[[tuple[PodTerm, ...]], Column]


def required_pods(own: OwnTerms, table: NodeTableView) -> Column:
    """(capacity,): pods that match all required terms."""
    return _required(own, table.summed_pods, partial(table.pod_counts, terminating=True))


def required_victims(own: OwnTerms, table: TableWithoutVictims) -> Column:
    """(capacity,): potential victims that match all required terms."""
    return _required(own, table.summed_victims, table.victim_counts)


def anti_pods(own: OwnTerms, table: NodeTableView) -> dict[str, Column]:
    """By topology key (capacity,): pods, counted once per anti-affinity term they match."""
    return _anti(own, table, table.summed_pods, partial(table.pod_counts, terminating=True))


def anti_victims(own: OwnTerms, table: TableWithoutVictims) -> dict[str, Column]:
    """By topology key (capacity,): `anti_pods` of the potential victims only."""
    return _anti(own, table, table.summed_victims, table.victim_counts)


def _required(own: OwnTerms, summed: SumPods, counted: CountPods) -> Column:
    if own.many_required is not None:
        return summed(own.many_required)[0]
    return counted(tuple(each.pods for each in own.required))


def _anti(
    own: OwnTerms, table: NodeTableView, summed: SumPods, counted: CountPods
) -> dict[str, Column]:
    sums = Sums(table)
    if own.many_anti:
        for key, terms in own.many_anti.items():
            if sums.wants(key):
                sums.add(key, summed(terms)[0])
        return sums.columns()
    for each in own.required_anti:
        if sums.wants(each.topology_key):
            sums.add(each.topology_key, counted((each.pods,)))
    return sums.columns()


def add_preferred(
    own: OwnTerms, table: NodeTableView, sums: Sums, *, weighted: bool = True
) -> None:
    """Add the pods that match preferred terms, with the terms' weights or once each."""
    if own.many_preferred:
        for key, terms in own.many_preferred.items():
            if sums.wants(key):
                sums.add(key, table.summed_pods(terms)[weighted])
        return
    for each in own.preferred:
        if sums.wants(each.topology_key):
            counts = table.pod_counts((each.pods,), terminating=True)
            sums.add(each.topology_key, counts, each.weight if weighted else 1)
