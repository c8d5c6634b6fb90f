"""Faults of the runner and of the script of the demo `morning`."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler.process.application import Application
from simulator import EmbeddedCluster
from simulator.demos.morning import story as morning
from simulator.demos.morning.objects import demo_cluster
from simulator.demos.morning.script import SHOW_SECONDS, Beat, Kubectl, Script, write_script
from simulator.demos.morning.story import Morning
from simulator.demos.runner import opened
from simulator.demos.scheduling import DemoError
from tests.integration.demo.demo_cluster import DemoCluster


def show(cluster: DemoCluster, beats: list[Beat], pods: int) -> Morning:
    made = Morning(duration=0.0)
    made.board = cluster.board
    made.script = Script(beats, pods, frozenset())
    return made


def never(_: object) -> bool:
    return False


async def test_a_story_that_is_stuck_names_what_it_waits_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(morning, "PATIENCE_SECONDS", 0.0)
    acted: list[str] = []
    beat = Beat(0.0, lambda: acted.append("acted"), "text", never, "the moon to rise")
    with pytest.raises(DemoError, match=r"for the moon to rise; is the scheduler alive\?"):
        await show(DemoCluster(), [beat], 0).play()
    assert acted == []


async def test_a_story_that_does_not_end_is_explained_by_the_audit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(morning, "PATIENCE_SECONDS", 0.0)
    cluster = DemoCluster()
    beat = Beat(0.0, lambda: cluster.pod("forgotten"))
    story = show(cluster, [beat], 1)
    monkeypatch.setattr(story, "_recounted", lambda: cluster.board)
    await story.play()
    [problem] = story.problems()
    assert "pod shop/forgotten should be bound by now" in problem


async def test_a_beat_acts_as_soon_as_what_it_waits_for_is_true() -> None:
    cluster = DemoCluster()
    cluster.node("n1")
    cluster.pod("a")
    beats = [
        Beat(0.0, lambda: cluster.bind("a", "n1"), "binding"),
        Beat(1.0, lambda: cluster.pod("b"), "more", lambda board: board.is_bound("a")),
        Beat(2.0, lambda: cluster.bind("b", "n1")),
    ]
    await show(cluster, beats, 2).play()
    assert cluster.board.bound == 2
    assert [news.text for news in cluster.board.news if news.kind == "story"] == ["binding", "more"]


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        (3, "the scheduler ended by itself with code 3"),
        (
            ExceptionGroup("tasks", [RuntimeError("boom"), OSError("cut")]),
            "the scheduler failed: RuntimeError: boom; OSError: cut",
        ),
    ],
)
async def test_a_scheduler_that_ends_by_itself_ends_the_demo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outcome: int | Exception, text: str
) -> None:
    async def serve(_: Application, *, handle_signals: bool) -> int:
        assert not handle_signals
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(Application, "serve", serve)
    story = Morning(duration=0.0)
    with pytest.raises(BaseExceptionGroup) as raised:
        async with opened(story, tmp_path):
            await story.play()
    [error] = raised.value.exceptions
    assert isinstance(error, DemoError)
    assert str(error) == text


def test_the_script_is_in_order_and_in_time() -> None:
    demo = demo_cluster()
    script = write_script(demo, Kubectl(EmbeddedCluster(seed=1)))
    times = [beat.at for beat in script.beats]
    assert times == sorted(times)
    assert 0.0 < times[0] < times[-1] < SHOW_SECONDS
    # In addition: two pinned pods and the agent of the node that joins.
    assert script.pods == demo.pods + 3
    # Three gates are removed and the largest pod gets its node; one pinned pod never fits.
    assert len(script.waiting) == demo.waiting - 4 + 1
