"""The worker of an isolated plugin, called in this process."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import msgspec
import numpy as np
import pytest

from benchmarks.engine_world import EngineWorld
from scheduler.framework import (
    NoArgs,
    PluginError,
    PreFilterResult,
    error,
    unresolvable,
    unschedulable,
)
from scheduler.isolation.process import worker as module
from scheduler.isolation.process.evaluator import evaluation
from scheduler.isolation.process.messages import (
    HEADER_BYTES,
    CallMessage,
    RequestMessage,
    ResponseMessage,
    Start,
    decode_request,
    decode_response,
    frame,
    sendable,
)
from scheduler.isolation.process.table_copy import TableCopy
from scheduler.isolation.process.worker import Worker

NODES = 5


class Plugin:
    """Rejects every second node, and prefers those with a larger row."""

    name = "example.com/Plugin"

    def __init__(self, args: object, handle: Any) -> None:
        self.handle = handle

    def pre_filter(self, state: Any, pod: Any, table: Any) -> Any:
        match pod.metadata.labels.get("wants"):
            case "names":
                return PreFilterResult(frozenset(("node-000001",)))
            case "rejection":
                return unresolvable("not at all")
            case "error":
                return error("broken")
            case "late":
                return unschedulable("later", requeue_after=3.0)
            case "lister":
                return self.handle.listers["services"]
        return None

    def filter(self, state: Any, pod: Any, node: Any) -> Any:
        return unschedulable("odd") if int(node.name[-1]) % 2 else None

    def score(self, state: Any, pod: Any, node: Any) -> int:
        return int(node.name[-1])


@pytest.fixture
def no_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits are those of a process, and tests share one."""
    monkeypatch.setattr(module, "_limit_memory", lambda limit: None)


@pytest.fixture
def plugin_module(monkeypatch: pytest.MonkeyPatch) -> str:
    holder = ModuleType("worker_test_plugin")
    holder.Plugin = Plugin  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, holder.__name__, holder)
    return holder.__name__


class Conversation:
    def __init__(self, plugin_module: str, name: str = "Plugin") -> None:
        self.world = EngineWorld(NODES)
        self.worker = Worker()
        args = msgspec.msgpack.encode(NoArgs())
        self.started = self.ask(Start(plugin_module, name, "kubestow", args, {}, 0))
        copy = TableCopy()
        copy.removals(self.world.cache.table)
        for changes in copy.additions(self.world.cache.table):
            self.ask(changes)

    def ask(self, content: Any) -> ResponseMessage:
        request = decode_request(frame(RequestMessage(7, content))[HEADER_BYTES:])
        response = decode_response(frame(self.worker.respond(request))[HEADER_BYTES:])
        assert response.number == 7
        return response

    def call(self, wants: str = "") -> Any:
        pod = self.world.pod(labels={"wants": wants})
        return evaluation(self.ask(CallMessage(1.0, sendable(pod))), self.world.cache.table)


@pytest.mark.usefixtures("no_limits")
def test_results_are_in_the_rows_of_the_scheduler(plugin_module: str) -> None:
    asked = Conversation(plugin_module)
    found = asked.call()
    rows = asked.world.cache.table.rows
    reasons = [found.statuses[code].reasons if code else () for code in found.codes[rows].tolist()]
    assert reasons == [(), ("odd",), (), ("odd",), ()]
    assert found.scores[rows].tolist() == [0, 0, 2, 0, 4]


@pytest.mark.usefixtures("no_limits")
def test_results_of_pre_filter_come_back(plugin_module: str) -> None:
    asked = Conversation(plugin_module)
    assert asked.call("names").result == PreFilterResult(frozenset(("node-000001",)))
    assert asked.call("rejection").result == unresolvable("not at all")
    assert asked.call("late").result == unschedulable("later", requeue_after=3.0)
    assert asked.call("error").result.message == "broken"


@pytest.mark.usefixtures("no_limits")
def test_what_the_plugin_raises_comes_back_with_its_line(plugin_module: str) -> None:
    with pytest.raises(PluginError, match=r"handle.listers cannot be used .*test_worker.py:\d+ in"):
        Conversation(plugin_module).call("lister")


@pytest.mark.usefixtures("no_limits")
def test_a_class_that_is_not_there_is_an_error(plugin_module: str) -> None:
    assert "no attribute 'Other'" in Conversation(plugin_module, "Other").started.error


@pytest.mark.parametrize(
    ("response", "problem"),
    [
        (ResponseMessage(1, codes=bytes(4 * NODES - 1), scores=bytes(8 * NODES)), "multiple"),
        (
            ResponseMessage(1, codes=bytes(4 * NODES - 4), scores=bytes(8 * NODES)),
            "4 results for 5 nodes",
        ),
        (ResponseMessage(1, codes=bytes(4 * NODES)), "0 results for 5 nodes"),
        (
            ResponseMessage(
                1, codes=np.full(NODES, 3, np.int32).tobytes(), scores=bytes(8 * NODES)
            ),
            r"codes without a status: \[3\]",
        ),
    ],
)
def test_a_response_that_makes_no_sense_is_refused(response: ResponseMessage, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        evaluation(response, EngineWorld(NODES).cache.table)
