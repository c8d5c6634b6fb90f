"""Expressions that a real API server stores: other pods are scheduled, memory and Lease are kept.

The API server decides which of the expressions of a fuzzer it stores. The environment variable
`KUBESTOW_HOSTILE_EXPRESSIONS` sets their number; the measurements are printed.
"""

from __future__ import annotations

import os
import time
from http import HTTPStatus
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pytest

from devtools.control_plane.admin import ApiError
from devtools.control_plane.control_plane import ControlPlane, ManagedProcess
from devtools.control_plane.inspecting import Inspector
from devtools.control_plane.kubestow import start_kubestow
from devtools.hostile.expressions import ExpressionFuzzer
from scheduler.cel import CompileError, check_storable
from tests.envtest.devices import Devices, by_name
from tests.envtest.workload import PATIENCE_SECONDS, Json, until

pytestmark = pytest.mark.envtest

NUMBER: Final = int(os.environ.get("KUBESTOW_HOSTILE_EXPRESSIONS", "40"))
SEED: Final = int(os.environ.get("KUBESTOW_HOSTILE_SEED", "37"))
BETWEEN: Final = 10
"""Expressions between two ordinary pods."""
MAX_GROWTH: Final = 64 << 10
"""KiB of resident memory above that after the start."""
LEASE: Final = "kubestow-expressions"
CONFIG: Final = {
    "clientConnection": {"qps": 1000, "burst": 1000},
    "leaderElection": {
        "leaderElect": True,
        "resourceNamespace": "default",
        "resourceName": LEASE,
    },
}


def types_within_types(levels: int) -> str:
    bindings = "".join(f"cel.bind(b{i},{{b{i - 1}:b{i - 1}}}," for i in range(1, levels + 1))
    return f"cel.bind(b0,1,{bindings}size(b{levels})>0{')' * (levels + 1)}"


KNOWN: Final = (
    "cel.bind(a,lists.range(500000),lists.range(99).map(x,[a+a,a+a,a+a]).size()>0)",
    "cel.bind(a,lists.range(900000),lists.range(10000).all(x,size(a+[1])>0))",
    "cel.bind(a,lists.range(900000),"
    + "&&".join(["size(a+[1])>0"] * 500)
    + ")",
    "cel.bind(a,lists.range(1000),lists.range(1000).all(x,'%s'.format([a]).size()>0))",
    "cel.bind(a,lists.range(100000),lists.range(100).all(x,'%s'.format([a]).size()>0))",
    "cel.bind(a," + "[" * 100 + "1" + "]" * 100 + ",lists.range(1000).all(x,a==a))",
    types_within_types(26),
)  # fmt: skip
"""Expressions that took memory or time out of proportion to what they are charged."""


def peak(process: ManagedProcess) -> int:
    """Return the KiB of resident memory that a process had at most."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])


def lease(control_plane: ControlPlane) -> Json:
    path = f"/apis/coordination.k8s.io/v1/namespaces/default/leases/{LEASE}"
    found: Any = control_plane.admin.request("GET", path)["spec"]
    return dict(found)


def seconds_until_bound(devices: Devices, name: str) -> float:
    begin = time.monotonic()
    devices.work.pod(name, cpu="1m")
    devices.work.until_bound(name)
    return time.monotonic() - begin


def refused(expression: str) -> str:
    """Return why kubestow says that the API server will not store an expression, "" if it will."""
    if ".includes(" in expression:
        return "stored expressions have it from v1.37 on, new ones a release later"
    try:
        check_storable(expression)
    except CompileError as error:
        return str(error)
    return ""


def create(devices: Devices, number: int, expression: str) -> bool:
    """Create a claim with the expression, and a pod that uses it; False if it is not stored."""
    error = ""
    try:
        devices.claim(f"c-{number}", selectors=[{"cel": {"expression": expression}}])
    except ApiError as answer:
        error = str(answer)
        if answer.status == HTTPStatus.GATEWAY_TIMEOUT:
            # Its compiler takes time out of proportion for some.
            return False
    assert bool(error) == bool(refused(expression)), f"{expression}: {error}"
    if error:
        return False
    devices.work.pod(f"p-{number}", cpu="1m", resourceClaims=by_name(f"c-{number}"))
    return True


def untried(devices: Devices) -> list[str]:
    """Return the pods that neither have a node nor a reason why they wait."""
    return [
        name
        for name, pod in devices.work.pods().items()
        if not pod["spec"].get("nodeName")
        and not any(each["type"] == "PodScheduled" for each in pod["status"].get("conditions", ()))
    ]


def test_other_pods_are_scheduled_beside_pods_with_expressions_of_a_fuzzer(
    control_plane: ControlPlane, devices: Devices
) -> None:
    node = f"{devices.work.namespace}-node"
    devices.work.node(node, cpu="64", pods=10_000)
    devices.publish(node, 4, attributes={"serial": {"int": 1}})
    process = start_kubestow(control_plane, CONFIG, name="kubestow-expressions")
    seconds_until_bound(devices, "first")
    before, holder = peak(process), lease(control_plane)
    expressions = [*KNOWN, *islice(ExpressionFuzzer(SEED).expressions(), NUMBER)]
    stored, delays = 0, []
    for number, expression in enumerate(expressions):
        stored += create(devices, number, expression)
        if number % BETWEEN == 0:
            delays.append(seconds_until_bound(devices, f"beside-{number}"))
    assert stored > len(KNOWN)
    until(lambda: not untried(devices), "all pods were tried", patience=PATIENCE_SECONDS + stored)
    delays.append(seconds_until_bound(devices, "last"))
    inspector, growth = Inspector(process, control_plane), peak(process) - before
    name = "kubestow_event_loop_lag_seconds"
    late = {
        bound: inspector.sample(f"{name}_count") - inspector.sample(f"{name}_bucket", le=bound)
        for bound in ("0.064", "0.128", "0.256")
    }
    print(
        f"{stored} of {len(expressions)} expressions are stored; longest binding "
        f"{max(delays):.2f} s; blocks above so many seconds: {late}; {growth >> 10} MiB more"
    )
    assert growth <= MAX_GROWTH
    after = lease(control_plane)
    assert after["holderIdentity"] == holder["holderIdentity"]
    assert after.get("leaseTransitions") == holder.get("leaseTransitions")
    process.kill()
    again = start_kubestow(control_plane, CONFIG, name="kubestow-expressions-again")
    bound = devices.work.bound()
    seconds_until_bound(devices, "after-restart")
    until(lambda: not untried(devices), "all pods were tried")
    assert bound.items() <= devices.work.bound().items()
    assert not devices.taken_twice()
    assert peak(again) - before <= MAX_GROWTH
    assert again.running, again.describe("ended")
    again.stop_cleanly()
