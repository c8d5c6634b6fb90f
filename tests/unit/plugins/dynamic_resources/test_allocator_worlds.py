"""The allocator against a brute-force search, which computes every rule anew, in small worlds."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plugins.dynamic_resources.devices import DeviceID
from plugins.dynamic_resources.search import Allocated
from scheduler.api.quantity import parse
from tests.unit.plugins.dynamic_resources.worlds import (
    DRIVER,
    allocator,
    claim,
    names,
    node,
    request,
    slice_of,
)

CAPACITY = 40
"""Memory of each device, in GiB."""


@dataclass(frozen=True)
class GPU:
    """A device of a small world."""

    model: str
    rack: int
    counters: int
    tainted: bool
    #: Whether several claims may share it.
    shareable: bool
    #: Memory that another pod holds; of a device that is not shareable, all.
    in_use: int

    def spec(self, index: int) -> dict[str, Any]:
        """Return it as JSON."""
        raw: dict[str, Any] = {
            "name": f"d{index}",
            "attributes": {"model": {"string": self.model}, "example.org/rack": {"int": self.rack}},
            "capacity": {"memory": {"value": f"{CAPACITY}Gi"}},
        }
        if self.tainted:
            raw["taints"] = [{"key": "k", "effect": "NoSchedule"}]
        if self.counters:
            counters = {"units": {"value": str(self.counters)}}
            raw["consumesCounters"] = [{"counterSet": "set", "counters": counters}]
        if self.shareable:
            raw["allowMultipleAllocations"] = True
        return raw


@dataclass(frozen=True)
class Want:
    """A request, or one alternative of it."""

    #: 0: all devices.
    count: int
    model: str | None
    memory: int
    tolerates: bool
    admin: bool = False

    def spec(self) -> dict[str, Any]:
        """Return it as JSON, without a name."""
        raw: dict[str, Any] = {"deviceClassName": "gpu", "allocationMode": "All"}
        if self.count:
            raw |= {"allocationMode": "ExactCount", "count": self.count}
        if self.model:
            expression = f'device.attributes["{DRIVER}"].model == "{self.model}"'
            raw["selectors"] = [{"cel": {"expression": expression}}]
        if self.memory:
            raw["capacity"] = {"requests": {"memory": f"{self.memory}Gi"}}
        if self.tolerates:
            raw["tolerations"] = [{"key": "k", "operator": "Exists"}]
        if self.admin:
            raw["adminAccess"] = True
        return raw

    def free_of(self, gpu: GPU) -> bool:
        """Whether a device, as other pods use it, has what is wanted."""
        used = gpu.in_use if gpu.shareable and not self.admin else 0
        needed = self.memory or (CAPACITY if gpu.shareable else 0)
        return self.model in (None, gpu.model) and needed + used <= CAPACITY


Alternatives = tuple[Want, ...]
Constraints = tuple[str, ...]
"""The rules of each claim: `same rack`, `different models`."""


@dataclass(frozen=True)
class Choice:
    """Devices for a request."""

    claim: int
    want: Want
    devices: tuple[int, ...]


gpus = st.builds(
    GPU,
    st.sampled_from(["a100", "h100"]),
    st.integers(0, 1),
    st.integers(0, 2),
    st.sampled_from([False] * 4 + [True]),
    st.booleans(),
    st.sampled_from([0] * 6 + [10, 40]),
)
wants = st.builds(
    Want,
    st.sampled_from([1, 1, 1, 2]),
    st.sampled_from([None, None, "a100", "h100"]),
    st.sampled_from([0, 10, 20, 20]),
    st.booleans(),
)
requests = st.one_of(
    wants.map(lambda want: (want,)),
    st.tuples(wants, wants),
    wants.map(lambda want: (replace(want, admin=True),)),
)
# Numbers that let about a third of the worlds have a solution, often not the first one tried.
claims = st.sampled_from([(1, 1), (2,), (1, 2), (2, 1), (3,), (2, 2), (1, 1, 1)]).flatmap(
    lambda counts: st.tuples(
        *(st.lists(requests, min_size=count, max_size=count) for count in counts)
    ).map(list)
)
worlds = st.lists(gpus, min_size=3, max_size=5)
constraints = st.sampled_from(
    [(), ("same rack",), ("different models",), ("same rack", "different models")]
)


def is_allowed(chosen: list[Choice], devices: list[GPU], units: int, rules: Constraints) -> bool:
    """Whether choices break no rule, computed anew from all of them."""
    left = units - sum(each.counters for each in devices if each.in_use)
    of_claims: list[tuple[int, int]] = []
    exclusive: set[int] = set()
    memory = [each.in_use if each.shareable else 0 for each in devices]
    counted: set[int] = set()
    for choice in chosen:
        want, claim = choice.want, choice.claim
        for i in choice.devices:
            gpu = devices[i]
            if not want.free_of(gpu) or (gpu.tainted and not want.tolerates):
                return False
            if not gpu.shareable:
                if (claim, i) in of_claims or (not want.admin and (i in exclusive or gpu.in_use)):
                    return False
                exclusive.add(i)
            elif not want.admin:
                memory[i] += want.memory or CAPACITY
            of_claims.append((claim, i))
            if not want.admin and not (gpu.shareable and gpu.in_use) and gpu.counters:
                counted.add(i)
    if any(each > CAPACITY for i, each in enumerate(memory) if i in _touched(chosen)):
        return False
    if counted and (left < 0 or sum(devices[i].counters for i in counted) > left):
        return False
    for claim in {each.claim for each in chosen}:
        held = [devices[i] for number, i in of_claims if number == claim]
        if "same rack" in rules and len({each.rack for each in held}) > 1:
            return False
        if "different models" in rules and len({each.model for each in held}) < len(held):
            return False
    return True


def _touched(chosen: list[Choice]) -> set[int]:
    return {i for each in chosen if not each.want.admin for i in each.devices}


def options(want: Want, devices: list[GPU]) -> Iterator[tuple[int, ...]]:
    """Yield the sets of devices that a request may ask for, in the order of the search."""
    if want.count:
        yield from itertools.combinations(range(len(devices)), want.count)
        return
    everything = tuple(i for i, each in enumerate(devices) if want.free_of(each))
    if everything:
        yield everything


def expected(
    wanted: list[list[Alternatives]], devices: list[GPU], units: int, rules: Constraints = ()
) -> list[list[str]] | None:
    """Return the names of the devices of each claim: the first choices that break no rule."""
    flat = [(claim, each) for claim, requests in enumerate(wanted) for each in requests]

    def extended(chosen: list[Choice]) -> list[Choice] | None:
        if len(chosen) == len(flat):
            return chosen
        claim, alternatives = flat[len(chosen)]
        for want in alternatives:
            for option in options(want, devices):
                following = [*chosen, Choice(claim, want, option)]
                if is_allowed(following, devices, units, rules):
                    found = extended(following)
                    if found is not None:
                        return found
        return None

    found = extended([])
    if found is None:
        return None
    return [
        [f"d{i}" for each in found if each.claim == claim for i in each.devices]
        for claim in range(len(wanted))
    ]


RULES = {
    "same rack": {"matchAttribute": "example.org/rack"},
    "different models": {"distinctAttribute": f"{DRIVER}/model"},
}


def search(
    wanted: list[list[Alternatives]], devices: list[GPU], units: int, rules: Constraints = ()
) -> list[list[str]] | None:
    """Return the names of the devices that the allocator finds."""
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 2}
    counters = [{"name": "set", "counters": {"units": {"value": str(units)}}}]
    slices = [
        slice_of([each.spec(i) for i, each in enumerate(devices)], pool=pool),
        slice_of([], name="counters", pool=pool, sharedCounters=counters),
    ]
    objects = [
        claim(
            *(_request(number, each) for number, each in enumerate(requests)),
            name=f"c{index}",
            constraints=[RULES[each] for each in rules],
        )
        for index, requests in enumerate(wanted)
    ]
    ids = [DeviceID(DRIVER, "p", f"d{i}") for i in range(len(devices))]
    used = [(of, each) for of, each in zip(ids, devices, strict=True) if each.in_use]
    allocated = Allocated(
        {of for of, each in used if not each.shareable},
        {of for of, each in used if each.shareable},
        {of: {"memory": parse(f"{each.in_use}Gi")} for of, each in used if each.shareable},
    )
    quick, exhaustive = (
        allocator(slices, allocated=allocated, exhaustive=exhaustive)
        for exhaustive in (False, True)
    )
    found = quick.allocate(node(), objects)
    assert found == exhaustive.allocate(node(), objects)
    assert quick.steps <= exhaustive.steps
    return names(found)


def _request(number: int, alternatives: Alternatives) -> dict[str, Any]:
    name = f"r{number}"
    if alternatives[0].admin:
        return {"name": name, "exactly": alternatives[0].spec()}
    available = [{"name": f"s{i}", **each.spec()} for i, each in enumerate(alternatives)]
    return {"name": name, "firstAvailable": available}


@given(claims, worlds, st.integers(0, 5), constraints)
@settings(max_examples=100, deadline=None)
def test_finds_what_brute_force_finds(
    wanted: list[list[Alternatives]], devices: list[GPU], units: int, rules: Constraints
) -> None:
    assert search(wanted, devices, units, rules) == expected(wanted, devices, units, rules)


@given(claims, worlds, st.integers(0, 5), st.data())
@settings(max_examples=40, deadline=None)
def test_finds_what_brute_force_finds_if_a_request_is_for_all_devices(
    wanted: list[list[Alternatives]], devices: list[GPU], units: int, data: st.DataObject
) -> None:
    """Without constraints, which are an error if all devices do not meet them."""
    claim = data.draw(st.integers(0, len(wanted) - 1))
    number = data.draw(st.integers(0, len(wanted[claim]) - 1))
    first, *others = wanted[claim][number]
    wanted[claim][number] = (replace(first, count=0), *others)
    assert search(wanted, devices, units) == expected(wanted, devices, units)


GOOD = GPU("a100", 0, 1, tainted=False, shareable=False, in_use=0)
ONE = Want(1, None, 0, tolerates=False)
ADMIN = replace(ONE, admin=True)


@pytest.mark.parametrize(
    ("wanted", "devices", "rules", "found"),
    [
        pytest.param(
            [[(ONE,)]], [replace(GOOD, tainted=True), GOOD], (), [["d1"]], id="refused for a taint"
        ),
        pytest.param(
            [[(ONE,), (ONE,)]],
            [replace(GOOD, counters=0), replace(GOOD, rack=1), GOOD],
            ("same rack",),
            [["d0", "d2"]],
            id="refused by a constraint",
        ),
        pytest.param(
            [[(replace(ONE, memory=20), replace(ONE, model="t4")), (replace(ONE, model="h100"),)]],
            [
                replace(GOOD, shareable=True),
                replace(GOOD, model="h100"),
                replace(GOOD, model="t4", counters=0),
            ],
            (),
            [["d2", "d1"]],
            id="put back, although it can be shared",
        ),
        pytest.param(
            [[(replace(ONE, memory=20),), (replace(ONE, memory=30, model="a100"),)]],
            [replace(GOOD, shareable=True, counters=0), replace(GOOD, model="h100")],
            (),
            [["d1", "d0"]],
            id="capacity that was put back",
        ),
        pytest.param(
            [[(ADMIN,)]], [replace(GOOD, in_use=CAPACITY)], (), [["d0"]], id="admin access, in use"
        ),
        pytest.param(
            [[(ADMIN,), (ONE,)]], [GOOD, GOOD], (), [["d0", "d1"]], id="admin access takes nothing"
        ),
        pytest.param(
            [[(ADMIN,)], [(replace(ONE, memory=CAPACITY),)]],
            [replace(GOOD, shareable=True)],
            (),
            [["d0"], ["d0"]],
            id="admin access takes no capacity",
        ),
        pytest.param(
            [[(ADMIN,)]],
            [replace(GOOD, shareable=True, in_use=CAPACITY)],
            (),
            [["d0"]],
            id="admin access needs no capacity",
        ),
        pytest.param(
            [[(replace(ONE, count=3),)]],
            [GOOD, replace(GOOD, model="h100"), GOOD],
            ("different models",),
            None,
            id="the first and the third alike",
        ),
        pytest.param(
            [[(replace(ONE, count=2),), (ONE,)]],
            [
                replace(GOOD, model=model, counters=0, tainted=tainted)
                for model, tainted in (
                    ("a100", False),
                    ("h100", False),
                    ("h100", True),
                    ("a100", False),
                )
            ],
            ("different models",),
            None,
            id="after going back in a request",
        ),
    ],
)
def test_what_is_refused_or_put_back_leaves_no_trace(
    wanted: list[list[Alternatives]],
    devices: list[GPU],
    rules: Constraints,
    found: list[list[str]] | None,
) -> None:
    """There is one unit of the counter, which each device needs."""
    assert search(wanted, devices, 1, rules) == found
    assert expected(wanted, devices, 1, rules) == found


def test_all_devices_with_counters_are_allocated() -> None:
    everything = replace(ONE, count=0)
    assert search([[(everything,)]], [GOOD, GOOD], 2) == [["d0", "d1"]]
    assert search([[(everything,)]], [GOOD, GOOD], 1) is None


def test_pools_of_two_drivers_with_one_name_have_counters_of_their_own() -> None:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 2}
    counters = [{"name": "set", "counters": {"units": {"value": "1"}}}]
    slices = []
    for driver in ("a.example.com", "b.example.com"):
        own = {"driver": driver, "pool": pool}
        slices += [
            slice_of([GOOD.spec(0)], name=driver, **own),
            slice_of([], name=f"{driver}-counters", **own, sharedCounters=counters),
        ]
    assert names(allocator(slices).allocate(node(), [claim(request(count=2))])) == [["d0", "d0"]]
