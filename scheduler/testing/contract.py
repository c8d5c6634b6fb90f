"""The contract suite on a cluster you choose; `check_plugin` runs it on random ones.

    from scheduler.testing import PluginCase, check_plugin_contract

    def test_my_plugin_keeps_the_contract():
        check_plugin_contract(MyPlugin(MyArgs(), handle), PluginCase(cache.table, pods))

Every method that the plugin implements is called as by the framework, for every pod; all violations
are raised together. The most valuable check: the scalar and the columnar form of a plugin must
return the same for every node.

Any `NodeTableView` will do; `scheduler.cache.Cache().table` is the usual one.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import msgspec
import numpy as np

from scheduler.api.pod import Pod
from scheduler.engine.plugin_calls import run_synchronously
from scheduler.framework import extension_points as points
from scheduler.framework.events import ClusterEventWithHint
from scheduler.framework.extension_points import EVENT_POINTS, EXTENSION_POINTS
from scheduler.framework.nodes import NodeTableView, Rows
from scheduler.framework.plugin import MAX_NODE_SCORE, MIN_NODE_SCORE, PreFilterResult
from scheduler.framework.registry import args_type
from scheduler.framework.results import ResultError, rows_result, score_result, status_result
from scheduler.framework.reuse import ReuseRule
from scheduler.framework.state import CycleState
from scheduler.framework.status import Code, Status
from scheduler.testing.answers import shown

_USAGE_COLUMNS: Final = (
    "allocatable",
    "requested",
    "non_zero_requested",
    "pod_count",
    "pod_limit",
    "unschedulable",
    "taint_set",
)
_FEW: Final = 3


class ContractViolation(AssertionError):  # noqa: N818 - a failed check of a test, not an error
    """A plugin broke the framework's contract; `problems` has one sentence each."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


@dataclass(frozen=True, slots=True)
class PluginCase:
    """A cluster on which a plugin is checked."""

    table: NodeTableView
    """Nodes and the pods on them."""
    pods: Sequence[Pod]
    """Incoming pods, interned (`PodSignatures.intern`)."""
    now: float = 0.0
    """Wall clock of every attempt, seconds."""
    wait: Callable[[Coroutine[Any, Any, Any]], Any] = run_synchronously
    """Runs the coroutine of an async PreFilter to its end."""


def check_plugin_contract(plugin: Any, cluster: PluginCase) -> None:
    """Call `plugin` in all the ways the framework does.

    Checked: name and arguments; declared events; the types of results at every extension point;
    scalar and columnar forms agree on every node, for subsets and orders of rows; equal calls
    return equal results; table, objects and scores are not modified; normalized scores are from 0
    to 100; `unreserve` may be called alone and twice.

    Raises:
        ContractViolation: with all problems.
    """
    _raise_all(_problems(plugin, cluster))


def check_reuse_contract(plugin: Any, cluster: PluginCase, change: Callable[[], None]) -> None:
    """Check that `filter_reuse` and `score_reuse` declare everything the results depend on.

    `change` modifies the cluster behind `cluster.table` in any way. Rows that did not change in a
    declared column group must then keep their codes and raw scores, unless a declared version
    changed. Otherwise a ContractViolation is raised.
    """
    _raise_all(_reuse_problems(plugin, cluster, change))


def _raise_all(problems: Iterable[str]) -> None:
    found = list(dict.fromkeys(problems))
    if found:
        raise ContractViolation(found)


def _problems(plugin: Any, cluster: PluginCase) -> Iterator[str]:
    yield from _declaration_problems(plugin)
    name = getattr(plugin, "name", plugin)
    before, objects = _fingerprint(cluster.table), _objects(cluster)
    for pod in cluster.pods:
        attempt = _Attempt(plugin, cluster, pod, CycleState(cluster.now))
        try:
            for problem in attempt.problems():
                yield f"{name}: pod {pod.key}: {problem}"
        except ResultError as error:
            yield f"{name}: pod {pod.key}: {error}"
    if not all(map(np.array_equal, before, _fingerprint(cluster.table))):
        yield f"{name}: changed the node table"
    for key, content in _objects(cluster).items():
        if objects.get(key) != content:
            yield f"{name}: changed {key}: objects are shared with the whole scheduler"


def _declaration_problems(plugin: Any) -> Iterator[str]:
    name = getattr(type(plugin), "name", None)
    if not isinstance(name, str) or not name:
        yield f"{type(plugin).__qualname__}: declares no name"
    if not issubclass(args_type(type(plugin)), msgspec.Struct):
        yield f"{name}: args_type is not a msgspec Struct"
    if not any(point.implemented_by(plugin) for point in EXTENSION_POINTS):
        yield f"{name}: implements no extension point"
    for columnar, rule in (("filter_rows", "filter_reuse"), ("score_rows", "score_reuse")):
        declared = getattr(plugin, rule, None)
        if declared is not None and not isinstance(declared, ReuseRule):
            yield f"{name}: {rule} is neither None nor a ReuseRule"
        if declared is not None and not hasattr(plugin, columnar):
            yield f"{name}: {rule} is declared without {columnar}"
    if hasattr(plugin, "filter_rows") and not hasattr(plugin, "filter_status"):
        yield f"{name}: filter_rows without filter_status"
    if hasattr(plugin, "events_to_register"):
        if not any(point.implemented_by(plugin) for point in EVENT_POINTS):
            yield f"{name}: registers events but implements no extension point that rejects pods"
        for event in plugin.events_to_register():
            if not isinstance(event, ClusterEventWithHint):
                yield f"{name}: events_to_register returned {event!r}, not a ClusterEventWithHint"


@dataclass(slots=True)
class _Attempt:
    """The calls for one pod."""

    plugin: Any
    cluster: PluginCase
    pod: Pod
    state: CycleState

    def problems(self) -> Iterator[str]:
        if points.PRE_ENQUEUE.implemented_by(self.plugin):
            result = status_result("pre_enqueue", self.plugin.pre_enqueue(self.pod))
            if result is not None and not result.success and not result.rejected:
                yield f"pre_enqueue returned {result.code.label}, which neither admits nor rejects"
        if (yield from self._pre_filter()):
            yield from self._filter()
        if (yield from self._pre_score()):
            yield from self._score()
        if points.RESERVE.implemented_by(self.plugin):
            for _ in range(2):
                self.plugin.unreserve(CycleState(self.cluster.now), self.pod, "")

    def _pre_filter(self) -> Generator[str, None, bool]:
        """Yield problems; return whether Filter is called."""
        if not points.PRE_FILTER.implemented_by(self.plugin):
            return True
        result = self._called(self.state)
        again = self._called(CycleState(self.cluster.now))
        if not _same(result, again):
            yield f"pre_filter returned first {result} and then {again}"
        if result is None or isinstance(result, PreFilterResult):
            return True
        if not isinstance(result, Status):
            yield f"pre_filter returned {result!r}, not None, PreFilterResult or Status"
            return False
        if not (result.success or result.skip or result.rejected or result.code is Code.ERROR):
            yield f"pre_filter returned {result.code.label}"
        return result.success

    def _called(self, state: CycleState) -> Any:
        result = self.plugin.pre_filter(state, self.pod, self.cluster.table)
        return self.cluster.wait(result) if isinstance(result, Coroutine) else result

    def _filter(self) -> Iterator[str]:
        plugin, table = self.plugin, self.cluster.table
        scalar = callable(getattr(plugin, "filter", None))
        if not callable(getattr(plugin, "filter_rows", None)):
            if scalar:
                yield from self._scalar_filter()
            return
        filter_rows = partial(plugin.filter_rows, self.state, self.pod, table)
        codes = yield from _columnar_problems("filter_rows", filter_rows, table.rows, np.int32)
        for row, code in zip(table.rows.tolist(), codes.tolist(), strict=True):
            status = None
            if code:
                status = status_result(
                    "filter_status", plugin.filter_status(self.state, self.pod, code)
                )
            if status is not None and not status.rejected:
                yield f"filter_status({code}) is {status.code.label}, not a rejection"
            if not scalar:
                continue
            node = table.node_info(row)
            other = status_result("filter", plugin.filter(self.state, self.pod, node))
            if not _same(status, other):
                yield (
                    f"node {table.names[row]}: filter returned {shown(other)}, "
                    f"filter_rows {shown(status)}"
                )

    def _scalar_filter(self) -> Iterator[str]:
        table = self.cluster.table
        for row in table.rows.tolist():
            node = table.node_info(row)
            first, again = (
                status_result("filter", self.plugin.filter(self.state, self.pod, node))
                for _ in range(2)
            )
            if not _same(first, again):
                yield (
                    f"node {table.names[row]}: filter returned first {shown(first)} and then "
                    f"{shown(again)}"
                )

    def _pre_score(self) -> Generator[str, None, bool]:
        """Yield problems; return whether Score is called."""
        if not points.PRE_SCORE.implemented_by(self.plugin):
            return True
        table = self.cluster.table
        result = self.plugin.pre_score(self.state, self.pod, table, table.rows)
        if result is not None and not isinstance(result, Status):
            yield f"pre_score returned {result!r}, not None or Status"
            return False
        if result is not None and result.rejected:
            yield f"pre_score returned {result.code.label}: a node cannot be rejected any more"
        return _is_success(result)

    def _score(self) -> Iterator[str]:
        plugin, table = self.plugin, self.cluster.table
        if not points.SCORE.implemented_by(plugin):
            return
        scalar = callable(getattr(plugin, "score", None))
        one_by_one = [
            score_result(plugin.score(self.state, self.pod, table.node_info(row))) if scalar else 0
            for row in table.rows.tolist()
        ]
        failures = [result for result in one_by_one if isinstance(result, Status)]
        if failures:
            yield f"score returned {shown(failures[0])}"
            return
        scores = np.array(one_by_one, dtype=np.int64)
        if callable(getattr(plugin, "score_rows", None)):
            score_rows = partial(plugin.score_rows, self.state, self.pod, table)
            found = yield from _columnar_problems("score_rows", score_rows, table.rows, np.int64)
            for row, wanted, got in zip(
                table.rows.tolist(), scores.tolist(), found.tolist(), strict=True
            ):
                if scalar and wanted != got:
                    yield f"node {table.names[row]}: score returned {wanted}, score_rows {got}"
            scores = found
        yield from self._normalize(scores)

    def _normalize(self, scores: Any) -> Iterator[str]:
        table = self.cluster.table
        final = scores
        if callable(getattr(self.plugin, "normalize_scores", None)):
            untouched = scores.copy()
            final = self.plugin.normalize_scores(self.state, self.pod, table, table.rows, scores)
            if isinstance(final, Status):
                yield f"normalize_scores returned {shown(final)}"
                return
            if not np.array_equal(untouched, scores):
                yield "normalize_scores modified its input"
            rows_result("normalize_scores", final, len(scores), "scores", fractions=True)
        if final.size and not (
            int(final.min()) >= MIN_NODE_SCORE and int(final.max()) <= MAX_NODE_SCORE
        ):
            yield f"final scores from {final.min()} to {final.max()} are not within 0 to 100"


def _columnar_problems(
    method: str, evaluate: Callable[[Rows], Any], rows: Rows, dtype: Any
) -> Generator[str, None, Any]:
    """Evaluate `rows`, then subsets and other orders, which must give the same results.

    Yields problems; returns the result for all rows. Raises ResultError if that is nonsense.
    """
    whole = rows_result(method, evaluate(rows), len(rows))
    if whole.dtype != dtype:
        yield f"{method} returned {whole.dtype}, not {np.dtype(dtype)}"
    positions = np.arange(len(rows), dtype=np.intp)
    for chosen in (
        positions[:0],
        positions[:1],
        positions[-1:],
        positions[:_FEW],
        positions[::2],
        positions[::-1],
        positions.copy(),
    ):
        selected = rows[chosen]
        got = rows_result(method, evaluate(selected), len(selected))
        if not np.array_equal(got, whole[chosen]):
            yield (
                f"{method} for rows {selected.tolist()} returned {got.tolist()}, "
                f"but {whole[chosen].tolist()} for the same rows among all"
            )
    return whole


def _reuse_problems(plugin: Any, cluster: PluginCase, change: Callable[[], None]) -> Iterator[str]:
    table = cluster.table
    old_rows = table.rows.copy()
    names = [table.names[row] for row in old_rows.tolist()]
    kept = [(pod, *_columnar(plugin, cluster, pod)) for pod in cluster.pods]
    rules = (getattr(plugin, "filter_reuse", None), getattr(plugin, "score_reuse", None))
    versions = [[table.version(name) for name in rule.versions] if rule else [] for rule in rules]
    sequence = table.sequence
    change()
    for pod, *before in kept:
        after = _columnar(plugin, cluster, pod)
        for method, rule, seen, old, new in zip(
            ("filter_rows", "score_rows"), rules, versions, before, after, strict=True
        ):
            if rule is None or old is None or new is None:
                continue
            changed = table.changed_rows(sequence, rule.columns)
            if changed is None or seen != [table.version(name) for name in rule.versions]:
                continue
            stale = set(changed.tolist())
            now = dict(zip(table.rows.tolist(), new.tolist(), strict=True))
            for row, name, result in zip(old_rows.tolist(), names, old.tolist(), strict=True):
                if row not in stale and row in now and now[row] != result:
                    yield (
                        f"{plugin.name}: pod {pod.key}: {method} of node {name} went from "
                        f"{result} to {now[row]} without a change that its reuse rule declares"
                    )


def _columnar(plugin: Any, cluster: PluginCase, pod: Pod) -> tuple[Any, Any]:
    """(codes, raw scores) over all rows, None where the plugin gives none."""
    table, state = cluster.table, CycleState(cluster.now)
    codes = scores = None
    result = plugin.pre_filter(state, pod, table) if hasattr(plugin, "pre_filter") else None
    if isinstance(result, Coroutine):
        result = cluster.wait(result)
    if hasattr(plugin, "filter_rows") and not isinstance(result, Status):
        codes = plugin.filter_rows(state, pod, table, table.rows)
    result = (
        plugin.pre_score(state, pod, table, table.rows) if hasattr(plugin, "pre_score") else None
    )
    if hasattr(plugin, "score_rows") and result is None:
        scores = plugin.score_rows(state, pod, table, table.rows)
    return codes, scores


def _fingerprint(table: NodeTableView) -> list[Any]:
    return [getattr(table, name).copy() for name in _USAGE_COLUMNS]


def _objects(cluster: PluginCase) -> dict[str, bytes]:
    """Return the content of every object that the plugin is shown, by what it is."""
    infos = [cluster.table.node_info(row) for row in cluster.table.rows.tolist()]
    found = {f"node {each.name}": _encoded(each.node) for each in infos}
    for pod in [*cluster.pods, *(pod for each in infos for pod in each.pods)]:
        found[f"pod {pod.key}"] = _encoded(pod)
    return found


def _encoded(item: Any) -> bytes:
    parts = (item.metadata, item.spec, item.status)
    return msgspec.json.encode(parts, enc_hook=repr)


def _is_success(result: Status | None) -> bool:
    return result is None or result.success


def _same(one: Any, other: Any) -> bool:
    """Whether two results mean the same: None is Success; errors are compared by their texts."""
    if isinstance(one, PreFilterResult) or isinstance(other, PreFilterResult):
        return bool(one == other)
    if _is_success(one) or _is_success(other):
        return _is_success(one) and _is_success(other)
    return (one.code, one.message, one.requeue_after, one.condition_reason) == (
        other.code,
        other.message,
        other.requeue_after,
        other.condition_reason,
    )
