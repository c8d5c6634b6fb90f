"""HTTP extenders in a scheduling cycle: which are interested in a pod, and what responses mean.

Follows upstream's `extender.go` and `schedule_one.go: findNodesThatPassExtenders`,
`prioritizeNodes`. Nothing here does I/O: requests go to an `ExtenderTransport`, which the service
implements, and the scheduling cycle is suspended until the response is there.

Invariants: extenders filter one after the other, each the nodes that the one before let pass; the
failure of an ignorable one is ignored; a pod never waits for an extender not interested in it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from config import Extender
from scheduler.api.pod import Pod
from scheduler.cache import NodeTable
from scheduler.extenders.protocol import (
    MAX_EXTENDER_SCORE,
    MalformedResponseError,
    Victims,
    nodes_request,
    parse_filter_response,
    parse_preemption_response,
    parse_prioritize_response,
    preemption_request,
)
from scheduler.framework import MAX_NODE_SCORE, Code, Status
from scheduler.framework.preemption import Candidate
from scheduler.sanitizing.redaction import shown_url

T = TypeVar("T")

_SCALE: Final = MAX_NODE_SCORE // MAX_EXTENDER_SCORE
_MAX_SCORE: Final = 1 << 60
"""Bound of the sum of weighted scores: weights may be any int64, totals are int64 as well."""


class ExtenderError(Exception):
    """A failed call of an extender; the text names its URL, the verb, and the reason."""


class DeadlineExceededError(Exception):
    """Work exceeded its timeout. Not TimeoutError, which the work itself may raise."""


class ExtenderTransport(Protocol):
    """Requests that a suspended cycle waits for. The service implements it."""

    async def send(
        self, extender: Extender, verb: str, body: bytes, read: Callable[[bytes], T]
    ) -> T:
        """Send `body` and return the response as decoded by `read`.

        Raises:
            ExtenderError: no response, an unsuccessful one, or one that `read` cannot decode.
        """
        ...

    async def gather(self, work: Sequence[Coroutine[Any, Any, T]]) -> Sequence[T | BaseException]:
        """Run all concurrently; an exception takes the place of a result."""
        ...

    async def wait_for(self, work: Awaitable[T], seconds: float) -> T:
        """Await `work`; errors of its own propagate.

        Raises:
            DeadlineExceededError: `seconds` are over; the work is cancelled, but not waited for.
            RuntimeError: the work was cancelled by something else.
        """
        ...

    def log_ignored_failure(
        self, extender: Extender, verb: str, pod: Pod, error: ExtenderError
    ) -> None:
        """Log the failure of an ignorable extender."""
        ...

    def log_unusual_scores(self, extender: Extender, unusual: str) -> None:
        """Log, once for each extender, that unusual scores are used."""
        ...

    def pod_bytes(self, pod: Pod) -> bytes:
        """Return a pod's JSON as the API server sent it."""
        ...

    def node_bytes(self, name: str) -> bytes:
        """Return a node's JSON as the API server sent it."""
        ...


class Extenders:
    """The extenders of a configuration, ignorable ones last."""

    def __init__(
        self, extenders: Sequence[Extender], transport: ExtenderTransport, table: NodeTable
    ) -> None:
        self._table = table
        self.transport = transport
        self.replace(extenders)

    def replace(self, extenders: Sequence[Extender]) -> None:
        """Call these from now on; not while a cycle is suspended."""
        #: With the resources that each manages; none: it is interested in every pod.
        self._all = [
            (each, frozenset(resource.name for resource in each.managed_resources))
            for each in sorted(extenders, key=lambda each: each.ignorable)
        ]
        #: Whether any of them filters or scores nodes.
        self.evaluates = any(each.filter_verb or each.prioritize_verb for each in extenders)

    def __bool__(self) -> bool:
        return bool(self._all)

    def interested(self, pod: Pod) -> tuple[Extender, ...]:
        """Return the extenders interested in the pod, in the order of calls.

        See `extender.go: IsInterested`.
        """
        if not self._all:
            return ()
        mentioned = _mentioned_resources(pod)
        return tuple(each for each, managed in self._all if not managed or managed & mentioned)

    def begin_round(self, pod: Pod) -> ExtenderRound:
        """Return the calls of one scheduling attempt."""
        return ExtenderRound(pod, self.interested(pod), self.transport)

    def binders(self, pod: Pod) -> tuple[Extender, ...]:
        """Return the extenders that bind the pod instead of the Bind plugins."""
        return tuple(each for each in self.interested(pod) if each.bind_verb)

    def suspends(self, pod: Pod) -> bool:
        """Whether some extender may be called in the pod's scheduling cycle."""
        return any(map(sends_pod, self.interested(pod)))

    def review(
        self, pod: Pod, candidates: Sequence[Candidate]
    ) -> Coroutine[Any, Any, list[Candidate]] | None:
        """Implement `CandidateReview`; None when no interested extender handles preemption."""
        interested = [each for each in self.interested(pod) if each.preempt_verb]
        return self._send_candidates(pod, candidates, interested) if interested else None

    async def _send_candidates(
        self, pod: Pod, candidates: Sequence[Candidate], interested: Sequence[Extender]
    ) -> list[Candidate]:
        transport, left = self.transport, list(candidates)
        body = transport.pod_bytes(pod)
        for extender in interested:
            if not left:
                break
            whole = not extender.node_cache_capable
            request = preemption_request(
                body,
                [
                    (each, [transport.pod_bytes(p) for p in each.victims] if whole else None)
                    for each in left
                ],
            )
            read = partial(self._candidates, extender)
            verb = extender.preempt_verb
            try:
                left = await transport.send(extender, verb, request, read)
            except ExtenderError as error:
                if not extender.ignorable:
                    raise
                transport.log_ignored_failure(extender, verb, pod, error)
        return left

    def _candidates(self, extender: Extender, result: bytes) -> list[Candidate]:
        """Return the candidates in a response. Raises MalformedResponseError."""
        found = []
        for name, victims in parse_preemption_response(result).items():
            pods = self._victims(extender, name, victims)
            if pods:
                found.append(Candidate(name, pods, victims.pdb_violations))
            elif not extender.ignorable:
                raise MalformedResponseError(f'expected at least one victim pod on node "{name}"')
        return found

    def _victims(self, extender: Extender, name: str, victims: Victims) -> tuple[Pod, ...]:
        row = self._table.row_of(name)
        if row is None:
            raise MalformedResponseError(f'node "{name}" not found')
        there = {each.metadata.uid: each for each in self._table.node_info(row).pods}
        for uid in victims.uids:
            if uid not in there:
                raise MalformedResponseError(
                    f"extender: {display_name(extender)} claims to preempt pod (UID: {uid}) on "
                    f"node: {name}, but the pod is not found on that node"
                )
        return tuple(there[uid] for uid in dict.fromkeys(victims.uids))


class ExtenderRound:
    """The calls of extenders in one attempt. The bytes that are sent do not change meanwhile."""

    def __init__(
        self, pod: Pod, interested: Sequence[Extender], transport: ExtenderTransport
    ) -> None:
        self._pod = pod
        self._transport = transport
        #: Extenders that filter nodes for this pod, and those that score them.
        self.filters: Final = [each for each in interested if each.filter_verb]
        self.scorers: Final = [each for each in interested if each.prioritize_verb]
        self._pod_bytes = transport.pod_bytes(pod) if interested else b""
        self._node_bytes: dict[str, bytes] = {}

    async def filter(self, names: Sequence[str]) -> tuple[Sequence[str], dict[str, Status]]:
        """Return the names of nodes that pass all filters, and the statuses of the others.

        A node that was rejected without a reason has no status.

        Raises:
            ExtenderError: an extender failed that is not ignorable.
        """
        statuses: dict[str, Status] = {}
        for extender in self.filters:
            if not names:
                break
            read = partial(parse_filter_response, given=names, names=extender.node_cache_capable)
            body = self._request(extender, names)
            verb = extender.filter_verb
            try:
                result = await self._transport.send(extender, verb, body, read)
            except ExtenderError as error:
                if not extender.ignorable:
                    raise
                self._transport.log_ignored_failure(extender, verb, self._pod, error)
                continue
            passing = frozenset(result.passing)
            for name in names:
                if name in passing:
                    continue
                if name in result.unresolvable:
                    reason = result.unresolvable[name]
                    statuses[name] = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (reason,))
                elif name in result.failed:
                    statuses[name] = Status(Code.UNSCHEDULABLE, (result.failed[name],))
            names = result.passing
        return names, statuses

    async def prioritize(self, names: Sequence[str]) -> Mapping[str, int]:
        """Return the weighted scores to add to the totals of nodes; 0 for absent nodes."""
        if not self.scorers:
            return {}
        read = partial(parse_prioritize_response, given=names)
        results = await self._transport.gather(
            [
                self._transport.send(each, each.prioritize_verb, self._request(each, names), read)
                for each in self.scorers
            ]
        )
        scores: dict[str, int] = {}
        for extender, result in zip(self.scorers, results, strict=True):
            if isinstance(result, ExtenderError):
                self._transport.log_ignored_failure(
                    extender, extender.prioritize_verb, self._pod, result
                )
            elif isinstance(result, BaseException):
                raise result
            else:
                if result.unusual:
                    self._transport.log_unusual_scores(extender, result.unusual)
                for name, score in result.scores.items():
                    scores[name] = scores.get(name, 0) + score * extender.weight * _SCALE
        return {name: max(-_MAX_SCORE, min(score, _MAX_SCORE)) for name, score in scores.items()}

    def _request(self, extender: Extender, names: Sequence[str]) -> bytes:
        nodes = None if extender.node_cache_capable else [self._node(name) for name in names]
        return nodes_request(self._pod_bytes, names, nodes)

    def _node(self, name: str) -> bytes:
        known = self._node_bytes.get(name)
        if known is None:
            known = self._node_bytes[name] = self._transport.node_bytes(name)
        return known


def display_name(extender: Extender) -> str:
    """Return the extender's URL without credentials, for messages, metrics and the log."""
    return shown_url(extender.url_prefix)


def sends_nodes(extender: Extender) -> bool:
    """Whether the extender is sent whole nodes."""
    verbs = extender.filter_verb or extender.prioritize_verb
    return bool(verbs) and not extender.node_cache_capable


def sends_pod(extender: Extender) -> bool:
    """Whether the extender is sent the whole pod that is being scheduled."""
    return bool(extender.filter_verb or extender.prioritize_verb or extender.preempt_verb)


def sends_victims(extender: Extender) -> bool:
    """Whether the extender is sent whole pods as victims."""
    return bool(extender.preempt_verb) and not extender.node_cache_capable


def _mentioned_resources(pod: Pod) -> set[str]:
    """Return the resources named in requests or limits of any container, even with 0."""
    found: set[str] = set()
    for container in (*pod.spec.containers, *pod.spec.init_containers):
        found.update(container.resources.requests, container.resources.limits)
    return found
