"""Objects to try whose CEL expressions an API server would refuse are refused as well."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scheduler import offline
from scheduler.explain.what_if.changes import ChangeError
from scheduler.explain.what_if.expressions import MAX_BYTES
from scheduler.explain.what_if.questions import Question, parse

BAD = "device.driver == 1"
COSTLY = "lists.range(1000).all(x, lists.range(1000).all(y, x >= y))"
NESTED = "[" * 200 + "]" * 200 + " == []"


def selectors(*expressions: str) -> list[dict[str, Any]]:
    return [{"cel": {"expression": each}} for each in expressions]


def claim(*expressions: str) -> dict[str, Any]:
    exactly = {"deviceClassName": "gpu", "selectors": selectors(*expressions)}
    return {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}


def ask(kind: str, spec: dict[str, Any]) -> None:
    value = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": "c"},
        "spec": spec,
    }
    change = {"action": "add", "kind": kind, "name": "c", "value": value}
    with offline.World() as world:
        world.add_nodes(offline.node("n", cpu=4), count=2)
        world.add(offline.pod("p", cpu=1))
        body = json.dumps({"pod": "default/p", "changes": [change]}).encode()
        for _ in Question(world._assembly.trial_parts(), parse(body), slice_seconds=1.0).run():
            pass


@pytest.mark.parametrize(
    ("kind", "spec", "text"),
    [
        ("ResourceClaim", claim("true", BAD), r"requests\[0\].exactly.selectors\[1\].*no matching"),
        ("ResourceClaim", claim(NESTED), "recursion limit exceeded"),
        ("ResourceClaim", claim(COSTLY), r"selectors\[0\].*too complex, exceeds cost limit"),
        ("ResourceClaim", claim("true" + " " * MAX_BYTES), "the expressions have 4100 bytes"),
        ("ResourceClaimTemplate", {"spec": claim(BAD)}, "spec.spec.devices.requests"),
        ("DeviceClass", {"selectors": selectors(BAD)}, r"spec.selectors\[0\].cel.expression"),
        (
            "ResourceClaim",
            {
                "devices": {
                    "requests": [
                        {"name": "r", "firstAvailable": [{"selectors": selectors("true", BAD)}]}
                    ]
                }
            },
            r"firstAvailable\[0\].selectors\[1\]",
        ),
    ],
)
def test_an_expression_that_would_not_be_stored_is_refused_before_anything_runs(
    kind: str, spec: dict[str, Any], text: str
) -> None:
    with pytest.raises(ChangeError, match=text):
        ask(kind, spec)


def test_an_expression_that_compiles_is_tried() -> None:
    ask("ResourceClaim", claim('device.driver == "gpu.example.com"'))
