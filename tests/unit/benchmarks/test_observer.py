"""The observer reads what it needs from raw watch lines."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from benchmarks.observer import Observer


def line(kind: str, name: str, node: str = "", *, tried: bool = False) -> bytes:
    """A watch event as the API server writes it."""
    pod: dict[str, Any] = {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": name, "namespace": "space", "resourceVersion": "7"},
        "spec": {"nodeName": node} if node else {},
        "status": {"conditions": [{"type": "PodScheduled", "status": "False"}] if tried else []},
    }
    return json.dumps({"type": kind, "object": pod}, separators=(",", ":")).encode()


async def test_a_wait_for_bindings_ends_with_the_last_one() -> None:
    observer = Observer()
    waiting = asyncio.create_task(observer.wait(["space/a", "space/b"], "Scheduled"))
    await asyncio.sleep(0)

    observer.see(line("MODIFIED", "a", "n1"), 1.0)
    observer.see(line("MODIFIED", "b", tried=True), 2.0)
    await asyncio.sleep(0)
    assert not waiting.done()
    observer.see(line("MODIFIED", "b", "n2"), 3.0)
    await waiting

    assert observer.bound == {"space/a": 1.0, "space/b": 3.0}
    assert observer.nodes == {"space/a": "n1", "space/b": "n2"}


async def test_a_wait_for_attempts_takes_a_condition_or_a_node() -> None:
    observer = Observer()
    observer.see(line("MODIFIED", "a", tried=True), 1.0)
    waiting = asyncio.create_task(observer.wait(["space/a", "space/b"], "Attempted"))
    await asyncio.sleep(0)
    assert not waiting.done()

    observer.see(line("MODIFIED", "b", "n1"), 2.0)
    await waiting


async def test_a_pod_that_is_deleted_while_waited_for_is_an_error() -> None:
    observer = Observer()
    waiting = asyncio.create_task(observer.wait(["space/a"], "Scheduled"))
    await asyncio.sleep(0)

    observer.see(line("DELETED", "a"), 1.0)

    with pytest.raises(RuntimeError, match="space/a was deleted"):
        await waiting


async def test_a_pod_on_two_nodes_is_noticed() -> None:
    observer = Observer()
    observer.see(line("MODIFIED", "a", "n1"), 1.0)
    observer.see(line("MODIFIED", "a", "n1"), 2.0)
    assert not observer.bound_twice

    observer.see(line("MODIFIED", "a", "n2"), 3.0)

    assert observer.bound_twice == {"space/a"}
