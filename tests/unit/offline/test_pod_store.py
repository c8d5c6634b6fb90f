"""The pods of a node are found without a look at any other pod."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler import offline
from scheduler.api.meta import ObjectMeta
from scheduler.api.pod import Pod, PodSpec
from scheduler.offline.pod_store import PodStore

NODES = ("", "a", "b")


@given(
    st.lists(
        st.tuples(st.sampled_from(["p", "q", "r", "s"]), st.sampled_from([*NODES, None])),
        max_size=30,
    )
)
def test_the_pods_of_each_node_are_those_of_the_list_in_its_order(
    changes: list[tuple[str, str | None]],
) -> None:
    store = PodStore()
    for name, node in changes:
        key = f"default/{name}"
        if node is None:
            store.remove(key)
        else:
            metadata = ObjectMeta(name=name, namespace="default")
            store.put(key, Pod(metadata=metadata, spec=PodSpec(node_name=node)))
        for each in NODES:
            assert store.on_node(each) == [
                pod for pod in store.list() if pod.spec.node_name == each
            ]


def test_the_steps_of_a_consolidation_do_not_go_through_all_pods(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read = 0
    every = PodStore.list

    def counted(store: PodStore, namespace: str | None = None) -> Iterable[Pod]:
        nonlocal read
        read += 1
        return every(store, namespace)

    monkeypatch.setattr(PodStore, "list", counted)
    counts = []
    for nodes in (4, 12):
        read = 0
        with offline.World() as world:
            world.add_nodes(offline.node("n", cpu=4), count=nodes)
            for number in range(nodes):
                world.add_pods(offline.pod(f"web-{number}", cpu=1, node=f"n-{number}"))
            assert len(offline.consolidate(world, force=True).emptied) == nodes * 3 // 4
        counts.append(read)
    assert counts[0] == counts[1]
