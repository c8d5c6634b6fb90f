"""kube-scheduler with its gates for gangs on, and kubestow: the same pods bound, the same statuses.

Cases in which kube-scheduler is right. What it does wrong, kubestow does otherwise on purpose
(docs/differences.md). Texts are not compared: those of kubestow count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from devtools.control_plane.control_plane import Binaries, ControlPlane
from devtools.control_plane.kubestow import start_kubestow
from tests.envtest.gang_objects import PROFILES
from tests.envtest.native_gangs import GATES, OPTIONS, add_group, groups_of
from tests.envtest.workload import Workload, until

pytestmark = pytest.mark.envtest("kube-scheduler")

RACK: Final = "example.com/rack"
IN_ONE_RACK: Final = {"schedulingConstraints": {"topology": [{"key": RACK}]}}
BY_HOST: Final = "kubernetes.io/hostname"
CLASSES: Final = {"gang-low": 10, "gang-high": 1000}


@dataclass(frozen=True)
class Case:
    """A gang `g`, and what becomes of it."""

    name: str
    #: CPU of the nodes, two of which are in one rack.
    nodes: tuple[int, ...]
    minimum: int
    members: int
    #: Members that are bound in the end.
    bound: int
    #: Whether the group counts as scheduled; None: it was not tried.
    scheduled: bool | None
    group: Mapping[str, Any] = field(default_factory=dict)
    pod: Mapping[str, Any] = field(default_factory=dict)
    #: Pods of one CPU and low priority that run before: how many, and how many are left.
    lower: tuple[int, int] = (0, 0)
    #: What happens to the gang after it was decided.
    then: Callable[[Workload], None] | None = None


def spec(name: str, **more: Any) -> dict[str, Any]:
    """Return the spec of a member."""
    return {"schedulingGroup": {"podGroupName": "g"}, "nodeSelector": {"whose": name}, **more}


def replaced(work: Workload) -> None:
    """Delete a member, and create another one in its place."""
    work.delete_pod("g-0")
    work.pod("g-again", cpu="1", **spec(work.namespace))


def complete(work: Workload) -> None:
    """Create the member that is missing."""
    work.pod("g-last", cpu="1", **spec(work.namespace))


def spread(app: str) -> dict[str, Any]:
    """Return a hard spread constraint by host."""
    constraint = {
        "maxSkew": 1,
        "topologyKey": BY_HOST,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}},
    }
    return {"topologySpreadConstraints": [constraint], "labels": {"app": app}}


def apart(app: str) -> dict[str, Any]:
    """Return required anti-affinity by host."""
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": BY_HOST}
    required = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return {"affinity": required, "labels": {"app": app}}


HIGH: Final = {"priorityClassName": "gang-high"}
CASES: Final = (
    Case("fits", (2, 2), 4, 4, 4, scheduled=True),
    Case("too-large", (2, 2), 5, 5, 0, scheduled=False),
    Case("beyond-minimum", (2, 2), 3, 6, 4, scheduled=True),
    Case("basic", (2,), 0, 3, 2, scheduled=True),
    Case("incomplete", (2, 2), 4, 3, 0, scheduled=None),
    Case("last-comes", (2, 2), 4, 3, 4, scheduled=True, then=complete),
    Case("replaced", (2, 2), 4, 4, 4, scheduled=True, then=replaced),
    Case("spread", (4, 4), 4, 4, 4, scheduled=True, pod=spread("spread")),
    Case("apart", (4, 4), 3, 3, 0, scheduled=False, pod=apart("apart")),
    Case("rack", (2, 1, 2, 2), 4, 4, 4, scheduled=True, group=IN_ONE_RACK),
    Case("no-rack", (2, 1, 2, 1), 4, 4, 0, scheduled=False, group=IN_ONE_RACK),
    Case("evicts", (2, 2), 3, 3, 3, scheduled=True, group=HIGH, pod=HIGH, lower=(4, 1)),
    Case("in-vain", (2, 2), 5, 5, 0, scheduled=False, group=HIGH, pod=HIGH, lower=(4, 4)),
)


@dataclass
class Seen:
    """The fate of a gang."""

    bound: int
    racks: list[int]
    lower: int
    #: Status and reason of PodGroupInitiallyScheduled.
    group: tuple[str, str] | None
    #: Status and reason of PodScheduled of the members.
    members: list[tuple[str, str]]


@pytest.fixture(scope="module")
def plane(
    envtest_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    directory = tmp_path_factory.mktemp("gang-parity")
    with ControlPlane(envtest_binaries, OPTIONS, directory) as made:
        for name, value in CLASSES.items():
            body = {"metadata": {"name": name}, "value": value}
            made.admin.request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", body)
        yield made


def condition(work: Workload) -> tuple[str, str] | None:
    """Return the condition PodGroupInitiallyScheduled of the group."""
    for group in groups_of(work):
        for each in group.get("status", {}).get("conditions", ()):
            if each["type"] == "PodGroupInitiallyScheduled":
                return each["status"], each["reason"]
    return None


def of(work: Workload, prefix: str) -> dict[str, str]:
    """Return the nodes of bound pods whose names begin so."""
    return {name: node for name, node in work.bound().items() if name.startswith(prefix)}


def outcome(plane: ControlPlane, scheduler_name: str, case: Case) -> Seen:
    """Have a scheduler decide about the gang of a case."""
    namespace = f"{case.name}-{scheduler_name}"
    with Workload(plane, namespace, scheduler_name) as work:
        for number, cpu in enumerate(case.nodes):
            name = f"{namespace}-{number}"
            labels = {"whose": namespace, RACK: f"r{number // 2}", BY_HOST: name}
            work.node(name, cpu=str(cpu), labels=labels)
        low: dict[str, Any] = {"priorityClassName": "gang-low", "terminationGracePeriodSeconds": 0}
        for number in range(case.lower[0]):
            node = f"{namespace}-{number // 2}"
            work.pod(f"low-{number}", cpu="1", nodeName=node, **low)
        add_group(work, "g", case.minimum, **case.group)
        for number in range(case.members):
            work.pod(f"g-{number}", cpu="1", **spec(namespace, **case.pod))
        if case.then is not None:
            if case.minimum <= case.members:
                until(lambda: len(of(work, "g-")) == case.bound, f"{namespace} is bound")
            case.then(work)
        until(lambda: len(of(work, "g-")) == case.bound, f"{namespace}: {case.bound} are bound")
        until(lambda: len(of(work, "low-")) == case.lower[1], f"{namespace}: the evictions")
        if case.scheduled is not None:
            wanted = str(case.scheduled)
            until(lambda: (condition(work) or "?")[0] == wanted, f"{namespace}: the condition")
            for name in work.pods().keys() - work.bound().keys():
                work.until_rejected(name)
        nodes = of(work, "g-")
        racks = [int(node.rpartition("-")[2]) // 2 for node in nodes.values()]
        pods = [name for name in work.pods() if name.startswith("g-")]
        known = [work.condition(name) for name in sorted(pods, key=nodes.__contains__)]
        return Seen(
            len(nodes),
            sorted(racks),
            len(of(work, "low-")),
            condition(work),
            # A pod that waits for members says so here, and nothing there.
            [(each["status"], each.get("reason", "")) for each in known]
            if case.scheduled is not None
            else [],
        )


def test_the_same_gangs_are_bound(plane: ControlPlane) -> None:
    theirs, ours = {}, {}
    process = plane.start_scheduler(feature_gates=GATES, name="kube-scheduler-gangs")
    try:
        for case in CASES:
            theirs[case.name] = outcome(plane, "default-scheduler", case)
    finally:
        process.stop()
    process = start_kubestow(plane, PROFILES, name="kubestow-gang-parity")
    try:
        for case in CASES:
            ours[case.name] = outcome(plane, "kubestow", case)
    finally:
        process.stop_cleanly()
    assert ours == theirs
