"""A finished run has the state of every moment, and answers as a scheduler would have."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import msgspec
import pytest

from scheduler.cli.exit_codes import BAD_INPUT, CommandError
from scheduler.cli.page.questions import QuestionError
from scheduler.cli.page.recorded import RecordedSource
from scheduler.cli.page.run_file import RunError, load_run
from scheduler.explain.records import NodeList, NodePage
from scheduler.history.run import frame_at
from tests.unit.history.runs import BEGIN, END, example_run

Json = dict[str, Any]


def ask(page: str, at: float | None, **query: str) -> Json:
    body = RecordedSource(example_run(), "run.json").ask(f"/debug/{page}", query, at)
    answer: Json = msgspec.json.decode(body)
    return answer


@pytest.mark.parametrize(
    ("moment", "waiting", "on_n1", "nodes"),
    [
        (0.0, [], ["old"], 2),
        (1_009.9, [], ["old"], 2),
        (1_010.0, ["web"], ["old"], 2),
        (1_040.0, ["web"], [], 2),
        (1_050.0, [], ["web"], 2),
        (2_000.0, [], ["web"], 1),
    ],
)
def test_pods_wait_run_and_end_and_nodes_leave_at_their_times(
    moment: float, waiting: list[str], on_n1: list[str], nodes: int
) -> None:
    frame = frame_at(example_run(), moment)
    assert [pod.name for pod in frame.waiting] == waiting
    assert [pod.name for pod in frame.placed["n1"]] == on_n1
    assert len(frame.nodes) == nodes


def test_a_pod_that_came_again_does_not_inherit_the_node_of_the_former_one() -> None:
    run = example_run()
    run.pods[1] = msgspec.structs.replace(run.pods[1], created=1_060.0)
    assert [pod.name for pod in frame_at(run, 1_070.0).waiting] == ["web"]


def test_a_finished_run_tells_nothing_about_groups() -> None:
    with pytest.raises(QuestionError, match="a finished run does not tell this"):
        ask("gangs", 1_020.0)


def test_the_queue_tells_place_attempts_and_reason() -> None:
    (pod,) = ask("queue", 1_020.0)["pods"]
    assert (pod["place"], pod["attempts"]) == ("unschedulable", 1)
    assert pod["message"] == "0/2 nodes are available: 2 Insufficient cpu."
    assert pod["unschedulable_plugins"] == ["NodeResourcesFit"]
    assert ask("queue", 1_020.0, namespace="other")["pods"] == []
    assert ask("queue", 1_020.0)["statistics"]["unschedulable"] == 1


def test_waiting_pods_are_counted_as_a_scheduler_counts_them() -> None:
    page = ask("waiting", 1_020.0, limit="10")
    assert page["headline"] == "1 pod waits: it lacks CPU"
    (group,) = page["groups"]
    assert (group["pods"], group["pod"], group["owner"]) == (1, "web", "")
    assert group["text"].startswith("None of 2 nodes fits: 2 lack CPU")
    assert [each["pod"]["name"] for each in page["pods"]] == ["web"]
    assert ask("waiting", 1_020.0, cause="are gated")["selected"] == 0


def test_nodes_and_their_pods_have_the_shape_of_the_schedulers_pages() -> None:
    source = RecordedSource(example_run(), "run.json")
    nodes = msgspec.json.decode(source.ask("/debug/nodes", {"limit": "1"}, 1_060.0), type=NodeList)
    assert (nodes.total, nodes.next, nodes.resources) == (2, 1, ["cpu", "pods"])
    assert (nodes.nodes[0].requested, nodes.nodes[0].allocatable) == ([2, 1], [4, 10])
    node = msgspec.json.decode(source.ask("/debug/node", {"name": "n1"}, 1_060.0), type=NodePage)
    assert (node.pods_total, node.pods[0].name, node.pods[0].requests) == (1, "web", {"cpu": 2})


def test_decisions_are_those_until_the_moment_newest_first() -> None:
    assert [each["seq"] for each in ask("decisions", None)["decisions"]] == [2, 1]
    assert [each["seq"] for each in ask("decisions", 1_020.0)["decisions"]] == [1]
    assert [each["seq"] for each in ask("decisions", None, since="1")["decisions"]] == [2]
    assert ask("decisions", None, pod="default/none")["decisions"] == []


def test_the_summary_counts_and_measures() -> None:
    page = ask("summary", END)
    assert (page["nodes"], page["pods"]) == (1, 1)
    assert page["attempts"] == {"scheduled": 1, "unschedulable": 1, "error": 0}
    assert page["rates"] == {"seconds": 60.0, "attempts": {"scheduled": 1 / 60}}
    assert page["fill"] == [0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0]
    assert [each["pod"] for each in page["placed"]] == ["default/web"]


def test_a_pods_state_is_told_and_one_that_is_not_there_named() -> None:
    assert ask("explain", 1_020.0, pod="default/web")["pod"]["state"] == "queued"
    assert ask("explain", END, pod="default/web")["pod"]["node"] == "n1"
    with pytest.raises(QuestionError, match="no pod default/web at this time"):
        ask("explain", BEGIN, pod="default/web")
    with pytest.raises(QuestionError, match="no node n9 at this time"):
        ask("node", BEGIN, name="n9")


def test_a_run_is_read_from_plain_and_compressed_files(tmp_path: Path) -> None:
    content = msgspec.json.encode(example_run())
    (tmp_path / "run.json").write_bytes(content)
    (tmp_path / "run.json.gz").write_bytes(gzip.compress(content))
    for name in ("run.json", "run.json.gz"):
        assert load_run(str(tmp_path / name)) == example_run()
    source = RecordedSource.load(str(tmp_path / "run.json"))
    found = source.describe()
    assert (found.kind, found.title, found.begin, found.end) == ("recorded", "run.json", BEGIN, END)


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("run.json", b"{", "is no run"),
        ("run.json", b'{"kind":"Pod"}', "is no run"),
        ("run.json", b'{"kind":"Run","x":' + b"[" * 100_000, "is no run"),
        ("run.json.gz", b"no gzip", "cannot read"),
        ("run.json.gz", gzip.compress(b"{}" * 99, mtime=0)[:-9], "cannot read"),
        ("gone.json", None, "cannot read"),
        (
            "run.json",
            b'{"kind":"Run","begin":2,"end":1,"nodes":[],"pods":[],"decisions":[]}',
            "the run ends at 1.0, before it begins at 2.0",
        ),
    ],
)
def test_a_file_that_is_no_run_is_named(
    tmp_path: Path, name: str, content: bytes | None, problem: str
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(RunError, match=problem):
        load_run(str(path))
    with pytest.raises(CommandError, match=name) as raised:
        RecordedSource.load(str(path))
    assert raised.value.exit_code == BAD_INPUT
