"""Nominations decided, written, shown and lost in any order: the last decision stands.

The API server holds one pod name. Requests wait until a rule lets the server act on them, answers
until one delivers them, and changes until one lets the watch show them. Dispatcher, queue, cache,
event handlers, failure handler and status writer are real; which decision comes next is drawn.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, cast

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from scheduler.api.meta import Condition
from scheduler.api.pod import Pod
from scheduler.client.binding import BOUND, BindOutcome, BindResult
from scheduler.client.deltas import Delta, DeltaType
from scheduler.client.dispatcher import Dispatcher
from scheduler.client.errors import (
    ApiError,
    ConnectionFailed,
    RequestError,
    StatusBody,
    StatusCause,
    StatusDetails,
)
from scheduler.client.http.response import Response
from scheduler.client.rest import ApiClient
from scheduler.engine import Attempt, Failure
from scheduler.framework import CLEAR_NOMINATION, NominatingInfo, QueuedPodInfo
from tests.unit.engine.harness import new_state
from tests.unit.service.harness import Service

KEY = "default/p"
NODES = ("n1", "n2")
TEXTS = ("no", "still no")
replace = msgspec.structs.replace


@dataclass
class Request:
    """A status patch, or a bind, that the scheduler waits for."""

    uid: str
    future: asyncio.Future[Any]
    #: Of a patch; None for a bind.
    status: Mapping[str, Any] | None
    node_name: str = ""
    #: What the server made of it; None while it has not come to it.
    result: Any = None

    @property
    def nominates(self) -> bool:
        return self.status is not None and "nominatedNodeName" in self.status


class Api:
    """The API server, as much of it as `send_status_patch` and `Dispatcher.bind` need."""

    def __init__(self) -> None:
        self.pod: Pod | None = None
        self.version = 7
        self.requests: list[Request] = []
        #: What the watch has not shown yet.
        self.changes: deque[tuple[DeltaType, Pod]] = deque()

    async def request(
        self, verb: str, path: str, *, body: bytes, query: object, content_type: str
    ) -> Response:
        patch = json.loads(body)
        response = await self._wait(Request(patch["metadata"]["uid"], _future(), patch["status"]))
        return cast("Response", response)

    async def bind(self, uid: str, node_name: str) -> BindResult:
        response = await self._wait(Request(uid, _future(), None, node_name))
        return cast("BindResult", response)

    async def _wait(self, request: Request) -> Any:
        self.requests.append(request)
        return await request.future

    def act(self, request: Request) -> None:
        """The server carries a request out."""
        pod = self.pod
        if request.status is None:
            request.result = self._bound(request, pod)
        elif pod is None:
            request.result = _refusal(404)
        elif pod.uid != request.uid:
            request.result = _refusal(422, field="metadata.uid")
        else:
            changed = _patched(pod, request.status)
            if changed.status != pod.status:
                self.change(changed)
            assert self.pod is not None
            version = self.pod.metadata.resource_version
            body = msgspec.json.encode({"metadata": {"resourceVersion": version}})
            request.result = Response(200, body)

    def _bound(self, request: Request, pod: Pod | None) -> BindResult:
        if pod is None or pod.uid != request.uid:
            return BindResult(BindOutcome.GONE)
        if pod.spec.node_name:
            return BindResult(BindOutcome.ELSEWHERE)
        self.place(request.node_name)
        return BOUND

    def place(self, node_name: str) -> None:
        """Bind the pod; that ends its nomination."""
        assert self.pod is not None
        spec = replace(self.pod.spec, node_name=node_name)
        status = replace(self.pod.status, nominated_node_name="")
        self.change(replace(self.pod, spec=spec, status=status))

    def respond(self, request: Request) -> None:
        """Deliver the server's result of a request to the scheduler."""
        self.requests.remove(request)
        if isinstance(request.result, Exception):
            request.future.set_exception(request.result)
        else:
            request.future.set_result(request.result)

    def change(self, pod: Pod, change: DeltaType = DeltaType.MODIFIED) -> None:
        self.version += 1
        metadata = replace(pod.metadata, resource_version=str(self.version))
        self.pod = replace(pod, metadata=metadata)
        self.changes.append((change, self.pod))

    def delete(self) -> None:
        assert self.pod is not None
        self.changes.append((DeltaType.DELETED, self.pod))
        self.pod = None


def _future() -> asyncio.Future[Any]:
    return asyncio.get_running_loop().create_future()


def _patched(pod: Pod, status: Mapping[str, Any]) -> Pod:
    changed = pod.status
    if "nominatedNodeName" in status:
        changed = replace(changed, nominated_node_name=status["nominatedNodeName"] or "")
    if "conditions" in status:
        conditions = msgspec.convert(status["conditions"], tuple[Condition, ...])
        changed = replace(changed, conditions=conditions)
    return replace(pod, status=changed)


def _refusal(status: int, field: str = "") -> RequestError:
    details = StatusDetails(causes=(StatusCause(field=field),))
    return ApiError("PATCH", KEY, status=status, body=StatusBody(code=status, details=details))


async def _settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


class NominationMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.api = Api()
        self.dispatcher = Dispatcher(cast("ApiClient", self.api), random=Random(1))
        self.service = Service(sends=self.dispatcher)
        self.service.world.nodes(*NODES)
        self.nominator = self.service.queue.nominator
        self.sender = self.loop.create_task(self.dispatcher.run())
        self.created = 0
        #: Where the pod that the watch shows was nominated last; None when unknown.
        self.decided: str | None = ""
        #: A pod that waits at Permit, with its node; whether that was written down, and its bind.
        self.waiting: tuple[QueuedPodInfo, str] | None = None
        self.expected = False
        self.binding: asyncio.Task[BindResult] | None = None
        #: The last nomination sent failed: the server does not know it, or may not.
        self.unwritten = self.unsure = False

    def turn(self) -> None:
        self.loop.run_until_complete(_settle())

    @property
    def known(self) -> Pod | None:
        """The pod as the watch has shown it."""
        return self.service.informer.get(KEY)

    def may_decide(self) -> bool:
        pod = self.known
        return self.waiting is None and pod is not None and self.service.place(pod) is not None

    def holds(self) -> bool:
        return self.waiting is not None and self.binding is None

    # ------------------------------------------------------------------------------- what others do

    @precondition(lambda self: self.api.pod is None)
    @rule()
    def create(self) -> None:
        self.created += 1
        pod = self.service.world.pod("p")
        metadata = replace(pod.metadata, uid=f"uid-{self.created}")
        self.api.change(replace(pod, metadata=metadata), DeltaType.ADDED)

    @precondition(lambda self: self.api.pod is not None)
    @rule()
    def delete(self) -> None:
        self.api.delete()

    @precondition(lambda self: self.api.pod is not None and not self.api.pod.spec.node_name)
    @rule()
    def label(self) -> None:
        assert self.api.pod is not None
        labels = {"version": str(self.api.version)}
        metadata = replace(self.api.pod.metadata, labels=labels)
        self.api.change(replace(self.api.pod, metadata=metadata))

    @precondition(lambda self: self.api.pod is not None and not self.api.pod.spec.node_name)
    @rule(node=st.sampled_from(NODES))
    def bound_by_others(self, node: str) -> None:
        self.api.place(node)

    # ---------------------------------------------------------------------------- what is decided

    def popped(self) -> QueuedPodInfo:
        assert self.known is not None
        self.service.queue.activate([self.known])
        info = self.service.queue.pop()
        assert info is not None
        assert info.uid == self.known.uid
        return info

    def failed(self, info: QueuedPodInfo, nominating: NominatingInfo | None, text: str) -> None:
        attempt = Attempt(info, self.service.world.framework, new_state(), 0.0, info.pod)
        failure = Failure("Unschedulable", text, nominating, frozenset({"Refuser"}))
        self.service.failures.handle(attempt, failure)
        self.turn()

    @precondition(may_decide)
    @rule(node=st.sampled_from(("", *NODES)), text=st.sampled_from(TEXTS))
    def rejected(self, node: str, text: str) -> None:
        pod = self.known
        assert pod is not None
        quiet = not (self.api.requests or self.api.changes or self.unsure)
        texts = [condition.message for condition in pod.status.conditions]
        written = texts == [text] and pod.status.nominated_node_name == node
        self.failed(self.popped(), NominatingInfo(node), text)
        self.decided = node
        if quiet and written:
            assert self.api.requests == []

    @precondition(may_decide)
    @rule(text=st.sampled_from(TEXTS))
    def turned_down_with_its_nomination_left_alone(self, text: str) -> None:
        self.failed(self.popped(), None, text)

    @precondition(may_decide)
    @rule(node=st.sampled_from(NODES))
    def placed(self, node: str) -> None:
        info = self.popped()
        assumed = self.service.cache.assume_pod(info.pod, node)
        self.nominator.delete_nominated_pod_if_exists(assumed)
        self.waiting, self.expected = (info, node), False

    @precondition(lambda self: self.holds() and not self.expected)
    @rule()
    def expected_on(self) -> None:
        assert self.waiting is not None
        info, node = self.waiting
        self.service.statuses.expected_on(info.pod, node)
        self.expected = True
        self.turn()

    @precondition(holds)
    @rule()
    def given_up(self) -> None:
        self.end_of_cycle(CLEAR_NOMINATION, TEXTS[0])

    def end_of_cycle(self, nominating: NominatingInfo | None, text: str) -> None:
        assert self.waiting is not None
        info, _ = self.waiting
        self.waiting = self.binding = None
        self.service.cache.forget_pod(info.uid)
        self.failed(info, nominating, text)
        if self.known is not None and self.known.uid == info.uid:
            self.decided = None if nominating is None else nominating.node_name

    @precondition(holds)
    @rule()
    def bound(self) -> None:
        assert self.waiting is not None
        self.binding = self.loop.create_task(self.bind(*self.waiting))
        self.turn()

    async def bind(self, info: QueuedPodInfo, node: str) -> BindResult:
        send = partial(self.api.bind, info.uid, node)
        return await self.dispatcher.bind(info.pod, node, send=send)

    def collect(self) -> None:
        """The end of a bind."""
        self.turn()
        if self.binding is None or not self.binding.done():
            return
        assert self.waiting is not None
        result = self.binding.result()
        if result.bound:
            self.service.queue.done(self.waiting[0].uid)
            self.waiting = self.binding = None
        elif result.outcome is BindOutcome.UNBOUND:
            self.end_of_cycle(CLEAR_NOMINATION, TEXTS[0])
        else:
            self.end_of_cycle(None, "")

    # -------------------------------------------------------------------------- what is on its way

    def fresh(self) -> list[Request]:
        return [each for each in self.api.requests if each.result is None]

    def acted(self) -> list[Request]:
        return [each for each in self.api.requests if each.result is not None]

    @precondition(lambda self: bool(self.fresh()))
    @rule(which=st.integers(0, 1))
    def server_acts(self, which: int) -> None:
        requests = self.fresh()
        self.api.act(requests[which % len(requests)])

    @precondition(lambda self: bool(self.acted()))
    @rule(which=st.integers(0, 1))
    def server_answers(self, which: int) -> None:
        requests = self.acted()
        self.respond(requests[which % len(requests)])

    def nominates(self, request: Request) -> bool:
        return request.nominates and self.known is not None and self.known.uid == request.uid

    def respond(self, request: Request) -> None:
        if self.nominates(request) and isinstance(request.result, Response):
            self.unwritten = self.unsure = False
        self.api.respond(request)
        self.collect()

    @precondition(lambda self: bool(self.fresh()))
    @rule()
    def server_refuses(self) -> None:
        request = self.fresh()[0]
        refusal = _refusal(403)
        if request.status is None:
            request.result = BindResult(BindOutcome.UNBOUND, refusal)
        else:
            request.result = refusal
            if self.nominates(request):
                self.unwritten = self.unsure = True
        self.api.respond(request)
        self.collect()

    @precondition(lambda self: any(each.status is not None for each in self.api.requests))
    @rule()
    def answer_is_lost(self) -> None:
        request = next(each for each in self.api.requests if each.status is not None)
        if self.nominates(request):
            self.unwritten, self.unsure = request.result is None, True
        request.result = ConnectionFailed("PATCH", KEY, "reset", sent=True)
        self.api.respond(request)
        self.collect()

    @precondition(lambda self: bool(self.api.changes))
    @rule()
    def watch_shows(self) -> None:
        change, pod = self.api.changes.popleft()
        old = self.known
        if change is DeltaType.DELETED:
            del self.service.informer[KEY]
        else:
            self.service.informer[KEY] = pod
        if change is DeltaType.ADDED:
            self.decided, self.unwritten, self.unsure = "", False, False
        delta = Delta(change, pod, old if change is DeltaType.MODIFIED else None)
        self.service.handlers._pod(delta)
        self.turn()

    @precondition(lambda self: bool(self.api.requests or self.api.changes))
    @rule()
    def everything_arrives(self) -> None:
        self.turn()
        while self.api.requests or self.api.changes:
            if requests := self.fresh():
                self.api.act(requests[0])
            elif requests := self.acted():
                self.respond(requests[0])
            else:
                self.watch_shows()

    # -------------------------------------------------------------------------------------- checks

    @invariant()
    def memory_has_the_last_decision(self) -> None:
        self.service.queue.validate()
        self.service.cache.validate()
        pod = self.known
        if pod is None or pod.spec.node_name or self.decided is None:
            return
        assumed = self.service.cache.is_assumed(pod.uid)
        assert self.nominator.node_of(pod.uid) == ("" if assumed else self.decided)

    def teardown(self) -> None:
        try:
            self.end()
        finally:
            self.sender.cancel()
            if self.binding is not None:
                self.binding.cancel()
            self.turn()
            self.loop.close()

    def end(self) -> None:
        """Everything arrives; then the API server has the last decision too, and all ends."""
        if self.holds():
            self.given_up()
        self.everything_arrives()
        pod = self.api.pod
        if pod is not None and not pod.spec.node_name and self.decided is not None:
            self.memory_has_the_last_decision()
            if not self.unwritten:
                assert pod.status.nominated_node_name == self.decided
        if pod is not None:
            self.api.delete()
            self.everything_arrives()
        assert len(self.nominator) == 0
        assert self.nominator._writes == {}
        assert self.nominator._cleared == {}
        statistics = self.dispatcher.statistics().status
        assert statistics.waiting == statistics.in_flight == 0


TestNominationMachine = NominationMachine.TestCase
TestNominationMachine.settings = settings(max_examples=60, stateful_step_count=40)
