"""Observation of our engine for a vector, in the form of `expected`.

Each plugin is also evaluated alone, on all nodes, in both forms. Two further lists have no
counterpart in the vectors and must be empty: `forms` (the scalar form, the columnar form and the
engine's results disagree) and `reuse` (cached results differ from new ones).
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from devtools.conformance import devices
from devtools.conformance.deciding import Decision, decide, status_record
from devtools.conformance.world import World
from plugins import VolumeBinding
from scheduler.api import Pod
from scheduler.engine import Attempt, AttemptError, Evaluator, FitError, SchedulingAlgorithm
from scheduler.engine.diagnosis import Diagnosis
from scheduler.engine.kubelet_rejections import KubeletRejections
from scheduler.engine.plugin_calls import run_synchronously
from scheduler.engine.plugin_slots import ScoreSlot
from scheduler.engine.pre_filter import rejected_by_pre_filter
from scheduler.engine.schedule_one import Unschedulable
from scheduler.engine.scoring import call_score
from scheduler.framework import (
    Code,
    CycleState,
    PostFilterResult,
    PreFilterResult,
    QueuedPodInfo,
    Rows,
    Status,
    error,
)
from scheduler.framework.plugin_names import DYNAMIC_RESOURCES, VOLUME_BINDING

Record = dict[str, Any]

NOMINATED: Final = "<nominatedNode>"

_ZERO_UPSTREAM: Final = frozenset({DYNAMIC_RESOURCES, VOLUME_BINDING})
"""Plugins that give every node 0 upstream where ours, to save time, do not score."""


@dataclass(slots=True)
class Observation:
    """Our side of a vector."""

    #: As `expected`; a key is missing where the step did not happen.
    actual: Record = field(default_factory=dict)
    #: The text without the part that PostFilter plugins wrote.
    message_prefix: str | None = None
    forms: list[str] = field(default_factory=list)
    reuse: list[str] = field(default_factory=list)


def observe(world: World) -> Observation:
    """Run everything there is to run for the incoming pod."""
    observation = Observation()
    actual = observation.actual
    gate = _pre_enqueue(world)
    actual["preEnqueue"] = status_record(gate)
    if gate is not None:
        actual.update(feasibleNodes=[], outcome="gated")
        return observation
    if world.cache.table.node_count:
        _filter_and_score(world, observation)
    else:
        actual["feasibleNodes"] = []
    _cycle(world, observation)
    if world.cache.table.node_count:
        observation.reuse += _reuse(world)
        _devices(world, actual)
    return observation


def _devices(world: World, actual: Record) -> None:
    """Add what DynamicResources does; last, because its writes change the world."""
    found: Record = {}
    pod = world.incoming(nominated=False)
    if actual["outcome"] == "scheduled":
        found |= devices.allocations(world, pod, actual["feasibleNodes"])
        found |= devices.writes(world, pod, actual["selectedNodeOptions"][0])
    elif actual["outcome"] == "unschedulable":
        state = CycleState(now=world.now)
        with contextlib.suppress(FitError):
            run_synchronously(world.plain.search.find(state, pod))
        found["postFilter"] = devices.given_up(world, pod, state)
    if any(found.values()):
        actual["dra"] = found


# -- gates, PreFilter ----------------------------------------------------------------------------


def _pre_enqueue(world: World) -> Status | None:
    for plugin in world.framework.pre_enqueue:
        status: Status | None = plugin.pre_enqueue(world.pod)
        if status is not None and not status.success:
            return status.by(plugin.name)
    return None


def _pre_filter_alone(world: World) -> tuple[dict[str, Record], dict[str, CycleState]]:
    """Every PreFilter plugin on its own, and the states of those whose Filter is to be called."""
    records: dict[str, Record] = {}
    states: dict[str, CycleState] = {}
    for plugin in world.framework.pre_filter:
        state = CycleState(now=world.now)
        result: PreFilterResult | Status | None
        try:
            result = plugin.pre_filter(state, world.pod, world.cache.table)
        except Exception as raised:  # noqa: BLE001 - plugin boundary
            result = error(raised)
        if isinstance(result, PreFilterResult):
            records[plugin.name] = {"code": "Success", "nodeNames": sorted(result.node_names)}
        else:
            records[plugin.name] = status_record(result)
        if records[plugin.name]["code"] == "Success":
            states[plugin.name] = state
    return records, states


def _pre_filter_combined(world: World, pod: Pod, state: CycleState) -> tuple[Record, Diagnosis]:
    diagnosis = Diagnosis(node_count=world.cache.table.node_count)
    try:
        left = run_synchronously(world.framework.run_pre_filter(state, pod, world.cache.table))
    except AttemptError as error:
        return status_record(error.status), diagnosis
    if left.rejections:
        unfit = rejected_by_pre_filter(left, diagnosis)
        return status_record(unfit.diagnosis.statuses.absent), diagnosis
    record: Record = {"code": "Success"}
    if left.names is not None:
        record["nodeNames"] = sorted(left.names)
        record["narrowedBy"] = sorted(left.plugins)
    return record, diagnosis


# -- Filter --------------------------------------------------------------------------------------


def _filter_and_score(world: World, observation: Observation) -> None:
    actual = observation.actual
    pod = world.incoming(nominated=False)
    plugins, states = _pre_filter_alone(world)
    state = CycleState(now=world.now)
    combined, _ = _pre_filter_combined(world, pod, state)
    actual["preFilter"] = {**combined, "plugins": plugins}
    actual["filter"] = {"plugins": _filter_alone(world, plugins, states, observation)}
    # The service's own filter after those of the profile; without a kubelet it skips every pod.
    assert plugins.pop(KubeletRejections.name) == {"code": "Skip"}
    decision = decide(world.plain, world.cache.table, pod, world.now)
    actual["feasibleNodes"] = list(decision.feasible)
    if combined["code"] != "Success":
        return
    verdicts = _verdicts(world, pod, state, combined, decision, observation)
    actual["filter"]["nodes"] = verdicts
    if decision.error:
        # The attempt ended at the first node that failed.
        actual["feasibleNodes"] = sorted(
            name for name, each in verdicts.items() if each["code"] == "Success"
        )
        return
    if decision.feasible:
        table = world.cache.table
        rows = sorted(row for name in decision.feasible if (row := table.row_of(name)) is not None)
        plans = _volume_plans(world, state, rows)
        if plans:
            actual["volumePlan"] = plans
        actual["score"] = _scores(world, pod, state, np.array(rows, dtype=np.intp), observation)


def _filter_alone(
    world: World,
    pre_filter: dict[str, Record],
    states: dict[str, CycleState],
    observation: Observation,
) -> dict[str, dict[str, Record]]:
    rejections: dict[str, dict[str, Record]] = {}
    for slot in world.plain.search.filtering.slots:
        if slot.name in pre_filter and slot.name not in states:
            continue
        state = states.get(slot.name, CycleState(now=world.now))
        by_form = {"scalar": _filter_scalar(world, slot.plugin, state)}
        if slot.columnar:
            by_form["columnar"] = _filter_columnar(
                world, slot.plugin, state, world.cache.table.rows
            )
        rejections[slot.name] = by_form["scalar"]
        if len({repr(each) for each in by_form.values()}) > 1:
            observation.forms.append(f"{slot.name} filters {by_form}")
    return rejections


def _filter_scalar(world: World, plugin: Any, state: CycleState) -> dict[str, Record]:
    table = world.cache.table
    found = {}
    for row in table.rows.tolist():
        try:
            status = plugin.filter(state, world.pod, table.node_info(row))
        except Exception as raised:  # noqa: BLE001 - plugin boundary
            status = error(raised)
        if status is not None:
            found[table.names[row]] = status_record(status)
    return found


def _filter_columnar(world: World, plugin: Any, state: CycleState, rows: Rows) -> dict[str, Record]:
    table = world.cache.table
    try:
        codes = plugin.filter_rows(state, world.pod, table, rows)
        return {
            table.names[row]: status_record(plugin.filter_status(state, world.pod, code))
            for row, code in zip(rows.tolist(), codes.tolist(), strict=True)
            if code
        }
    except Exception as raised:  # noqa: BLE001 - plugin boundary
        if len(rows) == 1:
            return {table.names[int(rows[0])]: status_record(error(raised))}
        # One row that fails fails all: each is asked alone.
        found: dict[str, Record] = {}
        for position in range(len(rows)):
            found |= _filter_columnar(world, plugin, state, rows[position : position + 1])
        return found


def _verdicts(
    world: World,
    pod: Pod,
    state: CycleState,
    combined: Record,
    decision: Decision,
    observation: Observation,
) -> dict[str, Record]:
    """Verdict by node: the engine's own where it gives one, and checked with the scalar form."""
    table = world.cache.table
    verdicts: dict[str, Record] = {}
    for row in table.rows.tolist():
        name = table.names[row]
        if name not in combined.get("nodeNames", (name,)):
            plugins = " ".join(combined["narrowedBy"])
            verdicts[name] = {
                "code": Code.UNSCHEDULABLE_AND_UNRESOLVABLE.label,
                "reasons": [f"node(s) didn't satisfy plugin(s) [{plugins}]"],
            }
            continue
        try:
            status = world.framework.run_filters_with_nominated_pods(
                state, pod, table.node_info(row), table
            )
        except AttemptError as error:
            status = error.status
        verdicts[name] = status_record(status)
    passing = sorted(name for name, each in verdicts.items() if each["code"] == "Success")
    if passing != list(decision.feasible) and not decision.error:
        observation.forms.append(f"scalar filters pass {passing}, engine {decision.feasible}")
    if decision.statuses and decision.statuses != verdicts:
        observation.forms.append(f"scalar {verdicts}, engine {decision.statuses}")
    return decision.statuses or verdicts


def _volume_plans(world: World, state: CycleState, rows: list[int]) -> dict[str, Record]:
    """By feasible node what would be bound and what provisioned, unless there is neither."""
    plugin = world.framework.plugins.get(VOLUME_BINDING)
    if not isinstance(plugin, VolumeBinding) or plugin.name in state.skip_filter:
        return {}
    plans = {}
    for row in rows:
        plan = plugin.plan(state, world.cache.table.node_info(row))
        record: Record = {}
        if plan.bindings:
            record["static"] = {
                claim.metadata.name: volume.metadata.name for claim, volume in plan.bindings
            }
        if plan.provisions:
            record["provision"] = sorted(each.claim.metadata.name for each in plan.provisions)
        if record:
            plans[world.cache.table.names[row]] = record
    return plans


# -- Score ---------------------------------------------------------------------------------------


def _scores(
    world: World, pod: Pod, state: CycleState, rows: Rows, observation: Observation
) -> Record:
    scoring, table = world.plain.scoring, world.cache.table
    names = [table.names[row] for row in rows.tolist()]
    try:
        world.framework.run_pre_score(state, pod, table, rows)
        plugins = {}
        for slot in scoring.slots:
            if slot.name in state.skip_score:
                if slot.name in _ZERO_UPSTREAM:
                    zeros = dict.fromkeys(names, 0)
                    plugins[slot.name] = {"weight": slot.weight, "raw": zeros, "normalized": zeros}
                continue
            raw, normalized = scoring.scores_of(slot, state, pod, rows)
            observation.forms += _score_forms(world, slot, state, pod, rows)
            plugins[slot.name] = {
                "weight": slot.weight,
                "raw": dict(zip(names, raw.tolist(), strict=True)),
                "normalized": dict(zip(names, normalized.tolist(), strict=True)),
            }
        totals = scoring.totals_of(state, pod, rows)
    except AttemptError as error:
        return {"skipped": [], "plugins": {}, "total": {}, "error": str(error)}
    return {
        "skipped": sorted(state.skip_score - _ZERO_UPSTREAM),
        "plugins": plugins,
        "total": dict(zip(names, totals.tolist(), strict=True)),
    }


def _score_forms(
    world: World, slot: ScoreSlot, state: CycleState, pod: Pod, rows: Rows
) -> Iterator[str]:
    if not slot.columnar:
        return
    table = world.cache.table
    columnar = slot.plugin.score_rows(state, pod, table, rows).tolist()
    scalar = [call_score(slot.plugin, state, pod, table.node_info(row)) for row in rows.tolist()]
    if columnar != scalar:
        yield f"{slot.name} scores {scalar} in scalar form, {columnar} in columnar form"


# -- the cycle as the service runs it ------------------------------------------------------------


def _attempt(world: World, pod: Pod) -> Attempt:
    return world.engine.attempt(QueuedPodInfo(pod, 0.0))


def _cycle(world: World, observation: Observation) -> None:
    actual = observation.actual
    attempt = _attempt(world, world.pod)
    if attempt.result is not None:
        chosen = attempt.node_name
        world.engine.abandon(attempt)
        world.nominator.add_nominated_pod(world.pod, None)
        actual["outcome"] = "scheduled"
        actual["selectedNodeOptions"] = _options(world, chosen)
        return
    failure = attempt.failure
    assert failure is not None
    actual["outcome"] = "unschedulable" if failure.reason == "Unschedulable" else "error"
    # What our plugins add to the text is an addition of ours (docs/differences.md).
    message = failure.message.removesuffix(failure.note)
    actual["message"] = observation.message_prefix = message
    if failure.unschedulable_plugins:
        actual["unschedulablePlugins"] = sorted(failure.unschedulable_plugins)
    if world.cache.table.node_count and actual["outcome"] == "unschedulable":
        _post_filter(world, observation)


def _options(world: World, chosen: str) -> list[str]:
    """The nodes that could have been chosen, and the one that was in any case."""
    decision = decide(world.plain, world.cache.table, world.pod, world.now)
    if decision.nominated:
        options = set(decision.feasible)
    else:
        highest = max(decision.totals.values(), default=0)
        options = {name for name, total in decision.totals.items() if total == highest}
    return sorted(options | {chosen})


def _post_filter(world: World, observation: Observation) -> None:
    """Return the result of the PostFilter plugins, run once more to be observed."""
    state = CycleState(now=world.now)
    try:
        run_synchronously(world.plain.search.find(state, world.pod))
    except FitError as unfit:
        diagnosis = unfit.diagnosis
        observation.message_prefix = diagnosis.message()
        if not world.framework.post_filter or diagnosis.skip_post_filter:
            return
        result = run_synchronously(
            world.framework.run_post_filter(state, world.pod, diagnosis.statuses)
        )
        record = _post_filter_record(result)
        record.update(_dry_runs(world, state, diagnosis))
        observation.actual["postFilter"] = record
        outcome = run_synchronously(world.plain.schedule(CycleState(now=world.now), world.pod))
        assert isinstance(outcome, Unschedulable)
        message = outcome.error.diagnosis.message()
        if anonymous(message) != anonymous(observation.actual["message"]):
            observation.reuse.append("the message differs from the one without reuse")


def anonymous(message: str) -> str:
    """Replace the nominated node as vectors do if there are several choices."""
    return re.sub("(?<=for pod on node )[^ ]+(?=, preempting)", NOMINATED, message)


def _post_filter_record(result: PostFilterResult) -> Record:
    status = result.status or Status(Code.SUCCESS)
    record: Record = {"code": status.code.label}
    if status.message:
        record["reasons"] = [status.message]
    if not status.success and status.plugin:
        record["plugin"] = status.plugin
    if result.nominating is not None:
        if result.nominating.node_name:
            record["nominatedNode"] = result.nominating.node_name
        else:
            record["clearsNomination"] = True
    return record


def _dry_runs(world: World, state: CycleState, diagnosis: Diagnosis) -> Record:
    """Return the victims of a dry run on each node, or the reason why preemption does not help."""
    rules = world.preemption_rules()
    if rules is None:
        return {}
    evaluator = world.framework.handle.preemption
    assert isinstance(evaluator, Evaluator)
    found = evaluator.dry_run(state, world.pod, diagnosis.statuses, rules)
    return {
        "candidates": {
            each.node_name: {
                "victims": [pod.key for pod in each.victims],
                "pdbViolations": each.pdb_violations,
            }
            for each in found.candidates
        },
        "rejected": {name: status_record(status) for name, status in found.rejected.items()},
    }


# -- reuse ---------------------------------------------------------------------------------------


def _reuse(world: World) -> Iterator[str]:
    """A second pod of the same signature must be treated as if it were the first of its kind."""
    table, now = world.cache.table, world.now

    def decided(algorithm: SchedulingAlgorithm, pod: Pod) -> Decision:
        return decide(algorithm, table, pod, now)

    first = world.incoming("-first")
    fresh = decided(world.plain, first)
    yield from _compared("first pod", fresh, decided(world.algorithm, first))
    yield from _compared("second pod", fresh, decided(world.algorithm, first))
    attempt = _attempt(world, first)
    second = world.incoming("-second")
    if attempt.result is not None:
        beside = decided(world.plain, second)
        yield from _compared("beside the first", beside, decided(world.algorithm, second))
        world.engine.abandon(attempt)
    # Texts may name the pod, so the second is compared with itself.
    fresh = decided(world.plain, second)
    yield from _compared("after the first left", fresh, decided(world.algorithm, second))


def _compared(when: str, fresh: Decision, reused: Decision) -> Iterator[str]:
    if fresh != reused:
        yield f"{when}: fresh {fresh}, reused {reused}"
