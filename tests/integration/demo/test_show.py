"""What the show does when something goes wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulator.demos import runner
from simulator.demos.runner import DemoError, DemoOptions, Running, opened, play
from simulator.demos.morning.story import SHOW_SECONDS, Beat, Story, tell
from simulator.demos.morning.story import Stage as Hands
from scheduler.service.application import Application
from simulator import EmbeddedCluster
from simulator.demos.morning.objects import demo_cluster
from tests.integration.demo.stage import Stage


def show(stage: Stage, beats: list[Beat], pods: int) -> Running:
    story = Story(beats, pods, frozenset())
    return Running(stage.board, story, "", Path(), lambda: stage.board)


def never(_: object) -> bool:
    return False


async def test_a_story_that_waits_in_vain_says_for_what(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_show, "PATIENCE_SECONDS", 0.0)
    acted: list[str] = []
    beat = Beat(0.0, lambda: acted.append("acted"), "told", never, "the moon to rise")
    with pytest.raises(DemoError, match=r"for the moon to rise; is the scheduler alive\?"):
        await play(show(Stage(), [beat], 0), 0.0)
    assert acted == []


async def test_an_end_that_never_comes_is_explained_by_the_audit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(demo_show, "PATIENCE_SECONDS", 0.0)
    stage = Stage()
    beat = Beat(0.0, lambda: stage.pod("forgotten"))
    with pytest.raises(DemoError, match="pod shop/forgotten should be bound by now"):
        await play(show(stage, [beat], 1), 0.0)


async def test_a_beat_acts_as_soon_as_what_it_waits_for_is_true() -> None:
    stage = Stage()
    stage.node("n1")
    stage.pod("a")
    beats = [
        Beat(0.0, lambda: stage.bind("a", "n1"), "binding"),
        Beat(1.0, lambda: stage.pod("b"), "more", lambda board: board.is_bound("a")),
        Beat(2.0, lambda: stage.bind("b", "n1")),
    ]
    await play(show(stage, beats, 2), 0.0)
    assert stage.board.bound == 2
    assert [news.text for news in stage.board.news if news.kind == "story"] == ["binding", "more"]


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        (3, "the scheduler ended by itself with code 3"),
        (
            ExceptionGroup("tasks", [RuntimeError("boom"), OSError("cut")]),
            "the scheduler failed: RuntimeError: boom; OSError: cut",
        ),
    ],
)
async def test_a_scheduler_that_ends_by_itself_ends_the_demo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outcome: int | Exception, told: str
) -> None:
    async def serve(_: Application, *, handle_signals: bool) -> int:
        assert not handle_signals
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(Application, "serve", serve)
    with pytest.raises(BaseExceptionGroup) as raised:
        async with opened(DemoOptions(), tmp_path) as running:
            await play(running, 0.0)
    [problem] = raised.value.exceptions
    assert isinstance(problem, DemoError)
    assert str(problem) == told


def test_the_story_is_told_in_order_and_in_time() -> None:
    demo = demo_cluster()
    story = tell(demo, Hands(EmbeddedCluster(seed=1)))
    times = [beat.at for beat in story.beats]
    assert times == sorted(times)
    assert 0.0 < times[0] < times[-1] < SHOW_SECONDS
    # Two pinned pods and the agent of the node that joins come on top.
    assert story.pods == demo.pods + 3
    # Three gates are removed and the largest pod gets its node; one pinned pod never fits.
    assert len(story.waiting) == demo.waiting - 4 + 1
