"""The allocator against a brute-force search on small worlds, and its bounds.

Its rules one by one are in the recorded vectors (`tests/unit/api/test_unit_vectors.py`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plugins.dynamic_resources.devices import DeviceID, SliceView
from plugins.dynamic_resources.errors import AllocationError, NodeAllocationError
from plugins.dynamic_resources.pools import SliceIndex
from plugins.dynamic_resources.search import Allocated
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


@dataclass(frozen=True)
class GPU:
    """A device of a small world."""

    model: str
    rack: int
    memory: int
    counters: int
    tainted: bool
    in_use: bool

    def spec(self, index: int) -> dict[str, Any]:
        """Return it as JSON."""
        raw: dict[str, Any] = {
            "name": f"d{index}",
            "attributes": {"model": {"string": self.model}, "example.org/rack": {"int": self.rack}},
            "capacity": {"memory": {"value": f"{self.memory}Gi"}},
        }
        if self.tainted:
            raw["taints"] = [{"key": "k", "effect": "NoSchedule"}]
        if self.counters:
            counters = {"units": {"value": str(self.counters)}}
            raw["consumesCounters"] = [{"counterSet": "set", "counters": counters}]
        return raw


@dataclass(frozen=True)
class Want:
    """A request, or one alternative of it."""

    count: int
    model: str | None
    memory: int
    tolerates: bool

    def spec(self) -> dict[str, Any]:
        """Return it as JSON, without a name."""
        raw = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": self.count}
        if self.model:
            expression = f'device.attributes["{DRIVER}"].model == "{self.model}"'
            raw["selectors"] = [{"cel": {"expression": expression}}]
        if self.memory:
            raw["capacity"] = {"requests": {"memory": f"{self.memory}Gi"}}
        if self.tolerates:
            raw["tolerations"] = [{"key": "k", "operator": "Exists"}]
        return raw

    def accepts(self, gpu: GPU) -> bool:
        """Whether a device suffices."""
        return (
            not gpu.in_use
            and self.model in (None, gpu.model)
            and self.memory <= gpu.memory
            and (self.tolerates or not gpu.tainted)
        )


Alternatives = tuple[Want, ...]

gpus = st.builds(
    GPU,
    st.sampled_from(["a100", "h100"]),
    st.integers(0, 1),
    st.sampled_from([8, 40]),
    st.integers(0, 2),
    st.just(False),
    st.integers(0, 4).map(lambda number: number == 0),
)
wants = st.builds(
    Want,
    st.integers(1, 2),
    st.sampled_from([None, None, "a100", "h100"]),
    st.sampled_from([0, 0, 40]),
    st.booleans(),
)
requests = st.lists(wants, min_size=1, max_size=2).map(tuple)
claims = st.lists(st.lists(requests, min_size=1, max_size=2), min_size=1, max_size=2)


def solutions(alternatives: Alternatives, devices: list[GPU]) -> Iterator[tuple[int, ...]]:
    """Yield the sets of devices for a request, the most preferred first."""
    for want in alternatives:
        fitting = [i for i, each in enumerate(devices) if want.accepts(each)]
        yield from itertools.combinations(fitting, want.count)


def first_solution(
    wanted: list[list[Alternatives]], devices: list[GPU], units: int, same_rack: bool
) -> list[list[int]] | None:
    """Return the devices of each claim: the first of all assignments that breaks no rule."""
    flat = [each for requests in wanted for each in requests]
    for chosen in itertools.product(*(list(solutions(each, devices)) for each in flat)):
        taken = [i for each in chosen for i in each]
        if len(set(taken)) < len(taken) or sum(devices[i].counters for i in taken) > units:
            continue
        remaining = iter(chosen)
        found = [[i for _ in requests for i in next(remaining)] for requests in wanted]
        if same_rack and any(len({devices[i].rack for i in each}) > 1 for each in found):
            continue
        return found
    return None


def search(
    wanted: list[list[Alternatives]], devices: list[GPU], units: int, same_rack: bool
) -> list[list[str]] | None:
    """Return the names of the devices that the allocator finds."""
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 2}
    counters = [{"name": "set", "counters": {"units": {"value": str(units)}}}]
    slices = [
        slice_of([each.spec(i) for i, each in enumerate(devices)], pool=pool),
        slice_of([], name="counters", pool=pool, sharedCounters=counters),
    ]
    constraints = [{"matchAttribute": "example.org/rack"}] if same_rack else []
    objects = [
        claim(
            *(
                {
                    "name": f"r{number}",
                    "firstAvailable": [
                        {"name": f"s{i}", **each.spec()} for i, each in enumerate(alternatives)
                    ],
                }
                for number, alternatives in enumerate(requests)
            ),
            name=f"c{index}",
            constraints=constraints,
        )
        for index, requests in enumerate(wanted)
    ]
    in_use = {DeviceID(DRIVER, "p", f"d{i}") for i, each in enumerate(devices) if each.in_use}
    quick, exhaustive = (
        allocator(slices, allocated=Allocated(in_use), exhaustive=exhaustive)
        for exhaustive in (False, True)
    )
    found = quick.allocate(node(), objects)
    assert found == exhaustive.allocate(node(), objects)
    assert quick.steps <= exhaustive.steps
    return names(found)


def expected(
    wanted: list[list[Alternatives]], devices: list[GPU], units: int, *, same_rack: bool = False
) -> list[list[str]] | None:
    """Return the names of the devices that brute force finds."""
    left = units - sum(each.counters for each in devices if each.in_use)
    if left < 0:
        # Nothing more is taken of counters that are overcommitted.
        devices = [replace(each, in_use=each.in_use or each.counters > 0) for each in devices]
        left = 0
    found = first_solution(wanted, devices, left, same_rack=same_rack)
    return None if found is None else [[f"d{i}" for i in each] for each in found]


@given(claims, st.lists(gpus, max_size=5), st.integers(0, 6))
@settings(max_examples=60, deadline=None)
def test_finds_what_brute_force_finds_with_shared_counters(
    wanted: list[list[Alternatives]], devices: list[GPU], units: int
) -> None:
    """Without taints and constraints: those make upstream forget to give counters back."""
    found = search(wanted, devices, units, same_rack=False)
    assert found == expected(wanted, devices, units)


@given(claims, st.lists(gpus, max_size=5), st.lists(st.booleans(), min_size=5, max_size=5))
@settings(max_examples=60, deadline=None)
def test_finds_what_brute_force_finds_with_taints_and_a_constraint(
    wanted: list[list[Alternatives]], devices: list[GPU], tainted: list[bool]
) -> None:
    devices = [
        replace(each, counters=0, tainted=taint)
        for each, taint in zip(devices, tainted, strict=False)
    ]
    found = search(wanted, devices, 0, same_rack=True)
    assert found == expected(wanted, devices, 0, same_rack=True)


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
            "claim default/c: selector #0: CEL runtime error: division by zero",
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
