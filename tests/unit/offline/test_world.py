"""Worlds: pods are placed, wait, preempt, arrive and end in virtual time."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from scheduler import offline
from scheduler.framework import ConfigurationError

ROOT = Path(__file__).parents[3]
GATED = {"schedulingGates": [{"name": "example.com/later"}]}


def nodes(world: offline.World, count: int = 2, cpu: int = 4) -> list[str]:
    return world.add_nodes(offline.node(cpu=cpu), count)


def test_pods_are_placed_where_they_fit_and_the_others_say_why_they_wait() -> None:
    with offline.World() as world:
        nodes(world)
        world.add_pods(offline.pod("web", cpu=3), count=3)
        result = world.schedule()
        assert len(result.placed) == 2
        assert {each.node for each in result.placed} == {"node-0", "node-1"}
        (waiting,) = result.waiting
        assert (waiting.pod, waiting.state) == ("default/web-2", "unschedulable")
        assert waiting.reason.startswith("0/2 nodes are available: 2 Insufficient cpu.")
        assert waiting.plugins == ("NodeResourcesFit",)
        assert result["default/web-2"] is waiting
        assert "Insufficient cpu" in result["default/web-2"].explain()
        assert world.placements() == {each.pod: each.node for each in result.placed}


def test_a_world_and_an_explanation_are_shown_in_words() -> None:
    with offline.World() as world:
        world.add_nodes(offline.node("n", cpu=4))
        world.add_pods(offline.pod("fits", cpu=1))
        world.add_pods(offline.pod("large", cpu=9))
        world.run(until=30.0)
        assert repr(world) == "<World at 30 s: 1 nodes, 1 of 2 pods on them>"
        name, why, *_ = str(world.explain("large")).splitlines()
    assert name == "default/large"
    assert why == "None of 1 node fits: 1 (n) lacks CPU (wants 9 cpu, the largest node has 4)."
    assert repr(world).startswith("<World at 30 s"), "also after its end"


def test_a_record_of_an_unknown_pod_is_an_error_that_names_it() -> None:
    with offline.World() as world:
        result = world.schedule()
        with pytest.raises(KeyError, match="default/nobody"):
            _ = result["default/nobody"]
        assert "default/nobody" not in result


def test_scheduling_takes_no_time_where_nothing_has_to_be_waited_for() -> None:
    with offline.World() as world:
        nodes(world)
        world.add_pods(offline.pod())
        result = world.schedule()
        assert (result.began, result.ended) == (0.0, 0.0)
        assert result.placed[0].attempts == 1


def test_an_event_wakes_a_waiting_pod_at_its_time() -> None:
    with offline.World() as world:
        world.add_nodes(offline.node("small", cpu=1))
        world.add_pods(offline.pod("big", cpu=8))
        assert len(world.schedule().waiting) == 1
        world.at(100.0, lambda: world.add_nodes(offline.node("large", cpu=16)))
        (placed,) = world.run(until=200.0).placed
        assert (placed.node, placed.time) == ("large", 100.0)
        assert world.now == 200.0


def test_a_preemptor_waits_for_the_grace_period_of_its_victim() -> None:
    with offline.World() as world:
        world.add_nodes(offline.node("only", cpu=4))
        world.add_pods(offline.pod("low", cpu=4, spec={"terminationGracePeriodSeconds": 7}))
        world.schedule()
        world.add_pods(offline.pod("high", cpu=4, priority=100))
        result = world.schedule()
        assert [each.pod for each in result.evicted] == ["default/low"]
        (placed,) = result.placed
        assert (placed.pod, placed.node, placed.waited) == ("default/high", "only", 7.0)
        assert result.waiting == ()


def test_pods_without_a_node_in_the_cluster_are_not_waited_for_for_ever() -> None:
    with offline.World() as world:
        world.add_pods(offline.pod())
        result = world.schedule(patience=60.0)
        assert result.waiting[0].reason == "no nodes available to schedule pods"
        assert result.waiting[0].attempts > 3
        assert result.ended <= 60.0


def test_a_gated_pod_waits_until_its_gates_are_gone() -> None:
    with offline.World() as world:
        nodes(world)
        gated = offline.pod("later", spec=GATED)
        world.add_pods(gated)
        (waiting,) = world.schedule().waiting
        assert (waiting.state, waiting.plugins) == ("gated", ("SchedulingGates",))
        world.add(offline.pod("later"))
        assert [each.pod for each in world.schedule().placed] == ["default/later"]


def test_a_workload_arrives_runs_and_ends() -> None:
    with offline.World() as world:
        world.add_nodes(offline.node("only", cpu=4))
        job = offline.pod("job", cpu=4)
        arrivals = [offline.Arrival(10.0, job, duration=50.0), offline.Arrival(5.0, job, 20.0, 2)]
        result = world.run(workload=arrivals)
        assert result.finished == 3
        assert [each.time for each in result.placed] == [5.0, 25.0, 45.0]
        assert world.placements() == {}
        assert {each.pod for each in result.placed} == {
            "default/job",
            "default/job-0",
            "default/job-1",
        }


def test_pods_of_one_template_that_exist_together_are_numbered() -> None:
    with offline.World() as world:
        nodes(world)
        arrivals = [offline.Arrival(float(i), offline.pod("job")) for i in range(3)]
        placed = world.run(until=5.0, workload=arrivals).placed
        assert [each.pod for each in placed] == ["default/job", "default/job-0", "default/job-1"]


def test_a_pod_that_loses_patience_is_deleted_after_one_attempt() -> None:
    with offline.World() as world:
        nodes(world, count=1)
        job = offline.pod("job", cpu=3)
        arrivals = [offline.Arrival(float(i), job, name=f"j{i}", patience=0.5) for i in range(3)]
        result = world.run(until=60.0, workload=arrivals)
        assert [each.pod for each in result.placed] == ["default/j0"]
        assert result.waiting == ()
        assert world._assembly.scheduling.queue.statistics().scheduling_cycle == 3


def test_an_idle_day_is_no_work() -> None:
    with offline.World() as world:
        nodes(world)
        world.schedule()
        steps = world._assembly.scheduling.queue.statistics().scheduling_cycle
        world.run(until=86_400.0)
        assert world.now == 86_400.0
        assert world._assembly.scheduling.queue.statistics().scheduling_cycle == steps


def story(seed: int) -> bytes:
    """Return all that happens in a world with ties, preemption, gates and ends of pods."""
    with offline.World(seed=seed) as world:
        nodes(world, count=4, cpu=8)
        world.add_pods(offline.pod("tied", cpu=1), count=10)
        first = world.schedule().to_json()
        world.add_pods(offline.pod("urgent", cpu=6, priority=5), count=3)
        job = offline.pod("job", cpu=2)
        arrivals = [offline.Arrival(float(i), job, duration=9.0, count=3) for i in range(1, 10)]
        second = world.run(workload=arrivals, until=60.0).to_json()
        return first + second


def test_equal_seeds_give_equal_bytes_and_other_seeds_break_ties_otherwise() -> None:
    assert story(1) == story(1)
    assert story(1) != story(2)


@pytest.mark.slow
def test_the_order_of_sets_decides_nothing() -> None:
    program = (
        "import sys; from tests.unit.offline.test_world import story; "
        "sys.stdout.buffer.write(story(1))"
    )
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
        run = [sys.executable, "-c", program]
        told = subprocess.run(run, env=environment, capture_output=True, check=True).stdout
        assert told == story(1)


def test_pods_that_deferred_quota_holds_are_released_as_others_end() -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "cpus", "namespace": "default"},
        "spec": {"hard": {"deferred.kubestow.io/requests.cpu-millis": "2000"}},
    }
    with offline.World() as world:
        world.add_nodes(offline.node(cpu=64))
        world.add(quota)
        arrivals = [offline.Arrival(0.0, offline.pod("job", cpu=1), 10.0, 3)]
        result = world.run(workload=arrivals)
        assert [each.time for each in result.placed] == [0.0, 0.0, 10.0]


def test_everything_is_consistent_at_the_end_of_a_long_story() -> None:
    with offline.World() as world:
        nodes(world, count=5)
        jobs = [offline.Arrival(i / 2, offline.pod("j", cpu=1), 5.0, 2) for i in range(40)]
        world.run(workload=jobs)
        world.add_pods(offline.pod("stay", cpu=2), count=7)
        world.schedule()
        parts = world._assembly
        parts.state.cache.validate()
        parts.scheduling.queue.validate()
        statistics = parts.state.signatures.statistics()
        assert statistics.references == len(parts.tables.stores["pods"])


def test_a_world_works_while_another_event_loop_runs() -> None:
    async def notebook() -> int:
        with offline.World() as world:
            nodes(world)
            world.add_pods(offline.pod())
            return len(world.schedule().placed)

    assert asyncio.run(notebook()) == 1


def test_a_dropped_node_sends_its_pods_back_without_those_of_daemon_sets() -> None:
    with offline.World() as world:
        world.add_nodes(offline.node("a"))
        world.add_nodes(offline.node("b"))
        world.add_pods(offline.pod("web", node="a"))
        agent = offline.pod("agent", node="a")
        owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "1"}
        agent["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
        world.add_pods(agent)
        assert world.drop_node("a") == ["default/web"]
        assert [(each.pod, each.node) for each in world.schedule().placed] == [("default/web", "b")]
        assert world.placements() == {"default/web": "b"}


def test_a_cordoned_node_takes_no_pods_until_it_is_uncordoned() -> None:
    with offline.World() as world:
        world.add_nodes(offline.node("only"))
        world.cordon("only")
        world.add_pods(offline.pod())
        assert "unschedulable" in world.schedule().waiting[0].reason
        world.cordon("only", unschedulable=False)
        assert len(world.schedule().placed) == 1


def test_pods_of_other_schedulers_wait_unless_the_world_adopts_them() -> None:
    other = offline.pod(spec={"schedulerName": "default-scheduler"})
    for adopt, placed in ((False, 0), (True, 1)):
        with offline.World(adopt=adopt) as world:
            nodes(world)
            world.add_pods(other)
            assert len(world.schedule().placed) == placed


def test_a_deleted_pod_ends_after_its_grace_period() -> None:
    with offline.World() as world:
        world.add_nodes(offline.node("only"))
        world.add_pods(offline.pod("web", node="only"))
        world.delete_pod("default/web")
        world.run(until=29.0)
        assert world.placements() == {"default/web": "only"}
        world.run(until=31.0)
        assert world.placements() == {}


def test_the_profile_and_the_plugins_are_those_of_the_configuration(tmp_path: Path) -> None:
    config = tmp_path / "profiles.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{schedulerName: default-scheduler, plugins: {filter: {disabled: "
        "[{name: NodeUnschedulable}]}, multiPoint: {disabled: [{name: NodeUnschedulable}]}}}]\n"
        "extenders: [{urlPrefix: 'http://127.0.0.1:1/', filterVerb: filter}]\n"
    )
    with offline.World(config=config) as world:
        assert any("extenders" in note for note in world.notes)
        world.add_nodes(offline.node(unschedulable=True))
        world.add_pods(offline.pod())
        assert len(world.schedule().placed) == 1


def test_a_bad_configuration_is_reported_as_by_the_service(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"nothing\.yaml"):
        offline.World(config=tmp_path / "nothing.yaml")


def test_bad_objects_and_questions_are_named() -> None:
    with offline.World() as world:
        world.add_nodes(offline.node("n"))
        for act, text in (
            (lambda: world.add({"apiVersion": "v1", "kind": "Weather"}), "Weather"),
            (lambda: world.add(offline.node("n", cpu="many")), r"Node n: .*cpu"),
            (lambda: world.add(offline.pod("p", memory="x")), r"Pod default/p: .*memory"),
            (lambda: world.add({"apiVersion": "v1", "kind": "Pod", "spec": 3}), "Pod"),
            (lambda: world.add_nodes(offline.node("n")), "already"),
            (lambda: world.remove("Node", "m"), "no Node m"),
            (lambda: world.remove("Weather", "m"), "unknown kind"),
            (lambda: world.pod("default/x"), "no Pod default/x"),
        ):
            with pytest.raises(offline.WorldError, match=text):
                act()
        assert world.how_many_fit(offline.pod()).total > 0


def test_a_closed_world_says_so() -> None:
    world = offline.World()
    world.close()
    world.close()
    with pytest.raises(RuntimeError, match="closed"):
        world.schedule()


def test_a_failing_action_is_raised_to_the_caller() -> None:
    with offline.World() as world:
        world.at(1.0, lambda: world.add_nodes(offline.node(cpu="many")))
        with pytest.raises(offline.WorldError, match="cpu"):
            world.run(until=2.0)


def test_a_world_and_a_trial_show_what_users_need() -> None:
    with offline.World() as world, world.trial() as trial:
        of_world, of_trial = (
            {each for each in dir(shown) if not each.startswith("_")} for shown in (world, trial)
        )
    editing = {"add", "add_all", "add_nodes", "add_pods", "cordon", "drop_node", "filled", "pod"}
    asking = {"explain", "how_many_fit", "remedies"}
    time = {"at", "delete_pod", "now", "recorded", "run", "schedule"}
    assert of_trial == {*editing, *asking, "place", "remove"}
    assert of_world == {
        *editing,
        *asking,
        *time,
        *("close", "copy", "load", "notes", "placements", "remove", "trial", "waiting"),
    }
