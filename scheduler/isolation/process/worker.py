"""Worker: the process of an isolated plugin, with its copy of the nodes and the plugin.

It does what it is asked over one socket, one request after the other, and ends with the socket or
with the scheduler. It opens no connection and reads no file, but for what the plugin does.
"""

from __future__ import annotations

import ctypes
import faulthandler
import importlib
import os
import random
import resource
import signal
import socket
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from scheduler.api.signatures.interner import PodSignatures
from scheduler.cache import Cache
from scheduler.framework import CycleState, NodeTableView, PreFilterResult, Status
from scheduler.framework.registry import args_type
from scheduler.isolation.evaluation import Evaluation, evaluate
from scheduler.isolation.process.messages import (
    HEADER_BYTES,
    CallMessage,
    ChangesMessage,
    RequestMessage,
    ResponseMessage,
    Start,
    StatusMessage,
    decode_request,
    frame,
)
from scheduler.sanitizing.exceptions import error_text, frames
from scheduler.service.forks import end_forked_copies
from scheduler.service.plugin_exceptions import OURS

TRACE_SIGNAL: Final = signal.SIGUSR1
"""Writes the stack to standard error, even while C code holds the GIL."""
MAX_REASONS: Final = 100
"""Reasons of one status; others are left out."""
_PR_SET_PDEATHSIG: Final = 1


def main(descriptor: int, parent: int) -> None:
    """Serve requests on the socket until it ends."""
    _end_with(parent)
    faulthandler.register(TRACE_SIGNAL, all_threads=False)
    connection = socket.socket(fileno=descriptor)
    connection.set_inheritable(False)
    worker = Worker()
    end_forked_copies(lambda: worker.plugins)
    with connection, connection.makefile("rb") as requests:
        while header := requests.read(HEADER_BYTES):
            body = requests.read(int.from_bytes(header, "big"))
            connection.sendall(frame(worker.respond(decode_request(body))))


def _end_with(parent: int) -> None:
    """Have the kernel end this process when the thread that started it ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        raise SystemExit("the scheduler has ended")
    # Where the whole machine is out of memory, the scheduler is the last to be ended.
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


class _Clock:
    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)


class _Handle:
    """The part of `framework.Handle` that a process of its own can provide."""

    def __init__(self, start: Start, table: NodeTableView) -> None:
        self.profile_name = start.profile_name
        self.feature_gates = start.feature_gates
        self.clock = _Clock()
        self.random = random.Random()
        self.table = table

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"handle.{name} cannot be used with isolation in mode Process")


class Worker:
    """The plugin, and its copy of the nodes. It has one thread."""

    def __init__(self) -> None:
        self.plugins: list[Any] = []
        #: The copy of the nodes.
        self.cache = Cache()
        self._signatures = PodSignatures()
        #: Rows of the scheduler's table by node.
        self._rows: dict[str, int] = {}
        #: Rows of the copy in the order of the scheduler's; None: not known.
        self._ordered: np.ndarray[Any, np.dtype[np.intp]] | None = None

    def respond(self, request: RequestMessage) -> ResponseMessage:
        """Do what is asked; whatever is raised becomes the response."""
        respond = partial(ResponseMessage, request.number)
        content = request.content
        try:
            if isinstance(content, CallMessage):
                return self._call(content, respond)
            if isinstance(content, ChangesMessage):
                self._apply(content)
            else:
                self._start(content)
        except BaseException as error:  # noqa: BLE001 - boundary: code of the plugin
            return respond(error=_shown(error))
        return respond()

    def _start(self, start: Start) -> None:
        _limit_memory(start.memory_limit)
        found: Any = importlib.import_module(start.module)
        for name in start.qualified_name.split("."):
            found = getattr(found, name)
        args = msgspec.msgpack.decode(start.args, type=args_type(found))
        self.plugins.append(found(args, _Handle(start, self.cache.table)))

    def _apply(self, changes: ChangesMessage) -> None:
        cache, signatures = self.cache, self._signatures
        for uid in changes.removed_pods:
            known = cache.get_pod(uid)
            if known is not None:
                cache.remove_pod(known)
                signatures.release(known)
        for name in changes.removed_nodes:
            cache.remove_node(name)
            del self._rows[name]
        for row, node in changes.nodes:
            cache.set_node(node)
            self._rows[node.name] = row
        if changes.nodes or changes.removed_nodes:
            self._ordered = None
        for pod in changes.pods:
            signatures.intern(pod)
            known = cache.get_pod(pod.uid)
            if known is None:
                cache.add_pod(pod)
            else:
                cache.update_pod(pod)
                signatures.release(known)

    def _call(self, call: CallMessage, respond: Any) -> ResponseMessage:
        self._signatures.intern(call.pod)
        try:
            table = self.cache.table
            found = evaluate(self.plugins[0], CycleState(call.now), call.pod, table)
            return self._response(found, respond)
        finally:
            self._signatures.release(call.pod)

    def _response(self, found: Evaluation, respond: Any) -> ResponseMessage:
        if self._ordered is None:
            ordered = sorted(self._rows, key=self._rows.__getitem__)
            row_of: Any = self.cache.table.row_of
            self._ordered = np.array([row_of(name) for name in ordered], np.intp)
        result = found.result
        return respond(  # type: ignore[no-any-return]
            result=tuple(result.node_names)
            if isinstance(result, PreFilterResult)
            else None
            if result is None
            else _verdict(result),
            codes=found.codes[self._ordered].tobytes(),
            scores=found.scores[self._ordered].tobytes(),
            statuses={code: _verdict(each) for code, each in found.statuses.items()},
        )


def _limit_memory(limit: int) -> None:
    """Limit the address space to what is used now and `limit` bytes more; write no core dumps."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    size = pages * resource.getpagesize() + limit
    resource.setrlimit(resource.RLIMIT_AS, (size, size))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _verdict(status: Status) -> StatusMessage:
    return StatusMessage(
        int(status.code),
        tuple(map(error_text, status.reasons[:MAX_REASONS])),
        "" if status.error is None else error_text(status.error),
        status.requeue_after,
        status.condition_reason,
        status.skip_post_filter,
    )


def _shown(error: BaseException) -> str:
    where = frames(error, OURS)
    text = ": ".join(filter(None, (type(error).__name__, error_text(error))))
    return f"{text} ({where[-1]})" if where else text
