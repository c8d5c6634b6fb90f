"""The bounds of the allocator, and its failures.

Its rules one by one are in the recorded vectors (`tests/unit/api/test_unit_vectors.py`), and all
together in `test_allocator_worlds.py`.
"""

from __future__ import annotations

from typing import Any

import pytest

from plugins.dynamic_resources.devices import SliceView
from plugins.dynamic_resources.errors import AllocationError, NodeAllocationError
from plugins.dynamic_resources.pools import SliceIndex
from plugins.dynamic_resources.selectors import Selectors
from tests.unit.plugins.dynamic_resources.worlds import (
    DRIVER,
    allocator,
    claim,
    class_of,
    names,
    node,
    request,
    slice_of,
)


def devices_named(number: int, prefix: str = "d") -> list[dict[str, Any]]:
    """Return devices that differ in their names only."""
    return [{"name": f"{prefix}{i}", "attributes": {"index": {"int": i}}} for i in range(number)]


def test_an_expression_is_evaluated_once_for_each_device_of_a_pool() -> None:
    def view(number: int) -> SliceView:
        return slice_of(
            devices_named(100, f"s{number}-"),
            name=f"s{number}",
            nodeName=None,
            allNodes=True,
            pool={"name": "p", "generation": 1, "resourceSliceCount": 10},
        )

    selectors = Selectors()
    views = [view(number) for number in range(10)]
    selective = class_of("gpu", f'device.attributes["{DRIVER}"].index == 200')
    world = allocator(views, selective, selectors=selectors)
    for number in range(5):
        assert world.allocate(node(f"n{number}"), [claim(request())]) is None
    assert selectors.evaluations == 1000
    # A new version of one slice is evaluated again, the others are not.
    views[0] = view(0)
    world = allocator(views, selective, selectors=selectors)
    assert world.allocate(node(), [claim(request())]) is None
    assert selectors.evaluations == 1100


def test_the_memory_of_selectors_is_bounded() -> None:
    selectors = Selectors(max_results=250, max_expressions=1000)
    view = slice_of(devices_named(100))
    for number in range(10):
        expression = f'device.attributes["{DRIVER}"].index > {number + 100}'
        world = allocator([view], class_of("gpu", expression), selectors=selectors)
        assert world.allocate(node(), [claim(request())]) is None
        assert selectors.cached_results <= 250
    few = Selectors(max_expressions=3)
    for number in range(10):
        allocator([view], class_of("gpu", f"{number} >= 0"), selectors=few).allocate(
            node(), [claim(request())]
        )
        assert few.cached_expressions <= 3


class StoppedError(Exception):
    """The end of a search, as a caller makes it."""


def test_a_request_for_more_devices_than_there_are_fails_at_once() -> None:
    """The search takes as many steps as there are devices; upstream's takes 2^30."""
    world = allocator([slice_of(devices_named(30))])
    assert world.allocate(node(), [claim(request(count=31))]) is None
    assert world.steps <= 32


def test_alternatives_are_tried_after_one_that_ran_out_of_devices() -> None:
    alternatives = [{"name": f"s{count}", **request(count=count)["exactly"]} for count in (5, 4, 2)]
    wanted = claim(request("first"), {"name": "r", "firstAvailable": alternatives})
    found = allocator([slice_of(devices_named(3))]).allocate(node(), [wanted])
    assert names(found) == [["d0", "d1", "d2"]]


def test_the_check_ends_an_exponential_search() -> None:
    """A constraint that no three devices meet, which no bound finds out."""
    total = 0

    def check(steps: int = 1) -> None:
        nonlocal total
        total += steps
        if total > 1000:
            raise StoppedError

    raw = [
        {**each, "attributes": {"pair": {"int": i // 2}}}
        for i, each in enumerate(devices_named(30))
    ]
    constraints = [{"matchAttribute": f"{DRIVER}/pair"}]
    wanted = [claim(request(count=2), name=f"c{i}", constraints=constraints) for i in range(13)]
    wanted.append(claim(request(count=3), constraints=constraints))
    world = allocator([slice_of(raw)])
    with pytest.raises(StoppedError):
        world.allocate(node(), wanted, check)
    # Other steps looked at the slice and its devices.
    assert 500 < world.steps < 1000


def test_the_check_ends_the_evaluation_of_an_expensive_expression() -> None:
    total = 0

    def check(steps: int = 1) -> None:
        nonlocal total
        total += steps
        if total > 50:
            raise StoppedError

    expensive = "lists.range(1000).all(a, lists.range(900).all(b, true))"
    world = allocator([slice_of(devices_named(30))], class_of("gpu", expensive))
    with pytest.raises(StoppedError):
        world.allocate(node(), [claim(request())], check)


def test_many_claims_need_no_stack() -> None:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    world = allocator([slice_of(devices_named(2000), pool=pool)])
    claims = [claim(request(count=20), name=f"c{i}") for i in range(100)]
    found = names(world.allocate(node(), claims))
    assert found is not None
    assert len({device for each in found for device in each}) == 2000


@pytest.mark.parametrize(
    ("devices", "requests", "error", "message"),
    [
        (["d", "d"], [request()], NodeAllocationError, "invalid resource pools"),
        (["d"], [request(count=33)], AllocationError, "exceeds the claim limit of 32"),
        (["d"], [request(allocationMode="Some")], AllocationError, "unsupported count mode Some"),
        (["d"], [request(deviceClassName="x")], AllocationError, "could not retrieve device class"),
        (["d"], [{"name": "r"}], AllocationError, "unknown request type"),
        (
            ["d"],
            [request(selectors=[{"cel": {"expression": "("}}])],
            AllocationError,
            "claim default/c: selector #0: CEL compile error: ",
        ),
        (
            ["d"],
            [request(selectors=[{"cel": {"expression": "1 / 0 == 1"}}])],
            AllocationError,
            (
                "claim default/c: selector #0 on device gpu.example.com/p/d: CEL runtime error: "
                "division by zero"
            ),
        ),
    ],
)
def test_failures(
    devices: list[str], requests: list[dict[str, Any]], error: type[Exception], message: str
) -> None:
    world = allocator([slice_of([{"name": each} for each in devices])])
    with pytest.raises(error, match=message):
        world.allocate(node(), [claim(*requests)])


def test_contradictory_counters_make_a_pool_invalid() -> None:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 2}
    consumer = {"name": "d", "consumesCounters": [{"counterSet": "x", "counters": {}}]}
    slices = [
        slice_of([consumer], pool=pool),
        slice_of([], name="t", pool=pool, sharedCounters=[{"name": "y", "counters": {}}]),
    ]
    with pytest.raises(NodeAllocationError):
        allocator(slices).allocate(node(), [claim(request())])


def test_the_slices_of_an_index_can_be_replaced_and_removed() -> None:
    index = SliceIndex([slice_of(devices_named(1))])
    index.set(slice_of(devices_named(2), nodeName="n2"))
    assert len(index) == 1
    assert not list(index.for_node("n1"))
    (view,) = index.for_node("n2")
    assert list(index.of_pool((DRIVER, "p"))) == [view]
    index.remove("s")
    index.remove("s")
    assert len(index) == 0
    assert not list(index.for_node("n2"))
    assert not list(index.of_pool((DRIVER, "p")))
