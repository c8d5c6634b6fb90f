"""The copy of the node table that the process of a plugin has."""

from __future__ import annotations

import random
from typing import Any

import pytest

from benchmarks.engine_world import EngineWorld, node, node_name
from scheduler.api.meta import ObjectMeta
from scheduler.api.packed_labels import MAX_PLAIN_LABELS, PackedLabels
from scheduler.api.pod import Pod
from scheduler.api.signatures.interner import PACK_BYTES
from scheduler.api.signatures.packed_spec import PackedSpec
from scheduler.cache import Cache
from scheduler.isolation.process import table_copy
from scheduler.isolation.process.messages import (
    HEADER_BYTES,
    ChangesMessage,
    RequestMessage,
    decode_request,
    frame,
)
from scheduler.isolation.process.table_copy import TableCopy
from scheduler.isolation.process.worker import Worker


class Both:
    """A table, and a worker that keeps a copy of it."""

    def __init__(self, world: EngineWorld) -> None:
        self.cache = world.cache
        self.copy = TableCopy()
        self.worker = Worker()
        self.messages = 0

    def send(self, changes: ChangesMessage) -> None:
        """Send over the wire, and have it applied."""
        self.messages += 1
        request = decode_request(frame(RequestMessage(self.messages, changes))[HEADER_BYTES:])
        assert self.worker.respond(request).error == ""

    def update(self, messages: int = 1 << 30) -> bool:
        """Send at most some messages of additions; whether that was all."""
        removed = self.copy.removals(self.cache.table)
        if removed is not None:
            self.send(removed)
        for number, changes in enumerate(self.copy.additions(self.cache.table)):
            self.send(changes)
            if number + 1 >= messages:
                break
        return self.copy.complete


def content(cache: Cache) -> dict[str, Any]:
    """Return what a plugin reads of each node."""
    table = cache.table
    return {
        info.name: (
            info.node,
            {pod.uid: (pod.metadata, pod.signature.assigned) for pod in info.pods},
            info.requested,
            info.allocatable,
            info.used_ports,
        )
        for info in map(table.node_info, table.rows.tolist())
    }


@pytest.mark.parametrize("seed", range(20))
def test_after_any_changes_the_copy_is_equal(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where only a part was sent before further changes, and where the log is too short."""
    monkeypatch.setattr(table_copy, "BATCH_OBJECTS", 3)
    draw = random.Random(seed)
    world = EngineWorld(0)
    both, cache = Both(world), world.cache
    pods: dict[str, Pod] = {}
    for step in range(150):
        index = draw.randrange(8)
        kind = draw.choice(("node", "node", "drop", "place", "place", "place", "remove", "move"))
        if kind == "node":
            cache.set_node(node(index, cpu=draw.choice(("4", "8", "64"))))
        elif kind == "drop":
            cache.remove_node(node_name(index))
        elif kind == "place":
            spec = {"container": {"ports": [{"hostPort": 80 + step}]}} if step % 3 else None
            placed = world.place(world.pod(spec), index)
            pods[placed.uid] = placed
        elif pods:
            uid = draw.choice(sorted(pods))
            if kind == "remove":
                cache.remove_pod(pods.pop(uid))
            else:
                pods[uid] = world.place(pods[uid], index)
        if draw.random() < 0.3:
            both.update(messages=draw.choice((1, 2, 1 << 30)))
    both.update()
    assert content(both.worker.cache) == content(cache)
    both.worker.cache.validate()


def test_a_change_of_one_pod_is_one_message_of_one_pod() -> None:
    world = EngineWorld(300)
    both = Both(world)
    assert not both.update(messages=1)
    assert both.copy.node_count == table_copy.BATCH_OBJECTS
    assert both.update()
    assert both.copy.removals(world.cache.table) is None
    assert list(both.copy.additions(world.cache.table)) == []
    placed = world.place(world.pod(), 7)
    assert both.copy.removals(world.cache.table) is None
    (changes,) = both.copy.additions(world.cache.table)
    assert (changes.nodes, [each.uid for each in changes.pods]) == ([], [placed.uid])


def test_pods_that_are_kept_packed_arrive_whole() -> None:
    world = EngineWorld(1)
    both = Both(world)
    labels = {f"label-{number}": "x" for number in range(MAX_PLAIN_LABELS + 1)}
    selector = {f"key-{number}": "x" * 40 for number in range(PACK_BYTES // 40)}
    pod = world.pod({"nodeSelector": selector}, labels)
    assert isinstance(pod.spec, PackedSpec)
    kept: object = pod.metadata.labels
    assert isinstance(kept, PackedLabels)
    packed = type(pod)(metadata=pod.metadata, spec=pod.spec, interned=pod.interned)
    packed.spec.node_name = node_name(0)
    world.cache.add_pod(packed)
    both.update()
    (found,) = both.worker.cache.table.node_info(0).pods
    assert found.spec.node_selector == selector
    assert found.metadata.labels == labels


def test_what_cannot_be_sent_is_an_error() -> None:
    odd: Any = {"a": object()}
    with pytest.raises(NotImplementedError, match="objects of type object cannot be sent"):
        frame(RequestMessage(1, ChangesMessage(pods=[Pod(metadata=ObjectMeta(annotations=odd))])))
