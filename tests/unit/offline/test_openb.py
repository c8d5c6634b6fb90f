"""Traces in the openb format: what is read, what is refused, and what pods and nodes they make."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from scheduler import offline
from scheduler.offline import openb

NODES = "sn,cpu_milli,memory_mib,gpu,model\nn-0,8000,32768,2,T4\nn-1,4000,16384,1,P100\n"
PODS = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
p-0,1000,1024,1,500,,LS,Running,100,400,150
p-1,2000,1024,1,1000,T4|V100,BE,Pending,40,90,
p-2,500,512,0,0,,BE,Running,200,,200
"""
SHORT = PODS.partition("\n")[0].split(",qos")[0].rpartition(",")[0]


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    def write(content: str) -> Path:
        path = tmp_path / "list.csv"
        path.write_text(content)
        return path

    return write


def faults(read: Callable[[Path], object], path: Path) -> list[str]:
    with pytest.raises(offline.WorldError) as caught:
        read(path)
    return [each.removeprefix(f"{path}:") for each in str(caught.value).splitlines()]


def test_rows_become_records(write: Callable[[str], Path]) -> None:
    assert openb.read_nodes(write(NODES)) == [
        openb.TraceNode("n-0", 8000, 32768, 2, "T4"),
        openb.TraceNode("n-1", 4000, 16384, 1, "P100"),
    ]
    share, whole, none = openb.read_pods(write(PODS))
    assert (share.gpus, share.gpu_milli, share.creation_time, share.scheduled_time) == (
        1,
        500,
        100.0,
        150.0,
    )
    assert (whole.models, whole.scheduled_time) == (("T4", "V100"), None)
    assert (none.gpus, none.deletion_time) == (0, None)


def test_a_pod_list_may_have_five_columns_only(write: Callable[[str], Path]) -> None:
    (pod,) = openb.read_pods(write(f"{SHORT}\np-0,1000,1024,8,1000\n"))
    assert (pod.gpu_spec, pod.creation_time, pod.demand) == (
        "",
        None,
        (1000, 1024, 8, 1000, ""),
    )
    assert openb.is_pod_list(write(PODS))
    assert not openb.is_pod_list(write(NODES))


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ("p-0,1,1,1", "4 columns, but the header has 5"),
        ("P_0,1,1,0,0", "name is 'P_0'; a name has lower case"),
        ("p-0,-1,1,0,0", "cpu_milli is '-1'; give a whole number from 0"),
        ("p-0,500m,1,0,0", "cpu_milli is '500m'; give a whole number from 0, without unit"),
        ("p-0,1,16Gi,0,0", "memory_mib is '16Gi'; give a whole number"),
        ("p-0,1,1,0.5,0", "num_gpu is '0.5'; give a whole number from 0 to 1000"),
        ("p-0,1,1,1,1001", "gpu_milli is '1001'; give a whole number from 0 to 1000"),
        ("p-0,1,1,2,500", "gpu_milli is 500; several devices are whole ones"),
        ("p-0,1,1,1,0", "gpu_milli is 0, but num_gpu is 1"),
        ("p-0,1,1,0,500", "gpu_milli is 500, but num_gpu is 0"),
        ("p-0,,1,0,0", "cpu_milli is ''; give a whole number"),
        ("p-0,NaN,1,0,0", "cpu_milli is 'NaN'; give a whole number"),
        ("p-0," + "9" * 5000 + ",1,0,0", "cpu_milli is '999"),
    ],
)
def test_a_fault_of_a_row_is_named_with_line_and_column(
    row: str, fault: str, write: Callable[[str], Path]
) -> None:
    (found,) = faults(openb.read_pods, write(f"{SHORT}\na,1,1,0,0\n{row}\n"))
    assert found.startswith(f"3: {fault}")


def test_times_and_models_are_checked(write: Callable[[str], Path]) -> None:
    header = PODS.partition("\n")[0]
    rows = [
        "p-0,1,1,0,0,,LS,Running,-5,10,7",
        "p-1,1,1,0,0,,LS,Running,50,10,60",
        "p-2,1,1,1,500,T4|<b>,LS,Running,1,2,1",
        "p-3,1,1,0,0,,LS,Running,1 fortnight,2,1",
        "p-4,1,1,0,9,,LS,Running,5,2,5",
    ]
    assert faults(openb.read_pods, write("\n".join([header, *rows]))) == [
        "2: creation_time is '-5'; give a number from 0, of seconds or with a unit: ms, s, m, h, d",
        "3: deletion_time is 10, before creation_time, 50",
        "3: deletion_time is 10, before scheduled_time, 60",
        "4: gpu_spec is 'T4|<b>'; give GPU models joined by |",
        "5: creation_time is '1 fortnight'; unit 'fortnight' is unknown; known are ms, s, m, h, d",
        "6: gpu_milli is 9, but num_gpu is 0; give 0 for both, or for neither",
        "6: deletion_time is 2, before creation_time, 5",
        "6: deletion_time is 2, before scheduled_time, 5",
    ]


def test_missing_columns_duplicates_and_order_are_listed_together(
    write: Callable[[str], Path],
) -> None:
    content = "name,cpu_milli,num_gpu,gpu_milli,cpu_milli\nb,1,0,0,1\na,1,0,0,1\nb,x,0,0,x\n"
    assert [each[:60] for each in faults(openb.read_pods, write(content))] == [
        f"1: column memory_mib is missing; give {','.join(openb.POD_COLUMNS)}"[:60],
        "1: column cpu_milli is there 2 times",
        "3: name 'a' comes after 'b'; sort the rows by name",
        "4: name 'b' is that of line 2 as well",
        "4: cpu_milli is 'x'; give a whole number from 0, without unit"[:60],
    ]


@pytest.mark.parametrize(
    ("content", "fault"), [("", "1: the file is empty"), ('a"b\n"', "2: not CSV from here on")]
)
def test_a_file_that_is_no_table_is_refused(
    content: str, fault: str, write: Callable[[str], Path]
) -> None:
    assert faults(openb.read_pods, write(content))[0].startswith(fault)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "list.csv"
    path.write_bytes(b"name\xff\n")
    with pytest.raises(offline.WorldError, match="byte 4 is not UTF-8"):
        openb.read_pods(path)
    with pytest.raises(offline.WorldError, match="No such file"):
        openb.read_pods(tmp_path / "none.csv")


def test_orders_are_read_by_seed(tmp_path: Path) -> None:
    path = tmp_path / "orders.csv.gz"
    path.write_bytes(
        gzip.compress(
            b"seed,kind,values\n42,arrivals,2 0 1 0\n42,nodes,1 0\n7,nodes,0 1\n7,arrivals,\n"
        )
    )
    assert openb.read_orders(path, pods=3, nodes=2) == {
        7: openb.Order((), (0, 1)),
        42: openb.Order((2, 0, 1, 0), (1, 0)),
    }


def test_orders_that_do_not_suit_their_lists_are_refused(write: Callable[[str], Path]) -> None:
    content = (
        "seed,kind,values\n1,arrivals,0 9\n1,nodes,0 0\n1,nodes,0 1\n2,arrivals,0 ²\n3,other,\n"
    )
    assert faults(lambda path: openb.read_orders(path, pods=3, nodes=2), write(content)) == [
        "2: values: give whole numbers from 0 to 2, separated by spaces",
        "3: values: give each rank from 0 to 1 once, for 2 nodes",
        "4: seed 1 has nodes in line 3 as well",
        "5: values: give whole numbers from 0 to 2, separated by spaces",
        "6: kind is 'other'; give arrivals or nodes",
        "5: seed 2 has arrivals, but no nodes",
    ]


def test_a_world_schedules_a_trace_at_its_times(write: Callable[[str], Path]) -> None:
    nodes, pods = openb.read_nodes(write(NODES)), openb.read_pods(write(PODS))
    with offline.World() as world:
        world.add_all([openb.node(each) for each in nodes])
        result = world.run(workload=openb.as_recorded(pods))
    assert [(each.pod, each.time) for each in result.placed] == [
        ("default/p-1", 0.0),
        ("default/p-0", 60.0),
        ("default/p-2", 160.0),
    ]
    assert result.placed[0].node == "n-0"  # the T4 that it demands
    assert result.finished == 2


def test_a_trace_without_times_cannot_be_played_at_its_times() -> None:
    with pytest.raises(offline.WorldError, match="1 pods have no creation_time, such as p"):
        openb.as_recorded([openb.TracePod("p", 1, 1, 0, 0)])


def test_arrivals_of_one_shape_share_a_manifest_that_the_caller_may_make() -> None:
    pods = [openb.TracePod(name, 1000, 1, 1, 500) for name in "abc"]
    order = openb.Order((2, 0, 2), ())
    found = openb.in_order(pods, order, interval=2.0, make=lambda row: offline.pod(row.name, cpu=3))
    assert [(each.time, each.name) for each in found] == [(0.0, "c"), (2.0, "a"), (4.0, "c")]
    assert len({id(each.pod) for each in found}) == 1
    assert found[0].pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] == 3


def test_an_order_is_drawn_until_the_ratio_is_reached() -> None:
    nodes = [openb.TraceNode(f"n{each}", 1, 1, 8, "T4") for each in range(10)]
    pods = [openb.TracePod(f"p{each}", 1, 1, each % 2, 500 * (each % 2)) for each in range(80)]
    order = openb.draw(nodes, pods, seed=3)
    assert order == openb.draw(nodes, pods, seed=3) != openb.draw(nodes, pods, seed=4)
    assert sorted(order.arrivals[:80]) == list(range(80))
    assert sorted(order.ranks) == list(range(10))
    milli = sum(pods[each].gpu_milli for each in order.arrivals)
    assert 1.3 * 80_000 - 500 < milli <= 1.3 * 80_000

    fewer = openb.draw(nodes[:1], pods, seed=3)
    assert sum(pods[each].gpu_milli for each in fewer.arrivals) <= 1.3 * 8000
    with pytest.raises(ValueError, match="needs nodes with GPUs"):
        openb.draw([], pods, seed=0)
