"""Trials answer from the real engine and leave the world as it was."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scheduler import offline

GPU = "nvidia.com/gpu"


def crowded() -> offline.World:
    """A world with four nodes, pods on them, one that is too large, and a service."""
    world = offline.World(seed=3)
    world.add_nodes(offline.node("n", cpu=4), count=4)
    world.add_pods(offline.pod("web", cpu=1, labels={"app": "web"}), count=5)
    world.add_pods(offline.pod("big", cpu=8))
    world.schedule()
    return world


def drop_a_node(trial: offline.Trial) -> None:
    trial.drop_node("n-1")


def remove_a_pod(trial: offline.Trial) -> None:
    trial.remove("Pod", "web-2")


def change_a_pod(trial: offline.Trial) -> None:
    trial.add(offline.pod("big", cpu=2))
    trial.place("default/big")


def add_and_place(trial: offline.Trial) -> None:
    trial.add_nodes(offline.node("large", cpu=16))
    assert trial.place("default/big").node == "large"
    trial.place(offline.pod("more", namespace="other"))


def cordon_and_fill(trial: offline.Trial) -> None:
    trial.cordon("n-0")
    assert "n-0" not in trial.how_many_fit(offline.pod(cpu="500m")).by_node


def replace_twice(trial: offline.Trial) -> None:
    trial.add(offline.node("n-2", cpu=1))
    trial.add(offline.node("n-2", cpu=64))
    trial.remove("Node", "n-2")


@pytest.mark.parametrize(
    "change",
    [drop_a_node, remove_a_pod, change_a_pod, add_and_place, cordon_and_fill, replace_twice],
)
def test_a_trial_leaves_no_trace(change: Callable[[offline.Trial], None]) -> None:
    def rest(world: offline.World) -> tuple[object, bytes]:
        before = world.placements()
        world.add_pods(offline.pod("late", cpu="500m"), count=6)
        return before, world.schedule().to_json()

    with crowded() as untouched, crowded() as tried:
        with tried.trial() as trial:
            change(trial)
        parts = tried._assembly
        parts.state.cache.validate()
        parts.scheduling.queue.validate()
        references = parts.state.signatures.statistics().references
        assert references == len(parts.tables.stores["pods"])
        assert rest(tried) == rest(untouched)


def add_and_fail(trial: offline.Trial) -> None:
    trial.add_nodes(offline.node("extra"), count=3)
    trial.cordon("nobody")


def test_a_trial_is_undone_after_an_error_as_well() -> None:
    with crowded() as world:
        before = world.how_many_fit(offline.pod(cpu=1))
        trial = world.trial()
        with pytest.raises(offline.WorldError, match="no Node nobody"), trial:
            add_and_fail(trial)
        assert world.how_many_fit(offline.pod(cpu=1)) == before


def test_pods_that_were_placed_keep_their_place_to_the_end_of_the_trial() -> None:
    with offline.World() as world:
        world.add_nodes(offline.node("only", cpu=4))
        world.add_pods(offline.pod("half", cpu=2), count=3)
        with world.trial() as trial:
            found = [trial.place(f"default/half-{i}") for i in range(3)]
            assert [bool(each) for each in found] == [True, True, False]
            assert found[2].plugins == ("NodeResourcesFit",)
            assert found[2].reason == "0/1 nodes are available: 1 Insufficient cpu."
        assert len(world.schedule().placed) == 2


def test_nobody_is_evicted_in_a_trial_and_preemption_works_after_it() -> None:
    with offline.World() as world:
        world.add_nodes(offline.node("only", cpu=4))
        world.add_pods(offline.pod("low", cpu=4))
        world.schedule()
        world.add_pods(offline.pod("high", cpu=4, priority=9))
        with world.trial() as trial:
            assert not trial.place("default/high")
        result = world.schedule()
        assert [each.pod for each in result.evicted] == ["default/low"]
        assert [each.pod for each in result.placed] == ["default/high"]


def test_a_nomination_outlives_a_trial() -> None:
    with offline.World() as world:
        world.add_nodes(offline.node("only", cpu=4))
        world.add_pods(offline.pod("low", cpu=4))
        world.schedule()
        world.add_pods(offline.pod("high", cpu=4, priority=9))
        world.run(until=world.now + 5.0)
        (waiting,) = world.waiting()
        assert waiting.nominated == "only"
        with world.trial() as trial:
            trial.remove("Pod", "low")
            assert trial.place("default/high").node == "only"
        assert world.waiting() == (waiting,)


def test_copies_are_counted_by_node_with_the_reason_of_the_first_that_does_not_fit() -> None:
    with offline.World() as world:
        world.add_nodes(offline.node("a", resources={GPU: 4}))
        world.add_nodes(offline.node("b", resources={GPU: 2}))
        world.add_nodes(offline.node("plain"))
        fits = world.how_many_fit(offline.pod(resources={GPU: 2}))
        assert (fits.total, fits.by_node) == (3, {"a": 2, "b": 1})
        assert fits.reason == f"0/3 nodes are available: 3 Insufficient {GPU}."
        assert world.how_many_fit(offline.pod(), limit=5).total == 5
        assert world.placements() == {}


def test_what_cannot_be_tried_is_an_error() -> None:
    with offline.World() as world:
        world.add_nodes(offline.node("only"))
        world.add_pods(offline.pod("there", node="only"))
        world.add_pods(offline.pod("other", spec={"schedulerName": "somebody"}))
        world.add_pods(offline.pod("mine"))
        with world.trial() as trial:
            trial.place("default/mine")
            for pod, text in (
                ("default/there", "is on only already"),
                ("default/other", "schedulerName is 'somebody'"),
                ("default/mine", "placed in this trial already"),
                ("default/nobody", "no Pod default/nobody"),
            ):
                with pytest.raises(offline.WorldError, match=text):
                    trial.place(pod)


def test_a_trial_explains_what_it_changed() -> None:
    with crowded() as world:
        assert world.explain("default/big").nodes is not None
        with world.trial() as trial:
            trial.add_nodes(offline.node("large", cpu=16))
            nodes = trial.explain("default/big").nodes
            assert nodes is not None
            assert (nodes.nodes, nodes.feasible, nodes.best[0].node) == (5, 1, "large")
        with pytest.raises(LookupError, match="default/none"):
            world.explain("default/none")
