"""Whatever is asked, and wherever the question ends: the live state is as it was."""

from __future__ import annotations

import json
import random
from contextlib import suppress

import pytest

from scheduler import offline
from scheduler.explain.what_if.changes import ChangeError
from scheduler.explain.what_if.questions import Question, parse
from scheduler.explain.what_if.remedies.search import ChangeSearch
from tests.unit.explain.what_if.busy_world import CLAIMED, busy_world, mounting, random_question
from tests.unit.explain.what_if.live_state import live_state
from tests.unit.explain.what_if.plugin_state import plugin_state

QUESTIONS = 60
READERS = (mounting("reader", "bound"), mounting("reader", "free"))


def ask(world: offline.World, chance: random.Random) -> str:
    """Ask a random question up to a random slice; return how it ended."""
    body = json.dumps(random_question(chance, world)).encode()
    slices = 0
    try:
        steps = Question(world._assembly.trial_parts(), parse(body), slice_seconds=0.004).run()
        for _ in steps:
            slices += 1
            if chance.random() < 0.3:
                steps.close()
                return "cancelled"
    except (ChangeError, LookupError):
        return "refused" if slices == 0 else "refused later"
    return "answered"


@pytest.mark.parametrize("seed", range(4))
def test_no_question_changes_the_state(seed: int) -> None:
    chance, ended = random.Random(seed), set[str]()
    with busy_world() as world:
        plugins, before = plugin_state(world, *READERS), live_state(world)
        for _ in range(QUESTIONS):
            ended.add(ask(world, chance))
            world._assembly.state.cache.validate()
            world._assembly.scheduling.queue.validate()
            assert live_state(world) == before
        assert plugin_state(world, *READERS) == plugins
    assert {"answered", "refused", "cancelled"} <= ended


@pytest.mark.parametrize("seed", range(3))
def test_no_search_for_remedies_changes_the_state(seed: int) -> None:
    chance = random.Random(seed)
    with busy_world() as world:
        plugins, before = plugin_state(world, *READERS), live_state(world)
        for pod in ("default/big", "default/waits", "held/held-2"):
            search = ChangeSearch(world._assembly.trial_parts(), pod, seconds=0.004).run()
            with suppress(StopIteration):
                for _ in range(chance.randint(1, 60)):
                    next(search)
            search.close()
            world._assembly.state.cache.validate()
            assert live_state(world) == before
        assert plugin_state(world, *READERS) == plugins


def test_the_state_of_plugins_is_seen() -> None:
    with busy_world() as world:
        before = plugin_state(world, *READERS)
        namespace, name = CLAIMED.split("/")
        world.remove("PersistentVolumeClaim", name, namespace)
        world._settle()
        after = plugin_state(world, *READERS)
    assert {name.rpartition("/")[2] for name in after if before[name] != after[name]} == {
        "VolumeBinding"
    }
