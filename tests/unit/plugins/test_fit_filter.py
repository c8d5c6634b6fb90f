"""NodeResourcesFit as a filter: upstream's `fit.go`.

The node has 10m CPU, 20 bytes of memory, 20 of ephemeral storage, 5 example.com/aaa, 5
hugepages-2Mi and room for 32 pods, unless a test states otherwise.
"""

from __future__ import annotations

from typing import Any

import pytest

from plugins import NodeResourcesFit
from plugins.node_resources.arguments import NodeResourcesFitArgs
from scheduler.api import Pod
from scheduler.cache import NodeTable
from scheduler.framework import Code, CycleState
from tests.unit.api.objects import container
from tests.unit.plugins.clusters import Cluster, node, pod, statuses

AAA, BBB, NATIVE, HUGE = (
    "example.com/aaa",
    "example.com/bbb",
    "kubernetes.io/something",
    "hugepages-2Mi",
)
SIZE = {
    "cpu": "10m", "memory": "20", "ephemeral-storage": "20", AAA: "5", HUGE: "5", "pods": "32",
}  # fmt: skip

Amounts = dict[str, Any]


def amounts(cpu: int = 0, memory: int = 0, **others: int) -> Amounts:
    """Requests of CPU in millicores and memory in bytes; other names as they are."""
    stated: Amounts = {}
    if cpu:
        stated["cpu"] = f"{cpu}m"
    if memory:
        stated["memory"] = memory
    return {**stated, **others}


def requesting(
    *containers: Amounts,
    init: tuple[Amounts, ...] = (),
    sidecars: tuple[Amounts, ...] = (),
    **spec: Any,
) -> Pod:
    return pod(
        {
            "containers": [container(f"c{i}", requests=each) for i, each in enumerate(containers)],
            "initContainers": [
                *(container(f"i{i}", requests=each) for i, each in enumerate(init)),
                *(
                    container(f"s{i}", requests=each, restartPolicy="Always")
                    for i, each in enumerate(sidecars)
                ),
            ],
            **spec,
        }
    )


def outcome(
    wanted: Pod,
    used: Amounts | None = None,
    args: NodeResourcesFitArgs | None = None,
    allocatable: Amounts | None = None,
) -> tuple[str, list[str]]:
    """("OK" | "U" | "UU", names that are short) for a node with one pod that uses `used`."""
    placed = [] if used is None else [requesting(used)]
    # More rows than the one tested, so that the vectorised path is taken too.
    nodes = [node("n", allocatable=allocatable or SIZE), *(node(f"x{i}") for i in range(5))]
    cluster = Cluster(nodes, {"n": placed})
    plugin = NodeResourcesFit(args, cluster.handle())
    status = statuses(plugin, cluster, wanted)["n"]
    alone = plugin.filter_rows(CycleState(), wanted, cluster.table, cluster.table.rows[:1])
    assert status == (
        plugin.filter_status(CycleState(), wanted, int(alone[0])) if alone[0] else None
    )
    if status is None:
        return "OK", []
    code = {Code.UNSCHEDULABLE: "U", Code.UNSCHEDULABLE_AND_UNRESOLVABLE: "UU"}[status.code]
    return code, [reason.removeprefix("Insufficient ") for reason in status.reasons]


OK: tuple[str, list[str]] = ("OK", [])


@pytest.mark.parametrize(
    ("wanted", "used", "expected"),
    [
        pytest.param(requesting({}), amounts(10, 20), OK, id="nothing wanted, node full"),
        pytest.param(
            requesting(amounts(1, 1)), amounts(10, 20), ("U", ["cpu", "memory"]), id="full"
        ),
        pytest.param(
            requesting(amounts(1, 1), init=(amounts(3, 1),)),
            amounts(8, 19),
            ("U", ["cpu"]),
            id="init",
        ),
        pytest.param(
            requesting(amounts(1, 1), init=(amounts(3, 1), amounts(2, 1))),
            amounts(8, 19),
            ("U", ["cpu"]),
            id="largest init",
        ),
        pytest.param(
            requesting(amounts(1, 1), init=(amounts(1, 3),)),
            amounts(9, 19),
            ("U", ["memory"]),
            id="mem",
        ),
        pytest.param(
            requesting(amounts(1, 1), init=(amounts(1, 1),) * 3),
            amounts(9, 19),
            OK,
            id="init is a max",
        ),
        pytest.param(requesting(amounts(1, 1)), amounts(5, 5), OK, id="fits"),
        pytest.param(requesting(amounts(2, 1)), amounts(9, 5), ("U", ["cpu"]), id="cpu only"),
        pytest.param(
            requesting(amounts(1, 2)), amounts(5, 19), ("U", ["memory"]), id="memory only"
        ),
        pytest.param(requesting(amounts(5, 1)), amounts(5, 19), OK, id="exactly full"),
        pytest.param(requesting(amounts(11)), None, ("UU", ["cpu"]), id="larger than the node"),
        pytest.param(
            requesting(amounts(10)), amounts(1), ("U", ["cpu"]), id="as large as the node"
        ),
        pytest.param(requesting({AAA: 1}), {}, OK, id="extended"),
        pytest.param(requesting({AAA: 10}), {}, ("UU", [AAA]), id="extended over capacity"),
        pytest.param(requesting({AAA: 1}), {AAA: 5}, ("U", [AAA]), id="extended used up"),
        pytest.param(
            requesting({AAA: 3}, {AAA: 3}), {AAA: 2}, ("UU", [AAA]), id="containers add up"
        ),
        pytest.param(requesting({}, init=({AAA: 3}, {AAA: 3})), {AAA: 2}, OK, id="inits do not"),
        pytest.param(
            requesting({}, init=({AAA: 6}, {AAA: 3})), {AAA: 2}, ("UU", [AAA]), id="big init"
        ),
        pytest.param(requesting({BBB: 1}), {}, ("UU", [BBB]), id="unknown extended resource"),
        pytest.param(requesting({NATIVE: 10}), {}, ("UU", [NATIVE]), id="unknown native resource"),
        pytest.param(requesting({HUGE: 10}), {}, ("UU", [HUGE]), id="huge pages over capacity"),
        pytest.param(
            requesting({HUGE: 3}, {HUGE: 3}), {HUGE: 2}, ("UU", [HUGE]), id="huge pages add up"
        ),
        pytest.param(requesting({AAA: 0}), {AAA: 6}, OK, id="zero passes an over-committed node"),
        pytest.param(
            requesting({AAA: 1}), amounts(50, 50), OK, id="cpu over-committed, not wanted"
        ),
        pytest.param(
            requesting(amounts(1, 1), overhead=amounts(3, 13)),
            amounts(5, 5),
            OK,
            id="overhead fits",
        ),
        pytest.param(
            requesting(amounts(1, 1), overhead=amounts(1, 15)),
            amounts(5, 5),
            ("U", ["memory"]),
            id="overhead does not",
        ),
        pytest.param(
            requesting(amounts(1), resources={"requests": amounts(7)}),
            amounts(5),
            ("U", ["cpu"]),
            id="pod-level cpu",
        ),
        pytest.param(
            requesting({}, resources={"requests": {HUGE: 10}}),
            {},
            ("UU", [HUGE]),
            id="pod-level pages",
        ),
        pytest.param(
            requesting({HUGE: 10}, resources={"requests": {HUGE: 5}}),
            {},
            OK,
            id="pod level takes the place of containers",
        ),
        pytest.param(
            requesting({"ephemeral-storage": 25}), {}, ("UU", ["ephemeral-storage"]), id="ephemeral"
        ),
        pytest.param(
            requesting({"ephemeral-storage": 5}), {"ephemeral-storage": 10}, OK, id="ephemeral fits"
        ),
        pytest.param(requesting(amounts(1), sidecars=(amounts(1),)), None, OK, id="sidecar fits"),
        pytest.param(
            requesting(amounts(6), sidecars=(amounts(5),)),
            None,
            ("UU", ["cpu"]),
            id="sidecar adds up",
        ),
        pytest.param(
            requesting({"cpu": "11m", "memory": 10, BBB: 1, AAA: 1}),
            {"memory": 15, AAA: 5},
            ("UU", ["cpu", "memory", AAA, BBB]),
            id="one unresolvable shortage decides; scalars in order of names",
        ),
    ],
)
def test_filter(wanted: Pod, used: Amounts | None, expected: tuple[str, list[str]]) -> None:
    assert outcome(wanted, used) == expected


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        pytest.param(requesting({}), ("U", ["Too many pods"]), id="even without requests"),
        pytest.param(
            requesting(amounts(10)), ("U", ["Too many pods", "cpu"]), id="with other shortages"
        ),
        pytest.param(
            requesting(amounts(11)),
            ("UU", ["Too many pods", "cpu"]),
            id="not unresolvable by itself",
        ),
    ],
)
def test_number_of_pods(wanted: Pod, expected: tuple[str, list[str]]) -> None:
    assert outcome(wanted, amounts(1), allocatable={**SIZE, "pods": 1}) == expected


@pytest.mark.parametrize(
    ("args", "wanted", "expected"),
    [
        pytest.param(NodeResourcesFitArgs(ignored_resources=(BBB,)), {BBB: 2}, OK, id="by name"),
        pytest.param(
            NodeResourcesFitArgs(ignored_resource_groups=("example.com",)),
            {BBB: 2, NATIVE: 1},
            ("UU", [NATIVE]),
            id="by group; native names are never ignored",
        ),
        pytest.param(
            NodeResourcesFitArgs(ignored_resources=(HUGE,)), {HUGE: 6}, ("UU", [HUGE]), id="pages"
        ),
    ],
)
def test_ignored_resources(
    args: NodeResourcesFitArgs, wanted: Amounts, expected: tuple[str, list[str]]
) -> None:
    assert outcome(requesting(wanted), {}, args) == expected


def test_more_resources_than_a_mask_has_bits() -> None:
    names = [f"example.com/r{index:02}" for index in range(40)]
    short = names[::7]
    allocatable = {**SIZE, **dict.fromkeys(names, 2), **dict.fromkeys(short, 0)}

    assert outcome(requesting(dict.fromkeys(names, 1)), None, None, allocatable) == (
        "UU",
        [*short[:4], "other resources"],
    )


def test_as_many_resources_as_are_named_one_by_one() -> None:
    names = [f"example.com/r{index:02}" for index in range(24)]

    assert outcome(requesting(dict.fromkeys(names, 1))) == ("UU", names)


def test_resources_beyond_those_named_one_by_one_are_used_up() -> None:
    names = [f"example.com/r{index:02}" for index in range(30)]
    allocatable = {**SIZE, **dict.fromkeys(names, 2)}
    wanted = requesting(dict.fromkeys(names, 1))

    assert outcome(wanted, {names[29]: 2}, None, allocatable) == ("U", ["other resources"])
    assert outcome(wanted, {names[29]: 1}, None, allocatable) == OK


class Offers:
    """Counts the questions whether any node has a resource, and those about rows."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self.lookups = 0
        self.compared = 0

    def offers_scalar(self, name: str) -> bool:
        self.lookups += 1
        return self._table.offers_scalar(name)

    def scalar_amounts(self, name: str, index: Any) -> Any:
        self.compared += 1
        return self._table.scalar_amounts(name, index)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)


def test_names_that_no_node_has_are_decided_once_for_all_rows_and_attempts() -> None:
    cluster = Cluster(node(f"n{i}", allocatable=SIZE) for i in range(20))
    handle: Any = cluster.handle()
    table: Any = Offers(cluster.table)
    handle.table = table
    plugin = NodeResourcesFit(None, handle)
    names = [f"example.com/r{index:04}" for index in range(2000)]
    wanted = cluster.intern(requesting({**dict.fromkeys(names, 1), AAA: 1}))

    for _ in range(3):
        codes = plugin.filter_rows(CycleState(), wanted, table, cluster.table.rows)
        for row in cluster.table.rows.tolist():
            plugin.filter(CycleState(), wanted, cluster.table.node_info(row))

    assert table.lookups == 2001
    assert table.compared == 3  # The one that nodes have, once for all rows of each attempt.
    assert len(set(codes.tolist())) == 1
    assert codes[0] < 1 << 30, "codes from there on are the engine's own"
    status = plugin.filter_status(CycleState(), wanted, int(codes[0]))
    assert len(status.reasons) == 24
    assert status.reasons[-1] == "Insufficient other resources"


def test_a_new_node_with_a_missing_resource_changes_the_result() -> None:
    names = [f"example.com/r{index:02}" for index in range(40)]
    cluster = Cluster([node("small", allocatable=SIZE)])
    plugin = NodeResourcesFit(None, cluster.handle())
    wanted = cluster.intern(requesting(dict.fromkeys(names, 1)))
    assert statuses(plugin, cluster, wanted)["small"] is not None

    cluster.cache.set_node(node("large", allocatable={**SIZE, **dict.fromkeys(names, 1)}))

    found = statuses(plugin, cluster, wanted)
    assert found["large"] is None
    assert found["small"] is not None


def test_pre_filter_never_skips() -> None:
    cluster = Cluster()

    plugin = NodeResourcesFit(None, cluster.handle())

    assert plugin.pre_filter(CycleState(), pod(), cluster.table) is None
