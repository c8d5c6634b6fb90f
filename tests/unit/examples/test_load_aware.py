"""LoadAware scores nodes by measured load; both of its forms say the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plugins.extra.load_aware import USAGE, LoadAware, LoadAwareArgs, NodeMetrics
from scheduler import offline
from scheduler.api import ObjectMeta
from scheduler.framework.plugin_class import class_problems
from scheduler.offline import JsonObject
from scheduler.testing import PluginCase, check_plugin_contract, check_reuse_contract
from tests.unit.plugins.clusters import Cluster, node, pod, raw_scores

EXAMPLE = Path(__file__).parents[3] / "examples" / "load_aware"

NAMES = ("n0", "n1", "n2")

#: What the metrics API may say: amounts in all forms, and what is none.
amounts = st.sampled_from(("0", "1", "250m", "1500000000n", "9", "-1", "many", "", "1e40", None))


def metrics(name: str, cpu: str | None) -> NodeMetrics:
    usage = {} if cpu is None else {"cpu": cpu}
    return NodeMetrics(metadata=ObjectMeta(name=name), usage=usage)


def request(cpu: str) -> dict[str, object]:
    return {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}


def cluster() -> Cluster:
    """Nodes of four CPUs."""
    return Cluster(node(name) for name in NAMES)


def plugin(where: Cluster, full_at: int = 100) -> LoadAware:
    return LoadAware(LoadAwareArgs(full_at=full_at), where.handle())


@pytest.mark.parametrize(
    ("full_at", "used", "score"),
    [
        (100, "0", 100),
        (100, "1", 75),
        (100, "3000000000n", 25),
        (100, "4", 0),
        (100, "40", 0),
        (50, "1", 50),
        (50, "2", 0),
        (100, "-1", 100),
        (100, "many", 0),
        (100, None, 0),
    ],
)
def test_the_score_is_the_share_that_is_free(full_at: int, used: str | None, score: int) -> None:
    where = cluster()
    scoring = plugin(where, full_at)
    where.add_object(USAGE, metrics("n1", used))
    assert raw_scores(scoring, where, pod()) == [0, score, 0]


def test_pods_that_were_placed_since_the_measurement_count_by_their_requests() -> None:
    where = cluster()
    scoring = plugin(where)
    where.place(pod(request("1")), "n0")
    where.add_object(USAGE, metrics("n0", "500m"))
    assert raw_scores(scoring, where, pod())[0] == 87
    where.place(pod(request("2")), "n0")
    assert raw_scores(scoring, where, pod())[0] == 37
    where.add_object(USAGE, metrics("n0", "1"))
    assert raw_scores(scoring, where, pod())[0] == 75


def test_pods_that_are_listed_after_the_samples_were_there_when_they_were_taken() -> None:
    where = cluster()
    scoring = plugin(where)
    where.add_object(USAGE, metrics("n0", "1"))
    where.place(pod(request("2")), "n0")
    assert raw_scores(scoring, where, pod())[0] == 25
    where.objects.synced()
    assert raw_scores(scoring, where, pod())[0] == 75


def test_a_node_that_is_measured_no_more_gets_nothing() -> None:
    where = cluster()
    scoring = plugin(where)
    where.add_object(USAGE, metrics("n0", "1"))
    where.delete_object(USAGE, metrics("n0", "1"))
    assert raw_scores(scoring, where, pod()) == [0, 0, 0]


def test_a_sample_of_an_unknown_node_waits_for_it() -> None:
    where = cluster()
    scoring = plugin(where)
    where.add_object(USAGE, metrics("late", "1"))
    where.cache.set_node(node("late"))
    assert raw_scores(scoring, where, pod())[-1] == 75


@settings(max_examples=40)
@given(
    before=st.lists(amounts, min_size=3, max_size=3),
    name=st.sampled_from(NAMES),
    after=amounts,
    placed=st.booleans(),
)
def test_the_contract_holds_whatever_is_measured(
    before: list[str | None], name: str, after: str | None, placed: bool
) -> None:
    where = cluster()
    scoring = plugin(where)
    for each, used in zip(NAMES, before, strict=True):
        where.add_object(USAGE, metrics(each, used))

    def change() -> None:
        if placed:
            where.place(pod(request("1")), name)
        else:
            where.add_object(USAGE, metrics(name, after))

    case = PluginCase(where.table, [pod(), pod(request("1"))])
    check_plugin_contract(scoring, case)
    check_reuse_contract(scoring, case, change)


def measured(name: str, cpu: str) -> JsonObject:
    """An object as metrics-server returns it."""
    return {
        "apiVersion": "metrics.k8s.io/v1beta1",
        "kind": "NodeMetrics",
        "metadata": {"name": name},
        "timestamp": "2026-01-01T00:00:00Z",
        "window": "20s",
        "usage": {"cpu": cpu, "memory": "1Gi"},
    }


def test_a_burst_in_a_simulated_cluster_spreads_before_anything_is_measured_again() -> None:
    with offline.World(config=EXAMPLE / "config.yaml") as world:
        for name, cpu in (("busy", "3"), ("idle", "100m"), ("half", "1500m")):
            world.add_nodes(offline.node(name, cpu=4))
            world.add(measured(name, cpu))
        world.add_pods(offline.pod("first", cpu="100m"))
        assert [each.node for each in world.schedule().placed] == ["idle"]
        world.add_pods(offline.pod("burst", cpu=1), 4)
        nodes = sorted(each.node for each in world.schedule().placed)
        assert nodes == ["half", "idle", "idle", "idle"]
        world.add(measured("busy", "0"))
        world.add(measured("idle", "3900m"))
        world.add_pods(offline.pod("last", cpu="100m"))
        assert [each.node for each in world.schedule().placed] == ["busy"]


@pytest.mark.parametrize(("full_at", "problems"), [(1, 0), (100, 0), (0, 1), (101, 1)])
def test_a_wrong_percentage_is_named(full_at: int, problems: int) -> None:
    found = list(LoadAware.validate_args(LoadAwareArgs(full_at=full_at)))
    assert [path for path, _ in found] == ["fullAt"] * problems


def test_the_class_has_no_problems() -> None:
    assert list(class_problems(LoadAware)) == []
