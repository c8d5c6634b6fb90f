"""The debug page `/debug/waiting`: pending pods by owner, and by what they wait for.

It is built on the event loop between cycles, in slices of less than 5 ms (`python -m
benchmarks.pages`): all pending pods are counted in several slices, and the last one makes the
bounded number of records that are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from typing import Final

from scheduler.api.pod import Pod
from scheduler.explain.owners import MAX_OWNER, owner_of
from scheduler.explain.pages.pods import DecisionsOf
from scheduler.explain.pages.query_numbers import number_in
from scheduler.explain.pages.slices import in_slices
from scheduler.explain.records import (
    Decision,
    OtherScheduler,
    PodView,
    QueueState,
    WaitingGroup,
    WaitingPage,
    WaitingPod,
)
from scheduler.explain.records.causes import cause_of
from scheduler.explain.records.story import why_waiting
from scheduler.explain.records.waiting_pods import Selection, Waiting, WaitingPods
from scheduler.framework import Clock, QueuedPodInfo
from scheduler.queue import SchedulingQueue

DEFAULT_GROUPS: Final = 100
MAX_GROUPS: Final = 200
"""Maximum number in one response; each is explained, which takes some 10 us."""
MAX_PODS: Final = 500
MAX_WORDS: Final = 8
_STEP: Final = 250
"""Number of pods that one step counts."""
_MESSAGES: Final = 10
"""Number of distinct messages that one step reads; one that is meant to takes 0.1 ms."""
_KEPT: Final = 1_000
"""Number of messages whose causes are kept."""
_RECORDS: Final = 20
"""Number of pods or groups that one step makes records of."""
_PLACED: Final = 500
"""Number of placed pods after which a step ends, with the node that it is at."""
_NAMES: Final = 50
"""Number of names of other schedulers that are counted: each pod of an owner may have its own."""
MAX_OTHERS: Final = 5
"""Number of those that are listed."""


class WaitingPages:
    """The page of one process."""

    def __init__(
        self,
        queue: SchedulingQueue,
        *,
        clock: Clock,
        leading: Callable[[], bool],
        decisions: DecisionsOf = lambda *_: None,
        on_nodes: Callable[[], Iterable[Iterable[Pod]]] = tuple,
        pods: Callable[[], Iterable[Pod]] = tuple,
        ours: Callable[[], Collection[str]] = tuple,
        nearest: Callable[[str], str] = lambda _: "",
    ) -> None:
        """Count the pods of a queue.

        Args:
            queue: the queue.
            clock: ends the slices.
            leading: whether this process leads.
            decisions: what is remembered about a pod.
            on_nodes: returns the pods of each node.
            pods: returns all pods, those of other schedulers included.
            ours: returns the names of the profiles.
            nearest: returns the profile that another name seems to mean, or nothing.
        """
        self._pods = pods
        self._ours = ours
        self._nearest = nearest
        self._queue = queue
        self._on_nodes = on_nodes
        self._clock = clock
        self._leading = leading
        self._decisions = decisions

    async def waiting(self, query: Mapping[str, str]) -> WaitingPage:
        """Return counts of the pods of `?namespace=`, and those selected by the other parameters.

        Raises:
            ValueError: a number is out of range.
        """
        groups = number_in(query, "groups", DEFAULT_GROUPS, 0, MAX_GROUPS)
        limit = number_in(query, "limit", 0, 0, MAX_PODS)
        selection = Selection(
            query.get("namespace", ""),
            query.get("owner", ""),
            query.get("cause", ""),
            tuple(query.get("words", "").lower().split()[:MAX_WORDS]),
        )
        placed = bool(query.get("placed"))
        return await in_slices(self._page(selection, groups, limit, placed=placed), self._clock)

    def _page(
        self, selection: Selection, groups: int, limit: int, *, placed: bool
    ) -> Generator[None, None, WaitingPage]:
        found: WaitingPods[QueuedPodInfo] = WaitingPods(selection)
        _, _, owner = selection.owner.partition("/")
        kind, _, _ = owner.partition("/")
        yield from self._counted(found, kind)
        longest = found.longest(limit)
        yield
        pods: list[WaitingPod] = []
        for start in range(0, len(longest), _RECORDS):
            for info in longest[start : start + _RECORDS]:
                view = self._queue.record(info)
                if view is not None:
                    of = owner_of(info.pod, kind)
                    pods.append(WaitingPod(view, of, _cause(view.place, info)))
            yield
        explained: list[WaitingGroup] = []
        for at, group in enumerate(found.groups(groups), 1):
            explained.append(self._group(group))
            if at % _RECORDS == 0:
                yield
        # It looks at every pod of the cluster, which a page that is shown all the time need not.
        of = selection.owner.partition("/")[0]
        # A reader of one namespace must not count the pods of an owner in another one.
        wanted = placed and bool(kind) and selection.namespace in ("", of)
        number, ending = (yield from self._placed(selection.owner, kind)) if wanted else (None, 0)
        others = (yield from self._others(selection.owner, kind)) if wanted else []
        return WaitingPage(
            now=self._clock.now(),
            leading=self._leading(),
            namespace=selection.namespace,
            total=found.total,
            headline=found.headline(),
            causes=found.causes(),
            selected=found.selected,
            group_total=found.group_total,
            groups=explained,
            pods=pods,
            placed=number,
            ending=ending,
            others=others,
        )

    def _placed(self, owner: str, kind: str) -> Generator[None, None, tuple[int, int]]:
        """Count the pods of an owner that have a node, and those of them that are being deleted."""
        namespace, _, name = owner.partition("/")
        found = ending = seen = 0
        for pods in self._on_nodes():
            for pod in pods:
                seen += 1
                if pod.metadata.namespace == namespace and owner_of(pod, kind) == name:
                    found += 1
                    ending += pod.terminating
            if seen >= _PLACED:
                seen = 0
                yield
        return found, ending

    def _others(self, owner: str, kind: str) -> Generator[None, None, list[OtherScheduler]]:
        """Count the pods of an owner that name another scheduler."""
        namespace, _, name = owner.partition("/")
        ours = frozenset(self._ours())
        found: dict[str, list[int]] = {}
        pods = list(self._pods())
        yield
        for start in range(0, len(pods), _PLACED):
            for pod in pods[start : start + _PLACED]:
                if pod.metadata.namespace != namespace or pod.spec.scheduler_name in ours:
                    continue
                if owner_of(pod, kind) != name:
                    continue
                asked = pod.spec.scheduler_name[:MAX_OWNER]
                if asked in found or len(found) < _NAMES:
                    counts = found.setdefault(asked, [0, 0])
                    counts[0] += 1
                    counts[1] += bool(pod.spec.node_name)
            yield
        most = sorted(found.items(), key=lambda each: (-each[1][0], each[0]))[:MAX_OTHERS]
        return [
            OtherScheduler(asked, number, placed, self._nearest(asked))
            for asked, (number, placed) in most
        ]

    def _counted(self, found: WaitingPods[QueuedPodInfo], kind: str) -> Generator[None, None, None]:
        """Count all pending pods."""
        causes = _Causes()
        pending = self._queue.pending()
        yield
        for start in range(0, len(pending), _STEP):
            for info in pending[start : start + _STEP]:
                self._count(info, found, causes, kind)
                if causes.read >= _MESSAGES:
                    causes.read = 0
                    yield
            yield

    def _count(
        self,
        info: QueuedPodInfo,
        found: WaitingPods[QueuedPodInfo],
        causes: _Causes,
        kind: str,
    ) -> None:
        place = self._queue.place(info.uid)
        if place is None:
            return
        metadata = info.pod.metadata
        cause = causes.of(place, info)
        first = info.initial_attempt_timestamp
        since = info.timestamp if first is None else first
        owner = owner_of(info.pod, kind)
        found.add(metadata.namespace, metadata.name, owner, cause, since, info)

    def _group(self, group: Waiting[QueuedPodInfo]) -> WaitingGroup:
        pod = group.pod.pod.metadata
        view = self._queue.record(group.pod)
        return WaitingGroup(
            namespace=group.namespace,
            owner=group.owner,
            cause=group.cause,
            pods=group.pods,
            pod=pod.name,
            waiting_since=group.since,
            text="" if view is None else why_waiting(view, self._last(view)),
        )

    def _last(self, view: PodView) -> Decision | None:
        found = self._decisions(view.namespace, view.name)
        return found[-1] if found and found[-1].uid == view.uid else None


class _Causes:
    """Causes by message: pods of one template have the same one, which is read once."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, str], str] = {}
        #: Messages read since this was set to 0.
        self.read = 0

    def of(self, place: QueueState, info: QueuedPodInfo) -> str:
        """Return the cause of a pod."""
        key = (place, info.last_message, info.gating_plugin or ",".join(sorted(info.rejectors)))
        cause = self._known.get(key)
        if cause is None:
            self.read += 1
            if len(self._known) >= _KEPT:
                self._known.clear()
            cause = self._known[key] = _cause(place, info)
        return cause


def _cause(place: QueueState, info: QueuedPodInfo) -> str:
    plugins = (info.gating_plugin,) if info.gating_plugin else info.rejectors
    return cause_of(place, info.last_message, plugins)
