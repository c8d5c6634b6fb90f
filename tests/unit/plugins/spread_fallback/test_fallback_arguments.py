"""Validation of the arguments of the fallback (rules S14 and S17)."""

from __future__ import annotations

import msgspec
import pytest

from plugins.pod_topology_spread.arguments import PodTopologySpreadArgs, argument_problems
from tests.unit.plugins.spread_fallback.bench import (
    NPF,
    PF,
    constraint,
)


def test_s17_the_timeout_is_greater_than_zero() -> None:
    for text, problems in (("PT0S", 1), ("-PT1S", 1), ("PT1S", 0)):
        args = msgspec.convert({"nodeProvisioningTimeout": text}, PodTopologySpreadArgs)
        found = list(argument_problems(args))
        assert len(found) == problems
        assert all(path == "nodeProvisioningTimeout" for path, _ in found)


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"whenUnsatisfiable": "ScheduleAnyway", "fallbackCriteria": [NPF]}, "fallbackCriteria"),
        ({"fallbackCriteria": ["Nope"]}, "fallbackCriteria[0]"),
        ({"fallbackCriteria": [NPF, PF, NPF]}, "fallbackCriteria[2]"),
    ],
)
def test_s14_criteria_of_default_constraints_are_checked(
    fields: dict[str, object], path: str
) -> None:
    default = {**constraint(), **fields}
    del default["labelSelector"]
    given = {"defaultingType": "List", "defaultConstraints": [default]}
    args = msgspec.convert(given, PodTopologySpreadArgs)
    ((found, _),) = argument_problems(args)
    assert found == f"defaultConstraints[0].{path}"


def test_s14_an_unknown_strategy_is_rejected() -> None:
    ((path, _),) = argument_problems(PodTopologySpreadArgs(fallback_strategy="Maybe"))
    assert path == "fallbackStrategy"
