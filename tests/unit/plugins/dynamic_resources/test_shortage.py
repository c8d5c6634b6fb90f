"""The bound on short devices: it refuses what a search would look for in vain, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plugins.dynamic_resources.errors import AllocationError, NodeAllocationError
from plugins.dynamic_resources.shortage import MAX_TOTAL
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

MODEL = f'device.attributes["{DRIVER}"].model == "{{model}}"'


class StoppedError(Exception):
    """The end of a search, as a caller makes it."""


def devices(*models: str) -> list[dict[str, Any]]:
    """Return devices of these models; an empty one has no such attribute, an error for selectors.

    A model that ends in `+` is that of a device which claims share.
    """
    found = []
    for number, model in enumerate(models):
        raw: dict[str, Any] = {"name": f"d{number}"}
        if model:
            raw["attributes"] = {"model": {"string": model.rstrip("+")}}
        if model.endswith("+"):
            raw |= {"allowMultipleAllocations": True, "capacity": {"memory": {"value": "10Gi"}}}
        found.append(raw)
    return found


def wanted(name: str, count: int = 1, model: str = "", **exactly: Any) -> dict[str, Any]:
    """Return a request for devices of a model, or of any."""
    if model:
        exactly["selectors"] = [{"cel": {"expression": MODEL.format(model=model)}}]
    return request(name, count, **exactly)


def steps(available: list[dict[str, Any]], *claims: list[dict[str, Any]]) -> int:
    """Return the steps of a search that finds nothing."""
    world = allocator([slice_of(available)])
    objects = [claim(*each, name=f"c{number}") for number, each in enumerate(claims)]

    def check(steps: int = 1) -> None:
        if world.steps > 100:
            raise StoppedError

    assert world.allocate(node(), objects, check) is None
    return world.steps


def test_requests_that_together_want_one_device_too_many_are_refused_at_once() -> None:
    """Upstream tries every way to share 30 devices out."""
    plain = devices(*["a"] * 30)
    assert steps(plain, [wanted("x", 15), wanted("y", 16)]) == 0
    assert steps(plain, [wanted(f"r{number}") for number in range(31)]) == 0
    assert steps(plain, [wanted("x", 15)], [wanted("y", 16)]) == 0


def test_a_shortage_of_what_only_some_requests_accept_is_found() -> None:
    mixed = devices(*["a"] * 3, *["b"] * 20)
    few = [wanted(f"r{number}", model="a") for number in range(4)]
    assert steps(mixed, [*few, wanted("any", 10)]) == 0


def test_alternatives_count_with_the_fewest_devices() -> None:
    few = {"name": "few", "firstAvailable": [{"name": "s", **wanted("s", 2)["exactly"]}]}
    both = {
        "name": "both",
        "firstAvailable": [
            {"name": name, **wanted(name, count, model)["exactly"]}
            for name, count, model in (("large", 9, "a"), ("small", 2, "b"))
        ],
    }
    assert steps(devices("a", "b", "b"), [few, both]) == 0
    found = allocator([slice_of(devices("a", "a", "b", "b"))]).allocate(node(), [claim(few, both)])
    assert names(found) == [["d0", "d1", "d2", "d3"]]


def test_devices_that_are_shared_are_never_short() -> None:
    requests = [wanted(name, capacity={"requests": {"memory": "2Gi"}}) for name in "abcd"]
    found = allocator([slice_of(devices("a+"))]).allocate(node(), [claim(*requests)])
    assert names(found) == [["d0"] * 4]


def test_an_error_of_a_selector_precedes_a_shortage() -> None:
    """Also for a device at which no request would have to look."""
    world = allocator([slice_of(devices("a", "a", ""))])
    with pytest.raises(AllocationError, match="selector #0"):
        world.allocate(node(), [claim(wanted("x", 2, "a"), wanted("y", 2, "a"))])


def test_very_many_devices_are_left_to_the_search() -> None:
    assert MAX_TOTAL < 130
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    world = allocator([slice_of(devices(*["a"] * 130), pool=pool)])
    claims = [claim(wanted("x", 26), name=f"c{number}") for number in range(5)]
    assert world.allocate(node(), claims) is not None


requests = st.builds(
    wanted,
    st.just("r"),
    st.integers(1, 2),
    st.sampled_from(["", "a", "a", "b"]),
    adminAccess=st.sampled_from([None, None, None, True]),
    allocationMode=st.sampled_from(["ExactCount"] * 4 + ["All"]),
)


@given(
    st.lists(st.lists(requests, min_size=1, max_size=3), min_size=1, max_size=2),
    st.lists(st.sampled_from(["a", "a", "b", "b", "b+", ""]), max_size=4),
    st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_the_bound_changes_no_outcome(
    wishes: list[list[dict[str, Any]]], models: list[str], constrained: bool
) -> None:
    constraints = [{"matchAttribute": f"{DRIVER}/model"}] if constrained else []
    objects = [
        claim(
            *({**each, "name": f"r{number}"} for number, each in enumerate(wish)),
            name=f"c{index}",
            constraints=constraints,
        )
        for index, wish in enumerate(wishes)
    ]
    outcomes = []
    for exhaustive in (False, True):
        world = allocator([slice_of(devices(*models))], class_of(), exhaustive=exhaustive)
        try:
            outcomes.append(names(world.allocate(node(), objects)))
        except (AllocationError, NodeAllocationError) as error:
            outcomes.append([[str(error)]])
    assert outcomes[0] == outcomes[1]
