"""Claims and devices of any size cost little time of the cycle, and little memory."""

from __future__ import annotations

import contextlib
import tracemalloc
from typing import Any

import pytest

from plugins.dynamic_resources import selectors as selectors_module
from plugins.dynamic_resources.budget import (
    MAX_STEPS,
    ExpensiveSelectorsError,
    SearchBudget,
    SearchTimeoutError,
)
from plugins.dynamic_resources.counters import CounterTable
from plugins.dynamic_resources.devices import SliceView
from plugins.dynamic_resources.errors import AllocationError
from plugins.dynamic_resources.pools import Pool
from plugins.dynamic_resources.selectors import MAX_ERROR, SelectorError, Selectors
from plugins.dynamic_resources.verdicts import content_of
from scheduler.cel import DeviceSelector
from scheduler.cel.compiler import Compiler
from scheduler.cel.parser import Parsing
from scheduler.framework import CycleState
from tests.unit.plugins.dynamic_resources.objects import DeviceCluster, device
from tests.unit.plugins.dynamic_resources.worlds import (
    allocator,
    claim,
    names,
    node,
    request,
    slice_of,
)


class CycleEndedError(Exception):
    """Raised in place of the engine's error for a cycle over its budget."""


def test_a_search_ends_with_the_time_of_its_cycle() -> None:
    """Ten thousand devices, any two of which the constraint rejects."""
    world = DeviceCluster("n1")
    world.add_class()
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 79}
    for number in range(79):
        devices = (
            device(f"d{each}", attributes={"a": {"int": 128 * number + each}})
            for each in range(128)
        )
        made = [{**each, "name": f"s{number}-{each['name']}"} for each in devices]
        world.add_slice("n1", *made, name=f"s{number}", pool=pool)
    constraint = {"matchAttribute": "gpu.example.com/a", "requests": []}
    spec = {"devices": {"requests": [request(count=2)], "constraints": [constraint]}}
    metadata = {"name": "c", "namespace": "default", "uid": "uid-c"}
    world.api.put({"metadata": metadata, "spec": spec})
    checks = 0

    def check_time() -> None:
        nonlocal checks
        checks += 1
        if checks > 100:
            raise CycleEndedError

    state, table, subject = CycleState(), world.cluster.table, world.pod("c")
    state.check_time = check_time
    assert world.plugin.pre_filter(state, subject, table) is None
    with pytest.raises(CycleEndedError) as raised:
        world.plugin.filter_rows(state, subject, table, table.rows)
    assert raised.value.__notes__ == ["while it searched devices for claim c"]
    assert world.devices.selectors.evaluations == 0
    # What was found out is kept, and the next attempt is not confused by it.
    state.check_time = lambda: None
    assert world.plugin.pre_filter(state, world.pod(), table) is not None


def test_the_steps_of_a_search_are_limited_while_the_clock_stands_still() -> None:
    budget = SearchBudget(lambda: 0.0, 10.0)
    for _ in range(MAX_STEPS // 1000):
        budget(1000)
    with pytest.raises(SearchTimeoutError):
        budget(1000)
    unlimited = SearchBudget(lambda: 0.0, 0.0)
    for _ in range(MAX_STEPS // 1000 + 10):
        unlimited(1000)


EXPENSIVE = "lists.range(12000).all(x, x >= 0)"
"""An expression of more than half of the work of an evaluation."""


def test_an_attempt_ends_after_expensive_selectors_and_the_next_continues() -> None:
    view, selectors = slice_of([device(f"d{number}") for number in range(5)]), Selectors()
    wanted = claim(request(count=5, selectors=[{"cel": {"expression": EXPENSIVE}}]))
    for number in range(1, 6):
        with pytest.raises(ExpensiveSelectorsError):
            allocator([view], selectors=selectors).allocate(
                node(), [wanted], SearchBudget(lambda: 0.0, 0.0)
            )
        assert selectors.evaluations == number
    world = allocator([view], selectors=selectors)
    found = names(world.allocate(node(), [wanted], SearchBudget(lambda: 0.0, 0.0)))
    assert found == [["d0", "d1", "d2", "d3", "d4"]]


def test_an_attempt_ends_between_expensive_pieces_of_parsing_compiling_and_evaluating(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    view, selectors = slice_of([device("d0")]), Selectors()
    expensive = f"[{'1+1,' * 1200}1].all(x, {'x > 0 && ' * 10} x < 3)"
    steps = []
    for module, name in (
        (Parsing, "advance"),
        (Compiler, "finish"),
        (DeviceSelector, "matches"),
    ):
        original = getattr(module, name)

        def noted(*arguments: Any, name: str = name, original: Any = original) -> Any:
            steps.append(name)
            return original(*arguments)

        monkeypatch.setattr(module, name, noted)
    attempts = []
    for _ in range(3):
        budget = SearchBudget(lambda: 0.0, 0.0)
        with contextlib.suppress(ExpensiveSelectorsError):
            selectors.matches(expensive, view.devices[0], budget)
        attempts.append(steps[:])
        steps.clear()
    assert attempts == [["advance"] * 3, ["advance", "advance", "finish"], ["matches"]]
    assert selectors.matches(expensive, view.devices[0], SearchBudget(lambda: 0.0, 0.0))


def test_the_message_of_expensive_selectors_says_so() -> None:
    world = DeviceCluster("n1")
    world.add_class()
    world.add_slice("n1", device("d0"), device("d1"))
    selective = request(count=2, selectors=[{"cel": {"expression": EXPENSIVE}}])
    metadata = {"name": "c", "namespace": "default", "uid": "uid-c"}
    world.api.put({"metadata": metadata, "spec": {"devices": {"requests": [selective]}}})
    state, table = CycleState(), world.cluster.table
    for _ in range(2):
        assert world.plugin.pre_filter(state, world.pod("c"), table) is None
        with pytest.raises(AllocationError, match="the selectors are expensive"):
            world.plugin.filter_rows(state, world.pod("c"), table, table.rows)
    assert world.plugin.pre_filter(state, world.pod("c"), table) is None
    assert world.plugin.filter_rows(state, world.pod("c"), table, table.rows).tolist() == [0]


def test_an_error_that_quotes_what_the_expression_computed_is_cut() -> None:
    view = slice_of([device("d0"), device("d1")])
    text = '"x"' + "".join([".replace('x', 'xxxxxxxxxx')"] * 4)
    expression = f'device.attributes["gpu.example.com"][{text}] == 1'
    found = []
    for each in view.devices:
        with pytest.raises(SelectorError) as raised:
            Selectors().matches(expression, each)
        found.append(raised.value.args[0])
    assert len(found[0]) == MAX_ERROR
    assert found[0] is found[1], "stored once"


@pytest.mark.slow
def test_the_memory_of_long_expressions_is_limited() -> None:
    limit = selectors_module.MAX_BYTES // 4
    view, selectors = slice_of([device("d0")]), Selectors(max_bytes=limit)
    tracemalloc.start()
    try:
        for number in range(10):
            terms = "&&".join(["1<1"] * 1200)
            assert not selectors.matches(f"{number}<0&&{terms}", view.devices[0])
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 1 < selectors.cached_expressions < 10
    assert size < limit


def test_values_of_devices_are_kept_for_a_limited_number(monkeypatch: Any) -> None:
    monkeypatch.setattr(selectors_module, "MAX_VALUES", 5)
    slices = [slice_of([device("d0"), device("d1")], name=f"s{number}") for number in range(4)]
    selectors = Selectors()
    for view in slices:
        for each in view.devices:
            assert selectors.matches("true", each)
    assert len(selectors._values) == 2


def test_the_key_of_results_is_small_however_large_the_claims_are() -> None:
    large = [claim(request(f"r{number}", selectors=[SELECTOR])) for number in range(32)]
    key = content_of(large)
    assert key == content_of(list(large))
    assert key != content_of(large[1:])
    assert isinstance(key, bytes)
    assert len(key) == 32


SELECTOR = {"cel": {"expression": "true || " * 1000 + "true"}}


def counted(name: str, **amounts: int) -> dict[str, Any]:
    """Return a device that consumes counters, by counter set."""
    consumed = [
        {"counterSet": each, "counters": {"units": {"value": str(amount)}}}
        for each, amount in amounts.items()
    ]
    return device(name, consumesCounters=consumed)


def test_an_exhausted_counter_of_any_set_keeps_the_pool_from_being_used() -> None:
    sets = [{"name": each, "counters": {"units": {"value": "8"}}} for each in ("a", "b")]
    view = slice_of([counted("d0", a=9), counted("d1", b=4), counted("d2", b=4)])
    pool = _pool(view, slice_of([], sharedCounters=sets))
    first, second, third = view.devices
    table = CounterTable(lambda _: False)
    for each in (second, third):
        assert table.suffice(pool, each)
        table.take(pool, each)
    assert not table.suffice(pool, third)
    table.give_back(pool, second)
    assert table.suffice(pool, second)
    assert not table.suffice(pool, first)
    crowded = CounterTable(lambda each: each.device == "d0")
    assert not crowded.suffice(pool, second), "claims hold more of the other set than there is"


def _pool(view: SliceView, counters: SliceView) -> Pool:
    return Pool("d", "p", devices=list(view.devices), counter_slices=[counters])


def test_a_trial_leaves_the_random_source_as_it_was() -> None:
    world = DeviceCluster("n1", "n2")
    world.add_class()
    for name in ("n1", "n2"):
        world.add_slice(name, device("d0", allowMultipleAllocations=True))
    alternatives = [{"name": each, **request()["exactly"]} for each in ("s1", "s2")]
    world.add_claim("c", {"name": "r", "firstAvailable": alternatives})
    subject, table = world.pod("c"), world.cluster.table
    before, state = world.handle.random.getstate(), CycleState()
    assert world.plugin.pre_filter(state, subject, table) is None
    assert not world.plugin.filter_rows(state, subject, table, table.rows).any()
    assert world.plugin.score_rows(state, subject, table, table.rows).tolist() == [8, 8]
    assert world.plugin.score(state, subject, table.node_info(0)) == 8
    assert world.handle.random.getstate() == before
