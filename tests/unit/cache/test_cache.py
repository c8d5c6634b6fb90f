"""The cache: assumed, confirmed, forgotten; events that come late, twice or in the wrong order."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scheduler.cache import Cache
from scheduler.cache.cache import CacheError
from scheduler.framework import CPU
from tests.unit.cache.objects import node, pod


def cluster() -> Cache:
    cache = Cache()
    cache.set_node(node("a"))
    cache.set_node(node("b"))
    return cache


def cpu(cache: Cache) -> dict[str, int]:
    """Requested millicores by node."""
    table = cache.table
    return {
        table.names[row]: int(table.requested[CPU, row])
        for row in range(table.capacity)
        if table.names[row]
    }


ONE = {"cpu": "1"}


def test_an_assumed_pod_counts_at_once() -> None:
    cache = cluster()
    pending = pod("p", requests=ONE)
    assumed = cache.assume_pod(pending, "a")
    assert (assumed.spec.node_name, pending.spec.node_name) == ("a", "")
    assert assumed.signature is pending.signature
    assert cache.is_assumed("p")
    assert cache.get_pod("p") is assumed
    assert cpu(cache) == {"a": 1000, "b": 0}
    cache.validate()


def test_a_pod_cannot_be_assumed_twice() -> None:
    cache = cluster()
    cache.assume_pod(pod("p"), "a")
    with pytest.raises(
        CacheError, match=r"^pod p\(default/p\) is in the cache, so can't be assumed$"
    ):
        cache.assume_pod(pod("p"), "b")
    cache.add_pod(pod("q", "a"))
    with pytest.raises(CacheError, match="can't be assumed"):
        cache.assume_pod(pod("q"), "b")


def test_forgetting_gives_everything_back_and_only_once() -> None:
    cache = cluster()
    cache.assume_pod(pod("p", requests=ONE), "a")
    assert cache.forget_pod("p")
    assert not cache.forget_pod("p")
    assert not cache.forget_pod("unknown")
    assert cpu(cache) == {"a": 0, "b": 0}
    assert cache.get_pod("p") is None
    cache.validate()


def test_confirmation_brings_the_api_servers_object() -> None:
    cache = cluster()
    cache.assume_pod(pod("p", requests=ONE), "a")
    confirmed = pod("p", "a", requests=ONE, labels={"new": "label"})
    cache.add_pod(confirmed)
    assert cache.get_pod("p") is confirmed
    assert not cache.is_assumed("p")
    assert not cache.forget_pod("p")
    assert cpu(cache) == {"a": 1000, "b": 0}
    assert cache.statistics().anomalies == {}
    cache.validate()


def test_the_node_that_the_api_server_says_wins() -> None:
    cache = cluster()
    cache.assume_pod(pod("p", requests=ONE), "a")
    cache.add_pod(pod("p", "b", requests=ONE))
    assert cpu(cache) == {"a": 0, "b": 1000}
    assert cache.statistics().anomalies == {"confirmed_on_another_node": 1}
    cache.validate()


def test_an_assumed_pod_may_be_removed() -> None:
    cache = cluster()
    cache.assume_pod(pod("p", requests=ONE), "a")
    assert cache.remove_pod(pod("p", "a"))
    assert cache.statistics().assumed_pods == 0
    assert cpu(cache) == {"a": 0, "b": 0}


def test_an_update_confirms_too() -> None:
    cache = cluster()
    cache.assume_pod(pod("p", requests=ONE), "a")
    cache.update_pod(pod("p", "a", requests=ONE))
    assert not cache.is_assumed("p")
    cache.validate()


@pytest.mark.parametrize(
    ("events", "requested", "anomaly"),
    [
        (
            lambda cache: [cache.add_pod(pod("p", "a", requests=ONE)) for _ in range(2)],
            {"a": 1000, "b": 0},
            "added_twice",
        ),
        (
            lambda cache: cache.update_pod(pod("p", "b", requests=ONE)),
            {"a": 0, "b": 1000},
            "update_of_unknown",
        ),
        (
            lambda cache: [
                cache.add_pod(pod("p", "a", requests=ONE)),
                cache.update_pod(pod("p", "b", requests=ONE)),
            ],
            {"a": 0, "b": 1000},
            "moved",
        ),
        (
            lambda cache: cache.remove_pod(pod("p", "a", requests=ONE)),
            {"a": 0, "b": 0},
            "removal_of_unknown",
        ),
    ],
)
def test_odd_events_end_in_the_state_of_the_newest_object(
    events: Callable[[Cache], object], requested: dict[str, int], anomaly: str
) -> None:
    cache = cluster()
    events(cache)
    assert cpu(cache) == requested
    assert cache.statistics().anomalies == {anomaly: 1}
    cache.validate()


def test_a_resized_pod_counts_with_its_new_size() -> None:
    cache = cluster()
    cache.add_pod(pod("p", "a", requests=ONE))
    cache.update_pod(pod("p", "a", requests={"cpu": "3"}))
    assert cpu(cache) == {"a": 3000, "b": 0}
    cache.remove_pod(pod("p", "a", requests=ONE))
    assert cpu(cache) == {"a": 0, "b": 0}


def test_a_pod_assumed_on_a_node_that_vanished_is_forgotten_cleanly() -> None:
    cache = cluster()
    cache.assume_pod(pod("p", requests=ONE), "a")
    cache.remove_node("a")
    assert cpu(cache) == {"a": 1000, "b": 0}
    assert cache.forget_pod("p")
    assert cpu(cache) == {"b": 0}
    cache.validate()


def test_statistics() -> None:
    cache = cluster()
    cache.assume_pod(pod("p"), "a")
    cache.add_pod(pod("q", "b"))
    statistics = cache.statistics()
    assert (statistics.nodes, statistics.pods, statistics.assumed_pods) == (2, 2, 1)
    assert statistics.change_log_sequence == cache.table.sequence
    assert statistics.column_bytes > 0


def test_validate_names_every_broken_invariant() -> None:
    cache = cluster()
    cache.add_pod(pod("p", "a", requests=ONE))
    columns = cache.table
    columns.requested[CPU, 0] += 1
    columns.pod_count[1] += 1
    columns.non_zero_requested[0, 0] += 1
    columns.valid[1] = False
    cache._assumed += 1
    cache.table._free.append(0)
    with pytest.raises(CacheError) as broken:
        cache.validate()
    assert str(broken.value).split("; ") == [
        "requested cpu differs from the sum over pods",
        "pod_count differs from the number of pods",
        "non_zero_requested differs from the sum over pods",
        "node_count is 2, valid rows 1",
        "a row is both free and in use",
        "the number of assumed pods is wrong",
    ]


def test_validate_notices_a_pod_in_the_wrong_place() -> None:
    cache = cluster()
    cache.add_pod(pod("p", "a"))
    cache._pods["p"].row = 1
    with pytest.raises(CacheError, match="pod default/p is not where the cache says it is"):
        cache.validate()


def test_pods_that_were_set_aside_are_in_their_order_again() -> None:
    cache = cluster()
    for name in "pqrs":
        cache.assume_pod(pod(name, requests=ONE), "a")
    row = cache.table.row_of("a")
    assert row is not None
    for name in "pr":
        assert cache.set_aside(name)
    assert not cache.set_aside("p")
    assert [*cache.table.pods[row]] == ["q", "s"]
    for name in "rp":
        cache.put_back(name)
    # Victims of one rank are chosen in this order.
    assert [*cache.table.pods[row]] == ["p", "q", "r", "s"]
    assert cpu(cache) == {"a": 4000, "b": 0}
    cache.validate()
