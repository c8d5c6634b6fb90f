"""The view of the demo has all of its parts and fits the terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from simulator.demos.morning.cluster import MERGE_SECONDS
from simulator.demos.morning.objects import demo_cluster
from simulator.demos.morning.view import MorningView
from tests.integration.demo.demo_cluster import DemoCluster

FREE_LINES = 3
"""Lines for the final message and the prompt."""


@pytest.fixture
def cluster() -> DemoCluster:
    """Return the nodes of the demo with some load and a pod for every reason to wait."""
    made = DemoCluster()
    for obj in demo_cluster().base:
        if obj["kind"] == "Node":
            made.store.create("nodes", "", obj["metadata"]["name"], obj)
    for number in range(40):
        made.now = number / 10
        made.pod(f"web-{number}", app="web")
        made.bind(f"web-{number}", made.board.nodes[number % 20].name)
    made.pod("giant", cpu="96")
    made.reject("giant")
    made.pod("held")
    made.gate("held", "example.com/ready")
    made.board.add("story", "something was done")
    return made


def plain(cluster: DemoCluster, width: int, height: int, total: int = 42) -> list[str]:
    out = io.StringIO()
    console = Console(file=out, width=width, height=height)
    console.print(MorningView(cluster.board, total, "http://127.0.0.1:8001"))
    return out.getvalue().splitlines()


@pytest.mark.parametrize(("width", "height"), [(100, 35), (80, 24), (200, 60), (96, 30), (72, 20)])
def test_it_fits_the_terminal_and_shows_everything(
    cluster: DemoCluster, width: int, height: int
) -> None:
    lines = plain(cluster, width, height)
    assert len(lines) <= height - FREE_LINES
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    for expected in (
        "39 nodes in 3 zones", "40/42 bound", "2 waiting", "pods/s", "eu-1a", "eu-1b", "eu-1c",
        "insufficient cpu", "giant", "gate example.com/ready", "something was done",
    ):  # fmt: skip
        assert expected in text


def test_a_large_terminal_has_a_line_per_node(cluster: DemoCluster) -> None:
    text = "\n".join(plain(cluster, 100, 35))
    assert text.count("general-6") == 3
    assert "0/4" in text
    assert "6 general" not in text


def test_a_small_terminal_has_a_character_per_node(cluster: DemoCluster) -> None:
    lines = plain(cluster, 80, 24)
    assert any("6 general, 2 highmem, 2 gpu, 3 spot" in line for line in lines)
    zone = next(line for line in lines if "eu-1a" in line)
    assert zone.split()[1:5] == ["▂▂▂▂▂▂", "▂▂", "▁▁", "▁▁▁"]


@pytest.mark.parametrize(("width", "height"), [(20, 5), (1, 1), (300, 10)])
def test_absurd_terminals_do_no_harm(cluster: DemoCluster, width: int, height: int) -> None:
    assert plain(cluster, width, height)


def test_an_empty_cluster_can_be_drawn() -> None:
    text = "\n".join(plain(DemoCluster(), 80, 24, total=0))
    assert "0/0 bound" in text
    assert "nothing waits" in text


def test_the_view_keeps_its_height(cluster: DemoCluster) -> None:
    before = len(plain(cluster, 100, 35))
    for number in range(30):
        cluster.pod(f"more-{number}", cpu="96")
        cluster.reject(f"more-{number}", f"0/39 nodes are available: 39 reason {number}.")
    assert len(plain(cluster, 100, 35)) == before
    assert any("more reasons" in line for line in plain(cluster, 100, 35))


def test_news_are_read_once_and_when_they_are_final() -> None:
    cluster = DemoCluster()
    cluster.node("n1")
    board = cluster.board
    board.add("story", "one")
    cluster.pod("a")
    cluster.bind("a", "n1")
    board.add("story", "two")
    assert [news.text for news in board.unread()] == ["one"]
    cluster.now = MERGE_SECONDS
    assert [news.text for news in board.unread()] == ["a on n1", "two"]
    assert [news.text for news in board.unread(everything=True)] == []
