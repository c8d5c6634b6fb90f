"""Extenders in the engine, driven by hand: no event loop, no HTTP."""

from __future__ import annotations

import json
import random
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

import pytest

from config import Extender, ExtenderManagedResource
from scheduler.api import Pod
from scheduler.engine import Attempt, AttemptError, Engine
from scheduler.engine.plugin_calls import run_synchronously
from scheduler.extenders.extender import ExtenderError, Extenders, display_name
from scheduler.extenders.protocol import MalformedResponseError
from scheduler.framework import CycleState, QueuedPodInfo, unschedulable
from tests.unit.engine.harness import PROFILE, World, plugin

T = TypeVar("T")

FILTER = Extender(url_prefix="http://e", filter_verb="filter", node_cache_capable=True)


class ScriptedTransport:
    """An `ExtenderTransport` that returns the responses of the test, and records the requests."""

    def __init__(self, **responses: Any) -> None:
        self.responses = responses
        self.requests: list[tuple[str, Any]] = []
        self.ignored: list[str] = []
        self.unusual: list[str] = []

    async def send(
        self, extender: Extender, verb: str, body: bytes, read: Callable[[bytes], T]
    ) -> T:
        call = json.loads(body)
        self.requests.append((verb, call))
        response = self.responses[verb]
        response = response(call) if callable(response) else response
        if isinstance(response, Exception):
            raise response
        try:
            return read(json.dumps(response).encode())
        except MalformedResponseError as error:
            raise ExtenderError(str(error)) from error

    async def gather(self, work: Sequence[Coroutine[Any, Any, T]]) -> Sequence[T | BaseException]:
        results: list[T | BaseException] = []
        for each in work:
            try:
                results.append(await each)
            except ExtenderError as error:
                results.append(error)
        return results

    async def wait_for(self, work: Awaitable[T], seconds: float) -> T:
        return await work

    def log_ignored_failure(
        self, extender: Extender, verb: str, pod: Pod, problem: ExtenderError
    ) -> None:
        self.ignored.append(str(problem))

    def log_unusual_scores(self, extender: Extender, unusual: str) -> None:
        self.unusual.append(unusual)

    def pod_bytes(self, pod: Pod) -> bytes:
        return json.dumps({"metadata": {"name": pod.metadata.name}}).encode()

    def node_bytes(self, name: str) -> bytes:
        return json.dumps({"metadata": {"name": name}}).encode()


def engine_of(
    world: World, transport: ScriptedTransport, *extenders: Extender, percentage: int = 0
) -> Engine:
    """An engine over the world's cache with extenders."""
    return Engine(
        world.cache,
        {PROFILE: world.framework},
        world.nominations,
        clock=world.clock,
        random=random.Random(0),
        percentage_of_nodes_to_score=percentage,
        cycle_budget=world.budget,
        extenders=Extenders(extenders, transport, world.cache.table),
    )


def run(engine: Engine, pod: Pod) -> Attempt:
    """A cycle that never has to wait, to its end."""
    assert engine.suspends(pod)
    steps = engine.decide(QueuedPodInfo(pod, 0.0))
    try:
        steps.send(None)
    except StopIteration as end:
        attempt: Attempt = end.value
    else:
        raise AssertionError("nothing here waits")
    if attempt.failure is None:
        engine.commit(attempt)
    return attempt


def sent_names(transport: ScriptedTransport, verb: str) -> list[list[str]]:
    return [call["NodeNames"] for name, call in transport.requests if name == verb]


# -- interest -------------------------------------------------------------------------------------

GPU, NIC = "example.com/gpu", "example.com/nic"


@pytest.mark.parametrize(
    ("spec", "interested"),
    [
        ({}, False),
        ({"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}, False),
        ({"containers": [{"name": "c", "resources": {"requests": {GPU: "1"}}}]}, True),
        ({"containers": [{"name": "c", "resources": {"limits": {NIC: "0"}}}]}, True),
        ({"initContainers": [{"name": "i", "resources": {"limits": {GPU: "1"}}}]}, True),
        ({"containers": [{"name": "c"}, {"name": "d", "resources": {"requests": {NIC: "1"}}}]},
         True),
    ],
)  # fmt: skip
def test_an_extender_is_interested_in_pods_that_mention_its_resources(
    spec: dict[str, Any], interested: bool
) -> None:
    world = World()
    managed = (ExtenderManagedResource(name=GPU), ExtenderManagedResource(name=NIC))
    picky = Extender(url_prefix="http://p", filter_verb="f", managed_resources=managed)
    pod = world.pod(**spec)
    extenders = Extenders((picky,), ScriptedTransport(), world.cache.table)
    assert bool(extenders.interested(pod)) is interested
    assert extenders.suspends(pod) is interested


def test_a_binder_alone_suspends_nothing() -> None:
    world = World()
    extenders = Extenders(
        (Extender(url_prefix="http://b", bind_verb="b"),), ScriptedTransport(), world.cache.table
    )
    assert not extenders.suspends(world.pod())
    assert len(extenders.binders(world.pod())) == 1


def test_a_password_is_not_shown() -> None:
    assert display_name(Extender(url_prefix="http://u:secret@h:1/x")) == "http://h:1/x"
    assert display_name(Extender(url_prefix="https://h/a@b")) == "https://h/a@b"


# -- filter ---------------------------------------------------------------------------------------


def test_statuses_of_plugins_and_extenders_are_summarised_together() -> None:
    world = World(
        plugin("F", filter=lambda s, p, n: unschedulable("by F") if n.name == "n1" else None)
    )
    world.nodes("n1", "n2", "n3", "n4")
    transport = ScriptedTransport(
        filter={
            "FailedNodes": {"n1": "never given", "n2": "soft", "n3": "both"},
            "FailedAndUnresolvableNodes": {"n3": "hard"},
        }
    )
    attempt = run(engine_of(world, transport, FILTER), world.pod())
    assert attempt.failure is not None
    # n4 was rejected without a reason, and is not in the message.
    assert attempt.failure.message == "0/4 nodes are available: 1 by F, 1 hard, 1 soft."
    assert attempt.failure.unschedulable_plugins == {"F", "Extender"}


def test_the_nominated_node_is_sent_alone_first() -> None:
    world = World(plugin("F", filter=lambda *_: None))
    world.nodes("n1", "n2", "n3")
    transport = ScriptedTransport(filter=lambda call: {"NodeNames": call["NodeNames"]})
    attempt = run(engine_of(world, transport, FILTER), world.pod(nominated="n2"))
    assert attempt.result is not None
    assert attempt.result.node_name == "n2"
    assert sent_names(transport, "filter") == [["n2"]]


@pytest.mark.parametrize("fault", [False, True])
def test_all_nodes_are_tried_when_the_nominated_one_fails(fault: bool) -> None:
    world = World(plugin("F", filter=lambda *_: None))
    world.nodes("n1", "n2")

    def respond(call: Any) -> Any:
        if call["NodeNames"] == ["n2"]:
            return ExtenderError("down") if fault else {"NodeNames": []}
        return {"NodeNames": ["n1"]}

    transport = ScriptedTransport(filter=respond)
    attempt = run(engine_of(world, transport, FILTER), world.pod(nominated="n2"))
    assert attempt.result is not None
    assert attempt.result.node_name == "n1"
    assert sent_names(transport, "filter") == [["n2"], ["n1", "n2"]]


@pytest.mark.parametrize(
    ("nodes", "percentage", "sent"),
    [(50, 0, 50), (300, 0, 144), (300, 100, 300), (300, 40, 120), (150, 30, 100)],
)
def test_extenders_see_as_many_nodes_as_upstream_would_find(
    nodes: int, percentage: int, sent: int
) -> None:
    world = World(plugin("F", filter=lambda *_: None))
    world.nodes(*(f"n{index}" for index in range(nodes)))
    transport = ScriptedTransport(filter=lambda call: {"NodeNames": call["NodeNames"][:1]})
    engine = engine_of(world, transport, FILTER, percentage=percentage)
    for name in ("a", "b"):
        engine.abandon(run(engine, world.pod(name)))
    first, second = sent_names(transport, "filter")
    assert [len(first), len(second)] == [sent, sent]
    # The second search goes on where the first ended.
    assert (set(first) == set(second)) is (sent == nodes)


def test_no_extender_means_no_suspension() -> None:
    world = World()
    engine = engine_of(world, ScriptedTransport())
    assert not engine.may_suspend
    assert not engine.suspends(world.pod())


# -- scores ---------------------------------------------------------------------------------------


def scorer(verb: str, weight: int) -> Extender:
    return Extender(
        url_prefix="http://s", prioritize_verb=verb, weight=weight, node_cache_capable=True
    )


@pytest.mark.parametrize(
    ("weight", "chosen"),
    # n1 has 20 * 50 of the plugin, n2 has 10 * 10 * weight of the extender.
    [(1, "n1"), (9, "n1"), (11, "n2"), (1 << 62, "n2")],
)
def test_scores_are_scaled_and_weighted(weight: int, chosen: str) -> None:
    world = World(plugin("S", score=lambda s, p, n: 50 if n.name == "n1" else 0), weights={"S": 20})
    world.nodes("n1", "n2")
    transport = ScriptedTransport(prioritize=[{"Host": "n2", "Score": 10}])
    attempt = run(engine_of(world, transport, scorer("prioritize", weight)), world.pod())
    assert attempt.result is not None
    assert attempt.result.node_name == chosen


@pytest.mark.parametrize(
    ("listed", "chosen"),
    [
        # Upstream's own end-to-end test of extenders returns 50.
        ([{"Host": "n2", "Score": 50}, {"Host": "n1", "Score": 10}], "n2"),
        ([{"Host": "n1", "Score": -1}], "n2"),
        ([{"Host": "n2", "Score": 1}, {"Host": "unknown", "Score": 9}], "n2"),
        ([{"Host": "n1", "Score": -(1 << 62)}, {"Host": "n2", "Score": 1 << 62}], "n2"),
    ],
)
def test_unusual_scores_count_and_are_reported(listed: list[Any], chosen: str) -> None:
    world = World()
    world.nodes("n1", "n2")
    transport = ScriptedTransport(prioritize=listed)
    attempt = run(engine_of(world, transport, scorer("prioritize", 1 << 40)), world.pod())
    assert attempt.result is not None
    assert attempt.result.node_name == chosen
    assert len(transport.unusual) == 1
    assert not transport.ignored


def test_an_extender_scores_where_no_plugin_does() -> None:
    world = World()
    world.nodes("n1", "n2", "n3")
    transport = ScriptedTransport(prioritize=[{"Host": "n3", "Score": 1}])
    attempt = run(engine_of(world, transport, scorer("prioritize", 1)), world.pod())
    assert attempt.result is not None
    assert attempt.result.node_name == "n3"


def test_a_scorer_that_fails_leaves_the_others() -> None:
    world = World()
    world.nodes("n1", "n2")
    transport = ScriptedTransport(bad=ExtenderError("no"), good=[{"Host": "n2", "Score": 1}])
    attempt = run(engine_of(world, transport, scorer("bad", 9), scorer("good", 1)), world.pod())
    assert attempt.result is not None
    assert attempt.result.node_name == "n2"
    assert transport.ignored == ["no"]


# -- what changed meanwhile -----------------------------------------------------------------------


def test_commit_filters_a_node_again_only_if_it_changed() -> None:
    seen: list[str] = []
    world = World(plugin("F", filter=lambda s, p, n: seen.append(n.name)))
    world.nodes("n1", "n2")
    transport = ScriptedTransport(filter={"NodeNames": ["n1"]})
    engine = engine_of(world, transport, FILTER)
    run(engine, world.pod())
    assert seen == ["n1", "n2"]

    def change(_: Any) -> Any:
        world.node("n1", labels={"new": "label"})
        return {"NodeNames": ["n1"]}

    transport.responses["filter"] = change
    seen.clear()
    run(engine, world.pod("q"))
    assert seen == ["n1", "n2", "n1"]


def test_an_async_pre_filter_cannot_run_outside_a_scheduling_cycle() -> None:
    async def pre_filter(*_: Any) -> None:
        return None

    world = World(plugin("Asks", pre_filter=pre_filter))
    world.nodes("n1")
    engine = engine_of(world, ScriptedTransport())
    pod = world.pod()
    with pytest.raises(AttemptError, match='PreFilter plugin "Asks": it is async'):
        run_synchronously(engine.algorithms[PROFILE].search.find(CycleState(), pod))
    attempt = run(engine, pod)
    assert attempt.result is not None


def test_a_pod_may_relax_its_demands_in_a_cycle_with_extenders() -> None:
    relaxed: list[str] = []

    def no_until_relaxed(*_: Any) -> Any:
        return None if relaxed else unschedulable("too demanding")

    def relax(state: CycleState, pod: Pod) -> bool:
        relaxed.append(pod.metadata.name)
        return True

    demanding = plugin(
        "Demanding", pre_filter=lambda *_: None, filter=no_until_relaxed, relax=relax
    )
    world = World(demanding)
    world.nodes("n1")
    transport = ScriptedTransport(filter=lambda call: {"NodeNames": call["NodeNames"]})
    attempt = run(engine_of(world, transport, FILTER), world.pod())
    assert attempt.node_name == "n1"
    assert relaxed == ["p"]
