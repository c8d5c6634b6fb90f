"""IsolatedPlugin: runs PreFilter, Filter and Score of a plugin outside the event loop's thread.

The framework calls it in place of the plugin. Its PreFilter is async: it suspends the scheduling
cycle while a thread or a process evaluates the pod on all nodes, so that the event loop keeps
running. Filter and Score only look up the results. All other methods are the plugin's own and run
on the event loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from scheduler.api.pod import Pod
from scheduler.framework import (
    Codes,
    CycleState,
    Int64Column,
    NodeInfo,
    NodeTableView,
    PreFilterResult,
    Rows,
    Status,
)
from scheduler.isolation.evaluation import Evaluation

GRACE_SECONDS: Final = 1.0
"""The engine's timeout is longer by this, so that the evaluator's own timeout expires first."""


class Evaluator(Protocol):
    """Runs the plugin. Its exceptions may have an attribute `result`: the label to count under."""

    async def evaluate(self, state: CycleState, pod: Pod, table: NodeTableView) -> Evaluation:
        """Run the plugin for a pod and all nodes."""
        ...

    def faults(self) -> tuple[str, ...]:
        """Return descriptions of failures, for `kubestow explain`."""
        ...

    def close(self) -> None:
        """Stop the thread or process, which nothing uses any more."""
        ...

    async def closed(self) -> None:
        """Stop the thread or process and wait until it has ended."""
        ...


class IsolatedPlugin:
    """Stands in for a plugin that its profile isolates (`isolation`)."""

    def __init__(
        self,
        plugin: Any,
        evaluator: Evaluator,
        timeout_seconds: float,
        report: Callable[[str, str], None],
    ) -> None:
        """Wrap `plugin`: an instance, or the class if the instance is in another process.

        `report(plugin, result)` is called for each evaluation, to count it.
        """
        own = self.__dict__
        own.update(
            name=plugin.name,
            plugin=plugin,
            timeout=timeout_seconds + GRACE_SECONDS,
            filter_reuse=None,
            score_reuse=None,
            pre_filter_reusable=False,
            filter_without_victims=None,
            evaluator=evaluator,
            _report=report,
            _key=f"{plugin.name}/evaluation",
        )
        if hasattr(plugin, "filter") or hasattr(plugin, "filter_rows"):
            own.update(
                filter=self._filter, filter_rows=self._filter_rows, filter_status=self._status
            )
        if hasattr(plugin, "score") or hasattr(plugin, "score_rows"):
            own.update(score=self._score, score_rows=self._score_rows)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the plugin."""
        return getattr(self.__dict__["plugin"], name)

    async def pre_filter(
        self, state: CycleState, pod: Pod, table: NodeTableView
    ) -> PreFilterResult | Status | None:
        """Evaluate the pod on all nodes, and return the result of PreFilter."""
        try:
            found: Evaluation = await self.evaluator.evaluate(state, pod, table)
        except Exception as error:
            self._report(self.name, getattr(error, "result", "error"))
            raise
        self._report(self.name, "success")
        state.write(self._key, found)
        return found.result

    def _found(self, state: CycleState) -> Evaluation:
        found: Evaluation = state.read(self._key)
        return found

    def _filter_rows(self, state: CycleState, pod: Pod, table: object, rows: Rows) -> Codes:
        return self._found(state).codes[rows]

    def _status(self, state: CycleState, pod: Pod, code: int) -> Status | None:
        return self._found(state).statuses.get(code)

    def _filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        found = self._found(state)
        return found.statuses.get(int(found.codes[node.row]))

    def _score_rows(self, state: CycleState, pod: Pod, table: object, rows: Rows) -> Int64Column:
        return self._found(state).scores[rows]

    def _score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return int(self._found(state).scores[node.row])
