"""The rules of docs/topology-spread-fallback.md: truth table, rule by rule, corner cases."""

from __future__ import annotations

import msgspec
import pytest

from plugins.pod_topology_spread.arguments import PodTopologySpreadArgs, argument_problems
from scheduler.framework import SKIP, CycleState, PostFilterOutcome, QueueingHint
from scheduler.framework.events import TIME_TICK
from tests.unit.plugins.clusters import node
from tests.unit.plugins.clusters import pod as make_pod
from tests.unit.plugins.spread_fallback.bench import (
    HOST,
    NAME,
    NPF,
    OWN_ANNOTATION,
    OWN_STATUS,
    PF,
    PROVISIONING,
    ZONE,
    Bench,
    constraint,
    two_zones,
)

Outcome = PostFilterOutcome
TIMEOUT = 300.0
QUEUE, STAYS = QueueingHint.QUEUE, QueueingHint.SKIP
EVERY_OUTCOME = tuple(Outcome)
FAILED_PREEMPTION = (Outcome.FAILED, Outcome.INELIGIBLE, Outcome.NO_PLUGIN, Outcome.ERROR)


# -- the truth table -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("criteria", "condition", "elapsed", "outcomes", "soft"),
    [
        ((), ("", "True", "False", "Unknown"), (False, True), EVERY_OUTCOME, False),
        ((NPF,), ("", "Unknown"), (False,), EVERY_OUTCOME, False),
        ((NPF,), ("", "Unknown"), (None,), EVERY_OUTCOME, False),
        ((NPF,), ("", "Unknown"), (True,), EVERY_OUTCOME, True),
        ((NPF,), ("True",), (False, True), EVERY_OUTCOME, False),
        ((NPF,), ("False",), (None, False, True), EVERY_OUTCOME, True),
        ((PF,), ("", "False", "True"), (False, True), (Outcome.NOT_RUN,), False),
        ((PF,), ("", "False", "True"), (False, True), (Outcome.NOMINATED,), False),
        ((PF,), ("", "False", "True"), (False, True), FAILED_PREEMPTION, True),
        ((NPF, PF), ("False",), (False, True), (Outcome.FAILED,), True),
        ((NPF, PF), ("False",), (False, True), (Outcome.NOMINATED,), False),
        ((NPF, PF), ("",), (False,), (Outcome.FAILED,), False),
        ((NPF, PF), ("",), (True,), (Outcome.FAILED,), True),
        ((NPF, PF), ("True",), (True,), (Outcome.FAILED,), False),
    ],
)
def test_truth_table(
    criteria: tuple[str, ...],
    condition: tuple[str, ...],
    elapsed: tuple[bool | None, ...],
    outcomes: tuple[Outcome, ...],
    soft: bool,
) -> None:
    """`elapsed`: None means that no timeout is set."""
    for status in condition:
        for past in elapsed:
            for outcome in outcomes:
                timeout = None if past is None else TIMEOUT
                bench = Bench(constraint(ZONE, *criteria), timeout=timeout)
                assert bench.attempt(outcome) == [], "S7: the first attempt is strict"
                if status:
                    bench.set(PROVISIONING, status)
                bench.clock.advance(TIMEOUT + 1 if past or past is None else TIMEOUT - 1)
                expected = [ZONE] if soft else []
                case = (criteria, status, past, outcome)
                assert bench.hint(OWN_STATUS) is (QUEUE if soft else STAYS), case
                assert bench.next() == expected, case
                assert bench.fits() == (["a", "b"] if soft else ["b"]), case


# -- one rule each -------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["false", "FALSE", "no", ""])
def test_s4_a_status_that_is_none_is_as_good_as_unknown(status: str) -> None:
    """API servers take any text."""
    bench = Bench(constraint(ZONE, NPF))
    bench.attempt()
    bench.set(PROVISIONING, status)
    assert bench.hint(OWN_STATUS) is STAYS
    assert bench.next() == []
    (line,) = bench.plugin.explain(bench.pod)
    assert f"{PROVISIONING}={status} (want True, False or Unknown)" in line


def test_s1_criteria_of_a_soft_constraint_mean_nothing() -> None:
    bench = Bench(constraint(ZONE, NPF, whenUnsatisfiable="ScheduleAnyway"))
    bench.set(PROVISIONING, "False")
    assert bench.attempt() == []
    assert bench.condition() is None


def test_s1_an_unknown_criterion_never_holds() -> None:
    bench = Bench(constraint(ZONE, NPF, "SomethingNewer"))
    bench.attempt()
    bench.set(PROVISIONING, "False")
    assert bench.next() == []


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


def test_s9_the_universe_of_the_other_constraints_grows() -> None:
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


def test_s9_a_relaxed_constraint_is_exactly_a_native_soft_one() -> None:
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


def test_a22_s8_one_decision_for_the_whole_cycle() -> None:
    """Time and condition change between PreFilter and Score; the cycle does not notice."""
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


def test_s10_the_criteria_are_judged_anew_in_every_attempt() -> None:
    bench = Bench(constraint(ZONE, NPF))
    bench.attempt()
    bench.set(PROVISIONING, "False")
    assert bench.attempt() == [ZONE]
    bench.set(PROVISIONING, "True")
    assert bench.hint() is STAYS
    assert bench.attempt() == []
    made = bench.condition()
    assert made is not None
    assert (made.status, made.reason) == ("False", "AwaitingCriteria")
    bench.set(PROVISIONING, "False")
    assert bench.hint() is QUEUE, "hard in the attempt between, so it would grow again"


def test_grows_is_idempotent() -> None:
    """Guard against hot loops: constraints that were soft already queue no pod, however often."""
    bench = Bench(constraint(ZONE, NPF))
    bench.attempt()
    bench.set(PROVISIONING, "False")
    assert [bench.hint() for _ in range(3)] == [QUEUE] * 3
    bench.attempt()
    bench.set(PROVISIONING, "True")
    bench.set(PROVISIONING, "False")
    assert [bench.hint() for _ in range(3)] == [STAYS] * 3


def test_hints_concern_the_own_pod_only() -> None:
    bench = Bench(constraint(ZONE, NPF))
    bench.attempt()
    bench.set(PROVISIONING, "False")
    other = make_pod(metadata={"name": "other", "uid": "other"})
    for event in (OWN_STATUS, OWN_ANNOTATION):
        for each in bench.plugin.events_to_register():
            if each.event.matches(event):
                assert each.hint is not None
                assert each.hint(bench.pod, other, other) is STAYS
                assert each.hint(bench.pod, bench.pod, bench.pod) is QUEUE


def test_without_a_timeout_time_is_no_event() -> None:
    def registered(bench: Bench) -> bool:
        return any(each.event == TIME_TICK for each in bench.plugin.events_to_register())

    assert not registered(Bench(constraint(ZONE, NPF)))
    assert registered(Bench(constraint(ZONE, NPF), timeout=1))
    assert not registered(Bench(constraint(ZONE, NPF), timeout=1, gate=False))


def test_s16_without_the_gate_nothing_is_remembered_or_said() -> None:
    bench = Bench(constraint(ZONE, NPF), annotation="zone=Nope", timeout=1, gate=False)
    bench.attempt_without_hints()
    bench.set(PROVISIONING, "False")
    assert bench.next() == []
    assert bench.condition() is None
    assert (bench.handle.notes, bench.info.plugin_memory) == ([], None)


def test_s16_explain_says_that_the_gate_is_off() -> None:
    """The explanation names the gate; nothing else reports it."""
    off = "feature gate PodTopologySpreadFallbackMode is off"
    for criteria, annotation in (((), "zone=Nope"), ((NPF,), None)):
        bench = Bench(constraint(ZONE, *criteria), annotation=annotation, gate=False)
        (line,) = bench.plugin.explain(bench.pod)
        assert line.endswith(off)
    plain = Bench(constraint(ZONE), gate=False)
    assert plain.plugin.explain(plain.pod) == ()


def test_s13_strict_first_asks_for_all_before_it_relaxes() -> None:
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
    told = [reason for reason, _ in bench.handle.notes]
    bench.reject()
    assert bench.hint() is STAYS

    bench.begin()
    bench.plugin.relax(bench.state, bench.pod)
    bench.plugin.pre_filter(bench.state, bench.pod, bench.cluster.table)
    assert [reason for reason, _ in bench.handle.notes] == told, "told once per growth"


@pytest.mark.parametrize("strategy", ["Replace", "StrictFirst"])
def test_s13_there_is_nothing_to_relax_while_no_criterion_holds(strategy: str) -> None:
    bench = Bench(constraint(ZONE, NPF), fallback_strategy=strategy)
    bench.begin()
    assert not bench.plugin.relax(bench.state, bench.pod)


def test_s17_the_timeout_is_greater_than_zero() -> None:
    for text, problems in (("PT0S", 1), ("-PT1S", 1), ("PT1S", 0)):
        args = msgspec.convert({"nodeProvisioningTimeout": text}, PodTopologySpreadArgs)
        found = list(argument_problems(args))
        assert len(found) == problems
        assert all(path == "nodeProvisioningTimeout" for path, _ in found)


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"whenUnsatisfiable": "ScheduleAnyway", "fallbackCriteria": [NPF]}, "fallbackCriteria"),
        ({"fallbackCriteria": ["Nope"]}, "fallbackCriteria[0]"),
        ({"fallbackCriteria": [NPF, PF, NPF]}, "fallbackCriteria[2]"),
    ],
)
def test_s14_criteria_of_default_constraints_are_checked(
    fields: dict[str, object], path: str
) -> None:
    default = {**constraint(), **fields}
    del default["labelSelector"]
    given = {"defaultingType": "List", "defaultConstraints": [default]}
    args = msgspec.convert(given, PodTopologySpreadArgs)
    ((found, _),) = argument_problems(args)
    assert found == f"defaultConstraints[0].{path}"


def test_s14_an_unknown_strategy_is_refused() -> None:
    ((path, _),) = argument_problems(PodTopologySpreadArgs(fallback_strategy="Maybe"))
    assert path == "fallbackStrategy"


# -- corner cases --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "soft"),
    [
        ("SchedulingGated", False),
        ("ResourceQuotaValidated", False),
        ("NotReadyForScheduling", False),
        ("SchedulerError", False),
        ("Unschedulable", True),
    ],
)
def test_s6_departure_an_unknown_outcome_is_told_by_the_reason(reason: str, soft: bool) -> None:
    """The KEP's letter, PodScheduled=False and no nominated node, fits all of these.

    So by the letter every pod that was ever gated would be soft in its very first attempt.
    """
    bench = Bench(constraint(ZONE, PF))
    bench.set("PodScheduled", "False", reason)
    assert bench.pod.status.nominated_node_name == ""
    assert bench.next() == ([ZONE] if soft else [])


def test_s6_an_unknown_outcome_with_a_nominated_node_is_no_failure() -> None:
    for field in ("status", "memory"):
        bench = Bench(constraint(ZONE, PF))
        bench.set("PodScheduled", "False", "Unschedulable")
        if field == "status":
            bench.change(nominated_node_name="b")
        else:
            bench.handle.nominated = "b"
        assert bench.next() == []


def test_s6_a_nomination_by_another_writer_is_no_preemption() -> None:
    """Kueue or an autoscaler nominates; what is known of the last attempt decides."""
    bench = Bench(constraint(ZONE, PF))
    bench.attempt(Outcome.FAILED)
    bench.change(nominated_node_name="b")
    assert bench.next() == [ZONE]


def test_s6_held_at_a_gate_since_the_attempt() -> None:
    """KEP-5465: held for quota after it was rejected, then let go."""
    bench = Bench(constraint(ZONE, PF))
    bench.attempt(Outcome.FAILED)
    bench.info.gating_plugin = "ResourceQuota"
    bench.info.unschedulable_plugins = {NAME, "ResourceQuota"}
    bench.clock.advance(1000)
    bench.info.gating_plugin = ""
    bench.info.gate_openings += 1
    assert bench.next() == []
    bench.reject(Outcome.FAILED)
    assert bench.next() == [ZONE]


def test_s6_an_attempt_that_ended_before_spreading_was_asked() -> None:
    """A missing claim: PostFilter ran and failed, but says nothing about spreading."""
    bench = Bench(constraint(ZONE, PF))
    bench.info.attempts += 1
    bench.reject_without_hints(Outcome.FAILED, "VolumeBinding")
    assert bench.next() == []


@pytest.mark.parametrize("what", ["bind failed", "scheduler error", "no nodes"])
def test_s6_attempts_in_which_preemption_was_not_tried(what: str) -> None:
    bench = Bench(constraint(ZONE, PF))
    bench.attempt(Outcome.FAILED)
    bench.begin()
    bench.reject(Outcome.NOT_RUN, *(("Other",) if what == "bind failed" else (NAME,)))
    assert bench.next() == [], what


def test_all_hard_constraints_fell_back() -> None:
    bench = Bench(constraint(ZONE, NPF), constraint(HOST, NPF))
    bench.attempt()
    bench.set(PROVISIONING, "False")
    assert bench.begin() is SKIP
    assert bench.soft() == [HOST, ZONE]


def test_a_pod_of_the_same_name_starts_afresh() -> None:
    """Memory is keyed by UID, and goes with the queue record."""
    bench = Bench(constraint(ZONE, PF))
    bench.attempt(Outcome.FAILED)
    metadata = msgspec.structs.replace(bench.pod.metadata, uid="successor")
    bench.pod = bench.cluster.intern(msgspec.structs.replace(bench.pod, metadata=metadata))
    bench.info = type(bench.info)(bench.pod, bench.clock.now())
    assert bench.next() == []
    fallback = bench.plugin._fallback
    assert fallback is not None
    assert list(fallback._infos) == ["successor"], "the old record is not kept alive"


def test_timeouts_are_per_profile() -> None:
    quick, slow = (Bench(constraint(ZONE, NPF), timeout=seconds) for seconds in (10, 1000))
    for bench in (quick, slow):
        bench.attempt()
        bench.clock.advance(20)
    assert (quick.next(), slow.next()) == ([ZONE], [])


def test_pods_of_a_signature_do_not_share_what_preemption_found_in_vain() -> None:
    bench = Bench(constraint(ZONE, PF))
    bench.begin()
    assert bench.state.variant is None
    bench.reject()
    bench.begin()
    assert bench.state.variant == ((NAME, frozenset({ZONE})),)


def test_a_trial_run_leaves_no_trace() -> None:
    """`kubestow explain` asks PreFilter as well."""
    bench = Bench(constraint(ZONE, NPF))
    bench.attempt()
    bench.set(PROVISIONING, "False")
    notes, before = list(bench.handle.notes), bench.condition()
    state = CycleState(bench.clock.now())
    assert bench.plugin.pre_filter(state, bench.pod, bench.cluster.table) is SKIP
    assert (bench.handle.notes, bench.condition()) == (notes, before)
    assert state.binding_annotations is None
    assert bench.hint() is QUEUE, "the trial is no attempt"
