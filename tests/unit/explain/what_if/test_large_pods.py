"""However large a pod is: a search for its remedies does little between two rests of the loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from devtools.hostile.work import WorkCount
from scheduler import offline
from scheduler.explain.what_if.limits import MAX_POD_ENTRIES
from tests.unit.explain.what_if.test_asker import asked_world

Spec = dict[str, Any]
MAX_LINES: Final = 200_000
"""Lines of Python between two rests, some 20 ms."""
HOST: Final = "kubernetes.io/hostname"


def claims(size: int) -> Spec:
    sources = ({"persistentVolumeClaim": {"claimName": f"claim-{at}"}} for at in range(size))
    return {"volumes": [{"name": f"v{at}", **each} for at, each in enumerate(sources)]}


def resource_names(size: int) -> Spec:
    amounts = {f"example.com/r{at}": "1" for at in range(size)}
    return {"containers": [{"name": "main", "resources": {"limits": amounts}}]}


def host_ports(size: int) -> Spec:
    ports = ({"containerPort": 80, "hostPort": 8000 + at} for at in range(size))
    return {
        "nodeSelector": {"disk": "none"},
        "containers": [{"name": f"c{at}", "ports": [each]} for at, each in enumerate(ports)],
    }


def host_names(size: int) -> Spec:
    """Return as many terms as conditions in each, with values like those of nodes."""
    side = int(size**0.5)
    conditions = [
        [
            {"key": HOST, "operator": "In", "values": [f"tons-{term}-{at}", f"nods-{term}-{at}"]}
            for at in range(side)
        ]
        for term in range(side)
    ]
    terms = {"nodeSelectorTerms": [{"matchExpressions": each} for each in conditions]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def spread(size: int) -> Spec:
    rule = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    keys = [{**rule, "topologyKey": f"example.com/k{at}"} for at in range(size)]
    return {"topologySpreadConstraints": keys}


def resource_claims(size: int) -> Spec:
    names = [{"name": f"c{at}", "resourceClaimName": f"claim-{at}"} for at in range(size)]
    return {"resourceClaims": names}


@pytest.mark.parametrize(
    "spec", [claims, resource_names, host_ports, host_names, spread, resource_claims]
)
async def test_no_slice_of_a_search_is_long(spec: Callable[[int], Spec]) -> None:
    nodes = [
        offline.node(f"snot-{at}", cpu=4, labels={HOST: f"snot-{at % 9}-{at}"}) for at in range(100)
    ]
    for size, noted in ((MAX_POD_ENTRIES, False), (12 * MAX_POD_ENTRIES, True)):
        pod = offline.pod("large", cpu=1)
        pod["spec"] |= spec(size)
        with asked_world(*nodes, pod) as (_, gate, asker):
            work, longest, before = WorkCount(), 0, 0

            def rests(work: WorkCount = work) -> None:
                nonlocal longest, before
                longest, before = max(longest, work.lines - before), work.lines

            gate.between = rests
            with work.counting():
                found = await asker.remedies("default/large", 5, 5.0)
            longest = max(longest, work.lines - before)
        assert longest <= MAX_LINES, size
        assert found.note.startswith("pod default/large: ") is noted, found.note
