"""Gangs of `scheduling.k8s.io` on an API server with its gates on, beside the real controllers.

The Job controller makes the groups of Jobs, and the protection controller lets go of deleted ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from devtools.control_plane.control_plane import (
    ApiServerOptions,
    Binaries,
    ControlPlane,
    ManagedProcess,
)
from devtools.control_plane.kubestow import start_kubestow
from tests.envtest.fixtures import ControlPlaneFactory
from tests.envtest.native_gangs import (
    GATES,
    OPTIONS,
    add_group,
    add_job,
    add_members,
    groups_of,
    groups_path,
)
from tests.envtest.workload import Workload, until

pytestmark = pytest.mark.envtest("kube-controller-manager")

SCHEDULED: Final = "PodGroupInitiallyScheduled"
"""Upstream's condition of a group."""
ENABLED: Final = {"multiPoint": {"enabled": [{"name": "GangScheduling"}]}}
PROFILES: Final = {"profiles": [{"schedulerName": "kubestow", "plugins": ENABLED}]}
CONTROLLERS: Final = (
    "job-controller",
    "podgroup-protection-controller",
    "garbage-collector-controller",
)


@pytest.fixture(scope="module")
def plane(
    envtest_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    directory = tmp_path_factory.mktemp("native-gangs")
    with ControlPlane(envtest_binaries, OPTIONS, directory) as made:
        made.start_controller_manager(controllers=CONTROLLERS, feature_gates=GATES)
        yield made


@pytest.fixture
def scheduler(plane: ControlPlane) -> Iterator[ManagedProcess]:
    process = start_kubestow(plane, PROFILES, name="kubestow-native")
    yield process
    process.stop_cleanly()


def waits_with(work: Workload, pod: str, text: str) -> None:
    """Wait until the condition of a pod has this text."""
    until(lambda: text in str(work.condition(pod).get("message")), text)


def standing(work: Workload) -> dict[str, str]:
    """Return the conditions of the only group of a workload."""
    (group,) = groups_of(work)
    conditions = group.get("status", {}).get("conditions", ())
    return {each["type"]: each["status"] for each in conditions}


@pytest.mark.usefixtures("scheduler")
def test_g40_a_job_whose_group_the_job_controller_makes(plane: ControlPlane) -> None:
    with Workload(plane, "native-job") as work:
        work.node("native-0", cpu="3")
        add_job(work, "train", 4)
        until(lambda: groups_of(work), "the Job controller made a group")
        until(lambda: len(work.pods()) == 4, "the Job controller made the pods")
        name = next(iter(work.pods()))
        waits_with(work, name, "needs 4 pods, 3 fit")
        until(lambda: standing(work).get(SCHEDULED) == "False", "the group says so")
        assert not work.bound()
        work.node("native-1", cpu="2")
        until(lambda: len(work.bound()) == 4, "all four are bound")
        until(lambda: standing(work).get(SCHEDULED) == "True", "the group says so")
        assert standing(work)["kubestow.io/Satisfied"] == "True"


@pytest.mark.usefixtures("scheduler")
def test_g40_the_example_of_a_job(plane: ControlPlane) -> None:
    with Workload(plane, "native-example") as work:
        work.node("native-0", cpu="4")
        plane.kubectl("apply", "-n", work.namespace, "-f", "examples/gang/native-job.yaml")
        until(lambda: len(work.bound()) == 4, "all four are bound")
        until(lambda: standing(work).get(SCHEDULED) == "True", "the group says so")


@pytest.mark.usefixtures("scheduler")
def test_g3_members_wait_for_their_object(plane: ControlPlane) -> None:
    with Workload(plane, "native-late") as work:
        work.node("native-0", cpu="4")
        add_members(work, "g", 2)
        waits_with(work, "g-0", "there is no such PodGroup of scheduling.k8s.io")
        add_group(work, "g", 2)
        until(lambda: len(work.bound()) == 2, "both are bound")


@pytest.mark.usefixtures("scheduler")
def test_a_basic_group_holds_nobody(plane: ControlPlane) -> None:
    with Workload(plane, "native-basic") as work:
        work.node("native-0", cpu="2")
        add_group(work, "g", 0)
        add_members(work, "g", 3)
        until(lambda: len(work.bound()) == 2, "those that fit are bound")


@pytest.mark.usefixtures("scheduler")
def test_g15_two_native_gangs_that_each_half_fit(plane: ControlPlane) -> None:
    with Workload(plane, "native-two") as work:
        for number in range(2):
            work.node(f"native-{number}", cpu="3")
        for group in ("a", "b"):
            add_group(work, group, 4)
        for number in range(4):
            for group in ("a", "b"):
                work.pod(f"{group}-{number}", cpu="1", schedulingGroup={"podGroupName": group})
        until(lambda: len(work.bound()) == 4, "one gang is bound")
        (first,) = {name[0] for name in work.bound()}
        second = "b" if first == "a" else "a"
        waits_with(work, f"{second}-0", "needs 4 pods, 2 fit")
        for name in list(work.bound()):
            work.delete_pod(name)
        until(lambda: len(work.bound()) == 4, "the other gang is bound")
        assert {name[0] for name in work.bound()} == {second}


@pytest.mark.usefixtures("scheduler")
def test_g39_a_recreated_group_has_new_terms_at_once(plane: ControlPlane) -> None:
    with Workload(plane, "native-again") as work:
        work.node("native-0", cpu="2")
        add_group(work, "g", 3)
        add_members(work, "g", 3)
        waits_with(work, "g-0", "needs 3 pods, 2 fit")
        # The finalizer keeps the object while it has members.
        path = f"{groups_path(work)}/g"
        plane.admin.request("DELETE", path)
        plane.admin.request("PATCH", path, {"metadata": {"finalizers": None}})
        add_group(work, "g", 2)
        until(lambda: len(work.bound()) == 2, "two of them are bound")


def test_g7_members_that_succeeded_before_a_restart_count(plane: ControlPlane) -> None:
    # Without a status nothing tells the next process that the gang has started before.
    silent = {"name": "GangScheduling", "args": {"podGroupStatus": "Never"}}
    profile = {"schedulerName": "kubestow", "plugins": ENABLED, "pluginConfig": [silent]}
    with Workload(plane, "native-ended") as work:
        work.node("native-0", cpu="4")
        add_group(work, "g", 4)
        add_members(work, "g", 4)
        first = start_kubestow(plane, {"profiles": [profile]}, name="kubestow-native-1")
        until(lambda: len(work.bound()) == 4, "the gang is bound")
        first.kill()
        for number in range(3):
            work.finish_pod(f"g-{number}")
        work.delete_pod("g-3")
        add_members(work, "g", 1, stem="again")
        second = start_kubestow(plane, {"profiles": [profile]}, name="kubestow-native-2")
        try:
            work.until_bound("again-0")
        finally:
            second.stop_cleanly()


@pytest.mark.usefixtures("scheduler")
def test_g25_a_native_gang_that_requires_a_rack(plane: ControlPlane) -> None:
    rack = "example.com/rack"
    with Workload(plane, "native-rack") as work:
        for number in range(4):
            work.node(f"native-r{number // 2}-{number}", cpu="2", labels={rack: f"r{number // 2}"})
        work.pod("old", cpu="1", nodeName="native-r0-0")
        constraints = {"topology": [{"key": rack}]}
        add_group(work, "whole", 4, schedulingConstraints=constraints)
        add_members(work, "whole", 4)
        until(lambda: len(work.bound()) == 5, "the gang is bound")
        placed = {name: node for name, node in work.bound().items() if name != "old"}
        assert {node.rpartition("-")[0] for node in placed.values()} == {"native-r1"}
        add_group(work, "later", 4, schedulingConstraints=constraints)
        add_members(work, "later", 4)
        text = f"needs 4 pods, 3 fit at most in the best domain {rack}=r0, 1 do not: short of cpu"
        waits_with(work, "later-0", text)
        work.delete_pod("old")
        until(lambda: len(work.bound()) == 8, "the other gang is bound")


def test_g4_the_api_comes_and_goes(make_control_plane: ControlPlaneFactory) -> None:
    plane = make_control_plane(ApiServerOptions())
    process = start_kubestow(plane, PROFILES, name="kubestow-native")
    try:
        with Workload(plane, "native-later") as work:
            work.node("native-0", cpu="4")
            add_members(work, "dropped", 1)
            work.until_bound("dropped-0")
            plane.options = OPTIONS
            plane.restart_apiserver()
            add_members(work, "g", 2)
            waits_with(work, "g-0", "of scheduling.k8s.io")
            add_group(work, "g", 2)
            until(lambda: len(work.bound()) == 3, "the gang is bound")
            plane.options = ApiServerOptions()
            plane.restart_apiserver()
            work.pod("single")
            work.until_bound("single")
    finally:
        process.stop_cleanly()
