"""Relaxed constraints in Filter and Score (rules S3, S8, S9 and S13)."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.framework import SKIP, QueueingHint
from tests.unit.plugins.clusters import node
from tests.unit.plugins.clusters import pod as make_pod
from tests.unit.plugins.spread_fallback.bench import (
    HOST,
    NAME,
    NPF,
    PF,
    PROVISIONING,
    ZONE,
    Bench,
    constraint,
    two_zones,
)

TIMEOUT = 300.0
QUEUE, STAYS = QueueingHint.QUEUE, QueueingHint.SKIP


def test_a11_s3_hostname_soft_and_zone_hard() -> None:
    bench = Bench(constraint(ZONE, NPF), constraint(HOST, PF))
    bench.attempt()
    assert bench.next() == [HOST]
    bench.reject()
    made = bench.condition()
    assert made is not None
    assert made.message.endswith(f"; {HOST}: {PF}"), "the status names what was soft"
    assert bench.state.failure_note({NAME}) == (
        f" (fallback active for: {HOST}) (fallback waits for: {ZONE}: {NPF})"
    )
    assert bench.state.failure_note({"Other"}) == f" (fallback active for: {HOST})"


def test_s9_nodes_without_the_relaxed_key_count_for_the_other_constraints() -> None:
    """Nodes without the relaxed key count again for the constraints that stay hard."""
    cluster = two_zones()
    cluster.cache.set_node(node("c", labels={ZONE: "Z3"}))
    bench = Bench(constraint(ZONE), constraint(HOST, NPF), cluster=cluster)
    bench.attempt()
    assert bench.fits() == ["b"], "c lacks the hostname label: Z3 does not count"
    bench.set(PROVISIONING, "False")
    assert bench.next() == [HOST]
    assert bench.fits() == ["b", "c"]


def test_a20_without_hard_constraints_filter_is_skipped_and_score_is_not() -> None:
    bench = Bench(constraint(ZONE, NPF))
    bench.attempt()
    bench.set(PROVISIONING, "False")
    assert bench.begin() is SKIP
    table = bench.cluster.table
    assert bench.plugin.pre_score(bench.state, bench.pod, table, table.rows) is None
    raw = bench.plugin.score_rows(bench.state, bench.pod, table, table.rows)
    final = bench.plugin.normalize_scores(bench.state, bench.pod, table, table.rows, raw)
    assert final[1] > final[0], "the empty zone scores higher"


def test_a21_two_soft_constraints_on_one_key_are_summed() -> None:
    own = constraint(ZONE, whenUnsatisfiable="ScheduleAnyway", maxSkew=2)
    both = Bench(own, constraint(ZONE, PF, maxSkew=2))
    both.attempt()
    assert both.next() == [ZONE]
    table = both.cluster.table
    assert both.plugin.pre_score(both.state, both.pod, table, table.rows) is None
    summed = both.plugin.score_rows(both.state, both.pod, table, table.rows).tolist()
    single = Bench(own)
    single.begin()
    single.plugin.pre_score(single.state, single.pod, table, table.rows)
    alone = single.plugin.score_rows(single.state, single.pod, table, table.rows).tolist()
    assert all(more > less for more, less in zip(summed, alone, strict=True))


def test_s9_a_relaxed_constraint_scores_as_a_native_soft_one() -> None:
    """Same scores as the constraint would give, had it been ScheduleAnyway from the start."""
    for fields in (
        {},
        {"maxSkew": 3},
        {"minDomains": 5},
        {"nodeTaintsPolicy": "Honor"},
        {"nodeAffinityPolicy": "Ignore"},
        {"matchLabelKeys": ["rev"]},
    ):
        bench = Bench(constraint(ZONE, NPF, **fields), constraint(HOST, PF))
        bench.attempt()
        bench.set(PROVISIONING, "False")
        assert bench.next() == [HOST, ZONE]
        plain = {key: value for key, value in fields.items() if key != "minDomains"}
        native = Bench(
            constraint(ZONE, whenUnsatisfiable="ScheduleAnyway", **plain),
            constraint(HOST, whenUnsatisfiable="ScheduleAnyway"),
            cluster=bench.cluster,
        )
        native.begin()
        scores = []
        for each in (bench, native):
            table = each.cluster.table
            assert each.plugin.pre_score(each.state, each.pod, table, table.rows) is None
            scores.append(each.plugin.score_rows(each.state, each.pod, table, table.rows).tolist())
        assert scores[0] == scores[1], fields


def test_a16_match_label_keys_count_the_own_revision_only() -> None:
    cluster = two_zones()
    for _ in range(3):
        cluster.place(make_pod(metadata={"labels": {"app": "a", "rev": "old"}, "name": "o"}), "b")
    bench = Bench(constraint(ZONE, NPF, matchLabelKeys=["rev"]), cluster=cluster)
    metadata = msgspec.structs.replace(bench.pod.metadata, labels={"app": "a", "rev": "new"})
    bench.pod = bench.cluster.intern(msgspec.structs.replace(bench.pod, metadata=metadata))
    bench.info.pod = bench.pod
    bench.attempt()
    bench.set(PROVISIONING, "False")
    assert bench.next() == [ZONE]
    table = cluster.table
    bench.plugin.pre_score(bench.state, bench.pod, table, table.rows)
    scores = bench.plugin.score_rows(bench.state, bench.pod, table, table.rows).tolist()
    assert scores[0] == scores[1], "no pod of the new revision runs anywhere"


def test_a19_a_tainted_zone_does_not_count_while_its_taints_are_honoured() -> None:
    cluster = two_zones()
    taint = {"key": "k", "effect": "NoSchedule"}
    cluster.cache.set_node(node("c", labels={ZONE: "Z3", HOST: "c"}, taints=[taint]))
    cluster.place(make_pod(metadata={"labels": {"app": "a"}, "name": "t"}), "c")
    counts = {}
    for policy in ("Honor", "Ignore"):
        bench = Bench(constraint(ZONE, NPF, nodeTaintsPolicy=policy), cluster=cluster)
        bench.attempt()
        bench.set(PROVISIONING, "False")
        assert bench.next() == [ZONE]
        table = cluster.table
        bench.plugin.pre_score(bench.state, bench.pod, table, table.rows)
        row = table.row_of("c")
        assert row is not None
        counts[policy] = bench.plugin.score(bench.state, bench.pod, table.node_info(row))
    assert counts["Honor"] < counts["Ignore"]


def test_a22_s8_a_cycle_uses_one_decision() -> None:
    """Changes of time and condition between PreFilter and Score have no effect."""
    bench = Bench(constraint(ZONE, NPF), timeout=TIMEOUT)
    bench.attempt()
    bench.clock.advance(TIMEOUT - 1)
    bench.begin()
    bench.clock.advance(2)
    bench.set(PROVISIONING, "False")
    assert bench.fits() == ["b"]
    table = bench.cluster.table
    assert bench.plugin.pre_score(bench.state, bench.pod, table, table.rows) is SKIP, "not scored"
    bench.reject()

    assert bench.next() == [ZONE]
    bench.set(PROVISIONING, "True")
    assert bench.fits() == ["a", "b"]
    assert bench.plugin.pre_score(bench.state, bench.pod, table, table.rows) is None, "scored"


def test_s13_strict_first_relaxes_only_after_all_nodes_were_rejected() -> None:
    bench = Bench(constraint(ZONE, NPF), fallback_strategy="StrictFirst")
    bench.attempt()
    bench.set(PROVISIONING, "False")
    bench.begin()
    assert bench.fits() == ["b"]
    assert bench.soft() == [], "a pod that is bound now was not placed by fallback"
    assert bench.plugin.relax(bench.state, bench.pod)
    assert bench.plugin.pre_filter(bench.state, bench.pod, bench.cluster.table) is SKIP
    assert bench.soft() == [ZONE]
    assert not bench.plugin.relax(bench.state, bench.pod), "once"
    reported = [reason for reason, _ in bench.handle.notes]
    bench.reject()
    assert bench.hint() is STAYS

    bench.begin()
    bench.plugin.relax(bench.state, bench.pod)
    bench.plugin.pre_filter(bench.state, bench.pod, bench.cluster.table)
    assert [reason for reason, _ in bench.handle.notes] == reported, "one event per constraint"


@pytest.mark.parametrize("strategy", ["Replace", "StrictFirst"])
def test_s13_there_is_nothing_to_relax_while_no_criterion_holds(strategy: str) -> None:
    bench = Bench(constraint(ZONE, NPF), fallback_strategy=strategy)
    bench.begin()
    assert not bench.plugin.relax(bench.state, bench.pod)


def test_all_hard_constraints_fall_back() -> None:
    bench = Bench(constraint(ZONE, NPF), constraint(HOST, NPF))
    bench.attempt()
    bench.set(PROVISIONING, "False")
    assert bench.begin() is SKIP
    assert bench.soft() == [HOST, ZONE]
