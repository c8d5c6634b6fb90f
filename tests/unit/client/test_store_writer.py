"""The store of a resource changes when a batch is handled, also when that is later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from scheduler.api.meta import ObjectMeta
from scheduler.api.node import Node
from scheduler.client.deltas import Delta, DeltaType
from scheduler.client.metrics import NullMetrics
from scheduler.client.resources import NODES
from scheduler.client.store_writer import StoreWriter

NAMES = ("a", "b", "c")
#: What a server does, and what the process that follows it does.
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from(NAMES), st.sampled_from("12"), st.booleans()),
        st.tuples(st.just("delete"), st.sampled_from(NAMES)),
        st.tuples(st.sampled_from(("deliver", "handle one", "suspend", "resume"))),
    ),
    max_size=30,
)


class Follower:
    """A writer whose batches wait while a cycle is suspended, as in the inbox."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], object]] = []
        self.suspended = False
        self.handled: dict[str, Node] = {}
        self.writer = StoreWriter(NODES, self._handle, NullMetrics(), None, None, self._submit)

    def _submit(self, change: Callable[..., object], *arguments: Any) -> None:
        self.waiting.append(lambda: change(*arguments))
        if not self.suspended:
            self.resume()

    def resume(self) -> None:
        self.suspended = False
        while self.waiting:
            self.waiting.pop(0)()

    def _handle(self, batch: Sequence[Delta[Node]]) -> None:
        for delta in batch:
            name = delta.object.metadata.name
            assert self.handled.get(name) is delta.old
            if delta.type is DeltaType.DELETED:
                del self.handled[name]
            else:
                self.handled[name] = delta.object
        assert self.handled == self.writer.store.by_keys()


@given(STEPS)
def test_listers_show_what_was_handled_and_the_writer_knows_the_rest(
    steps: list[tuple[Any, ...]],
) -> None:
    follower = Follower()
    writer = follower.writer
    truth: dict[str, Node] = {}
    for number, (step, *arguments) in enumerate(steps):
        match step, arguments:
            case "put", (name, uid, same):
                old = truth.get(name)
                keep = same and old is not None and old.metadata.uid == uid
                made = (
                    old
                    if keep and old is not None
                    else Node(ObjectMeta(name=name, uid=uid, resource_version=str(number)))
                )
                truth[name] = made
                writer.upsert(name, made, bytes)
            case "delete", (name,):
                truth.pop(name, None)
                writer.delete(name)
            case "deliver", _:
                writer.deliver()
            case "handle one", _ if follower.waiting:
                follower.waiting.pop(0)()
            case "suspend", _:
                follower.suspended = True
            case "resume", _:
                follower.resume()
        assert set(writer.known_keys()) == set(truth)
        assert len(writer.known_keys()) == len(truth)
    writer.deliver()
    follower.resume()
    assert follower.handled == writer.store.by_keys() == truth


def test_what_waits_is_neither_shown_nor_counted() -> None:
    follower = Follower()
    follower.suspended = True
    node = Node(ObjectMeta(name="a", uid="1", resource_version="1"))
    follower.writer.upsert("a", node, bytes)
    follower.writer.deliver()
    assert follower.writer.store.by_key("a") is None
    assert follower.writer.events == 0
    follower.writer.delete("a", node)
    follower.writer.deliver()
    follower.resume()
    assert follower.writer.store.by_key("a") is None
    assert follower.writer.events == 2
