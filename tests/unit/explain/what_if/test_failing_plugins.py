"""A plugin that raises makes the question fail, with its name, and nothing else."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Never

import pytest

from scheduler import offline
from scheduler.explain.records import Remedies
from scheduler.service.questions import QuestionFailedError
from tests.unit.explain.what_if.live_state import live_state
from tests.unit.explain.what_if.test_asker import asked_world, question

NODE = offline.node("n", cpu=4)
SMALL = offline.node("small", cpu=1)
LOW = offline.pod("low", cpu=3, node="n")
HIGH = offline.pod("high", cpu=2, priority=9, spec={"schedulingGates": [{"name": "a/b"}]})


class Uncopyable:
    """A record of a plugin that cannot be copied."""

    def clone(self) -> Never:
        raise TypeError("cannot copy this")

    def __deepcopy__(self, memo: object) -> Never:
        raise TypeError("cannot copy this")


def raising(*_: object, **__: object) -> Never:
    raise RuntimeError("out of order")


def keeping_what_cannot_be_copied(state: Any, *_: object) -> None:
    state.write("NodeResourcesFit", Uncopyable())


@pytest.mark.parametrize(
    ("plugin", "method", "effect"),
    [
        ("NodeResourcesFit", "pre_filter", raising),
        ("NodeResourcesFit", "filter_rows", raising),
        ("NodeResourcesFit", "score_rows", raising),
        ("DefaultPreemption", "find_victims", raising),
    ],
)
async def test_the_question_names_the_plugin_that_raises(
    monkeypatch: pytest.MonkeyPatch, plugin: str, method: str, effect: Callable[..., Any]
) -> None:
    with asked_world(NODE, SMALL, LOW, HIGH) as (world, _, asker):
        (framework,) = world._assembly.scheduling.engine.frameworks.values()
        before = live_state(world)
        with monkeypatch.context() as patched:
            patched.setattr(type(framework.plugins[plugin]), method, effect)
            fields: dict[str, Any] = {} if method == "find_victims" else {"/spec/containers": []}
            with pytest.raises(QuestionFailedError, match=f"{plugin}.*out of order"):
                await asker.what_if(question(pod="default/high", fields=fields))
            assert isinstance(await asker.remedies("default/high", 5, 5.0), Remedies)
        world._assembly.state.cache.validate()
        assert live_state(world) == before
        assert asker.statistics().under_way == 0
        assert (await asker.what_if(question(pod="default/high"))).victims == ["default/low"]


@pytest.mark.parametrize("point", ["begin", "tried"])
async def test_a_subscriber_that_raises_is_named(point: str) -> None:
    change = {"action": "remove", "kind": "StorageClass", "name": "s"}
    made = {"kind": "StorageClass", "metadata": {"name": "s"}, "provisioner": "p"}
    with asked_world(NODE, LOW, HIGH, {"apiVersion": "storage.k8s.io/v1", **made}) as (
        world, _, asker,
    ):  # fmt: skip
        before = live_state(world)
        board = world._assembly.state.subscriptions
        if point == "begin":
            board.on_trial(raising)
        else:
            board.on_object("storageclasses", raising, in_trials=True)
        with pytest.raises(QuestionFailedError, match=r"raising failed: .*out of order"):
            await asker.what_if(question(pod="default/high", changes=[change]))
        after = live_state(world)
        assert {name for name in before if before[name] != after[name]} == set()


async def test_a_state_that_cannot_be_copied_fails_the_question_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with asked_world(NODE, SMALL, LOW, HIGH) as (world, _, asker):
        (framework,) = world._assembly.scheduling.engine.frameworks.values()
        before = live_state(world)
        with monkeypatch.context() as patched:
            fit = type(framework.plugins["NodeResourcesFit"])
            patched.setattr(fit, "pre_filter", keeping_what_cannot_be_copied)
            with pytest.raises(QuestionFailedError):
                await asker.what_if(question(pod="default/high"))
        assert live_state(world) == before
    with pytest.raises(TypeError):
        copy.deepcopy(Uncopyable())
