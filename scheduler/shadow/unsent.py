"""Connections of a process that only reads: none of the parts that write is built.

Where the service expects such a part there is one that does nothing. Below all of them a
`ReadOnlyTransport` refuses whatever is not a GET.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from random import Random
from typing import Any, TypeVar, cast

from config import Configuration
from scheduler.api.meta import Condition
from scheduler.api.pod import Pod
from scheduler.api.signal import Signal
from scheduler.client.clock import Clock, SystemClock
from scheduler.client.fence import OpenFence
from scheduler.client.read_only import READ_ONLY, ReadOnlyTransport
from scheduler.client.rest import ApiClient
from scheduler.framework import Listers, Status, WriteConflictError, error
from scheduler.metrics import SchedulerMetrics
from scheduler.service.api_reads import ApiReads
from scheduler.service.binding_cycle import BindingCycle
from scheduler.service.node_recheck import NodeRecheck
from scheduler.service.object_waits import ObjectWaits
from scheduler.shadow.following import FollowingCycle
from scheduler.stages.connections import Connections, limiter

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class ReadingConnections(Connections):
    """Clients that read, and nothing that writes."""

    @property
    def binding_cycle(self) -> type[BindingCycle]:
        """The class of what an assumed pod goes through."""
        return FollowingCycle

    def plugin_writer(
        self, waits: ObjectWaits, recheck: NodeRecheck | None, known: Listers, /
    ) -> UnsentWrites:
        """Return what plugins have in place of a writer."""
        return UnsentWrites(self.client, waits, known)


class UnsentWrites(ApiReads):
    """Implements `framework.ApiWriter`: reads, and reports writes as done that are not sent."""

    def __init__(self, client: ApiClient, waits: ObjectWaits, known: Listers) -> None:
        super().__init__(client, waits)
        self._known = known

    async def bind(
        self, pod: Pod, node_name: str, annotations: Mapping[str, str] | None = None
    ) -> Status | None:
        """Fail: no binding cycle gets here."""
        return error(f"pod {pod.key} is not bound: {READ_ONLY}")

    async def create(self, plural: str, namespace: str, body: Mapping[str, Any]) -> Any:
        """Fail: what would be created cannot be known."""
        raise WriteConflictError(f"{plural} are not created: {READ_ONLY}", HTTPStatus.NOT_FOUND)

    async def patch(
        self,
        plural: str,
        name: str,
        namespace: str,
        body: Mapping[str, Any],
        subresource: str = "",
        *,
        strategic: bool = False,
    ) -> Any:
        """Return the object as it is known, without a request."""
        found = self._known[plural].get(name, namespace)
        if found is None:
            raise WriteConflictError(f"{plural} {name} does not exist", HTTPStatus.NOT_FOUND)
        return found

    async def delete(self, plural: str, name: str, namespace: str, uid: str = "") -> None:
        """Delete nothing."""

    async def status_written(self, uids: Iterable[str]) -> None:
        """Return at once: nothing is under way."""

    async def evict(
        self,
        pods: Sequence[Pod],
        condition: Condition,
        needed: Callable[[], bool] = lambda: True,
    ) -> Sequence[bool | BaseException]:
        """Evict nothing, and let the preemptor wait for the room as if that had been done.

        Were it told that the victims stay, it would try again at once, and for ever.
        """
        return [True] * len(pods)


class _Unsent:
    """In place of dispatcher, recorder of events and `framework.Events`."""

    def __init__(self) -> None:
        self.on_nomination_written = Signal[[str, str]]()

    def patch_status(self, _patch: object) -> None:
        """Write no status."""

    def nomination_under_way(self, _uid: str) -> bool:
        """Return False."""
        return False

    async def call(self, _lane: object, send: Callable[[], Awaitable[R]]) -> R:
        """Call `send`, whose request the transport lets pass if it only reads."""
        return await send()

    def record(self, *_: object, **__: object) -> None:
        """Record no Event."""


def connect(
    configuration: Configuration,
    transport: ReadOnlyTransport,
    *,
    metrics: SchedulerMetrics,
    clock: Clock | None = None,
) -> ReadingConnections:
    """Build the first stage of the service without what writes. `clock` None: the machine's."""
    clock = clock or SystemClock()
    unsent: Any = _Unsent()
    client = ApiClient(
        transport,
        user_agent="kubestow/shadow",
        limiter=limiter(configuration, clock),
        clock=clock,
        metrics=metrics.client_recorder(transport.host),
    )
    return ReadingConnections(
        configuration=configuration,
        clock=clock,
        random=Random(configuration.options.seed),
        metrics=metrics,
        fence=OpenFence(),
        client=client,
        dispatcher=unsent,
        recorder=unsent,
        events=cast("Any", unsent),
        tracing=None,
    )
