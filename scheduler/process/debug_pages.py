"""The pages under `/debug/` of a running scheduler: the table of what answers each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import asdict
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Self

from scheduler.api.scheduler_names import nearest
from scheduler.client.kinds import Kinds
from scheduler.explain.pages.decisions import DecisionPages
from scheduler.explain.pages.gangs import GangPages
from scheduler.explain.pages.group_explainer import GroupExplainer
from scheduler.explain.pages.nodes import NodePages
from scheduler.explain.pages.pods import PodPages
from scheduler.explain.pages.summary import SummaryPages
from scheduler.explain.pages.waiting import WaitingPages
from scheduler.explain.pages.what_if import WhatIfPages
from scheduler.explain.records import internals
from scheduler.framework.grouping import GroupingPlugin
from scheduler.service.manifests import StoredObjects
from scheduler.service.serving.application import Answer, Page, Stream

if TYPE_CHECKING:
    from scheduler.explain.what_if.asker import Asker
    from scheduler.explain.what_if.trial import TrialParts
    from scheduler.recording.streams import BundleStreams
    from scheduler.stages.wiring import Wiring


class DebugPages:
    """The pages of one run. A context manager: the summary takes samples until the end."""

    def __init__(
        self, wiring: Wiring, *, leading: Callable[[], bool], synced: Callable[[], bool]
    ) -> None:
        self._wiring = wiring
        self._leading = leading
        self._synced = synced
        self._bundles: BundleStreams | None = None
        clock, scheduling, state = wiring.connections.clock, wiring.scheduling, wiring.state
        queue, history = scheduling.queue, scheduling.decisions.history
        groups = GroupExplainer(
            scheduling.engine, queue, scheduling.groups, self._grouping, clock=clock
        )
        pods = PodPages(
            scheduling.engine,
            queue,
            state.listers.pod,
            clock=clock,
            leading=leading,
            decisions=lambda *pod: history.of_pod(*pod) if history.enabled else None,
            faults=scheduling.plugin_faults,
            group_of=groups.of_pod,
            bindings=scheduling.binding.under_way,
        )
        self._what_if = WhatIfPages(self._asker, pods.explain)
        nodes = NodePages(
            state.cache, queue.nominator.nominated_pods_for_node, clock=clock, leading=leading
        )
        decisions = DecisionPages(history, clock=clock, leading=leading)
        gangs = GangPages(self._grouping, groups, clock=clock, leading=leading)
        self._summary = SummaryPages(
            state.cache,
            queue,
            wiring.connections.metrics,
            clock=clock,
            leading=leading,
            placements=decisions.placements,
        )
        table = state.cache.table
        waiting = WaitingPages(
            queue,
            clock=clock,
            leading=leading,
            decisions=history.of_pod,
            on_nodes=lambda: (list(table.pods[row].values()) for row in table.rows.tolist()),
            pods=lambda: state.listers["pods"].list(),  # noqa: PLW0108 - it is added later
            ours=lambda: scheduling.engine.frameworks,
            nearest=lambda name: nearest(name, scheduling.engine.frameworks),
        )
        #: By name: pages, answers to POST, and streams.
        self.debug: Mapping[str, Page] = {
            "cache": lambda _: internals("CacheStatistics", asdict(state.cache.statistics())),
            "decisions": decisions.decisions,
            "explain": self._what_if.explain,
            "gang": gangs.gang,
            "gangs": gangs.gangs,
            "node": nodes.node,
            "nodes": nodes.nodes,
            "queue": pods.queue,
            "statistics": self._statistics,
            "summary": self._summary.summary,
            "waiting": waiting.waiting,
        }
        self.questions: Mapping[str, Answer] = {"whatif": self._what_if.what_if}
        self.streams: Mapping[str, Stream] = {
            name: partial(self._stream, name) for name in ("bundle", "record")
        }

    def __enter__(self) -> Self:
        self._summary.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._summary.stop()

    def _statistics(self, _: Mapping[str, str]) -> object:
        return internals(
            "Statistics", {**self._wiring.statistics(), "questions": self._what_if.statistics()}
        )

    def _grouping(self) -> Iterator[GroupingPlugin]:
        """Yield the plugins that group pods, those of a reloaded configuration included."""
        for framework in self._wiring.profiles.frameworks.values():
            if framework.grouping is not None:
                yield framework.grouping

    async def _stream(self, name: str, query: Mapping[str, str]) -> AsyncGenerator[bytes]:
        # In a thread, as in `WhatIfPages`.
        module = await asyncio.to_thread(import_module, "scheduler.recording.streams")
        if self._bundles is None:
            self._bundles = module.BundleStreams(self._wiring, self._leading)
        async with aclosing(getattr(self._bundles, name)(query)) as pieces:
            async for piece in pieces:
                yield piece

    def _asker(self) -> Asker:
        from scheduler.explain.what_if.asker import Asker  # noqa: PLC0415 - see `WhatIfPages`

        wiring = self._wiring
        return Asker(
            _trial_parts(wiring),
            at_rest=wiring.scheduling.loop.at_rest,
            versions=wiring.resource_version,
            clock=wiring.connections.clock,
            leading=self._leading,
            synced=self._synced,
        )


def _trial_parts(wiring: Wiring) -> TrialParts:
    from scheduler.explain.what_if.trial import TrialParts  # noqa: PLC0415

    state, scheduling, connections = wiring.state, wiring.scheduling, wiring.connections
    return TrialParts(
        cache=state.cache,
        engine=scheduling.engine,
        stores=state.listers.stores,
        kinds=Kinds(each.resource for each in wiring.reflectors),
        signatures=state.signatures,
        subscriptions=state.subscriptions,
        random=connections.random,
        clock=connections.clock,
        features=scheduling.features,
        registered=scheduling.registered,
        existing=StoredObjects(
            state.listers.stores, connections.configuration.feature_gates, complete=True
        ),
    )
