"""Gangs on a stock API server: the resource comes, two gangs compete, a leader dies in between."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest

from devtools.control_plane.control_plane import ControlPlane
from devtools.control_plane.kubestow import start_kubestow
from tests.envtest.gang_objects import LABEL, PROFILES, add_group, served_groups
from tests.envtest.workload import Workload, until

pytestmark = pytest.mark.envtest


@pytest.fixture
def served(control_plane: ControlPlane) -> Iterator[None]:
    """Serve PodGroups."""
    with served_groups(control_plane):
        yield


def phase(control_plane: ControlPlane, work: Workload, name: str) -> str:
    """Return the phase of a PodGroup."""
    path = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{work.namespace}/podgroups/{name}"
    status = control_plane.admin.request("GET", path).get("status", {})
    return str(cast("dict[str, Any]", status).get("phase", ""))


def members(work: Workload, group: str, count: int) -> list[str]:
    names = [f"{group}-{number}" for number in range(count)]
    for name in names:
        work.pod(name, cpu="1", labels={LABEL: group})
    return names


def of(group: str, bound: dict[str, str]) -> list[str]:
    return [name for name in bound if name.startswith(f"{group}-")]


@pytest.mark.usefixtures("served")
def test_g15_two_gangs_that_each_half_fit(control_plane: ControlPlane) -> None:
    process = start_kubestow(control_plane, PROFILES, name="kubestow-gangs")
    try:
        with Workload(control_plane, "two-gangs") as work:
            for number in range(2):
                work.node(f"gang-{number}", cpu="3")
            for group in ("a", "b"):
                add_group(control_plane, work, group, 4)
            for pair in zip(*(range(4), range(4)), strict=True):
                for group, number in zip(("a", "b"), pair, strict=True):
                    work.pod(f"{group}-{number}", cpu="1", labels={LABEL: group})
            until(lambda: len(work.bound()) == 4, "one gang is bound")
            (first,) = {name[0] for name in work.bound()}
            second = "b" if first == "a" else "a"
            message = str(work.until_rejected(f"{second}-0")["message"])
            assert "needs 4 pods, 2 fit" in message
            assert not of(second, work.bound())
            until(lambda: phase(control_plane, work, first) == "Scheduling", "its phase is written")
            for name in of(first, work.bound()):
                work.delete_pod(name)
            until(lambda: len(of(second, work.bound())) == 4, "the other gang is bound")
            assert work.overfull() == {}
    finally:
        process.stop_cleanly()


@pytest.mark.usefixtures("served")
def test_g25_a_gang_that_requires_a_rack(control_plane: ControlPlane) -> None:
    rack = "example.com/rack"
    process = start_kubestow(control_plane, PROFILES, name="kubestow-racks")
    try:
        with Workload(control_plane, "rack-gang") as work:
            for number in range(6):
                labels = {rack: f"r{number // 2}"} if number < 4 else {}
                work.node(f"gang-r{number // 2}-{number}", cpu="2", labels=labels)
            work.pod("old", cpu="1", nodeName="gang-r0-0")
            for group in ("first", "second"):
                required = {"kubestow.io/topology-required": rack}
                add_group(control_plane, work, group, 4, required)
                for number in range(4):
                    work.pod(f"{group}-{number}", cpu="1", labels={LABEL: group})
                if group == "first":
                    until(lambda: len(work.bound()) == 5, "the first gang is bound")
            nodes = {work.bound()[name].rpartition("-")[0] for name in of("first", work.bound())}
            assert nodes == {"gang-r1"}
            text = f"3 fit at most in the best domain {rack}=r0, 1 do not: short of cpu"
            assert text in str(work.until_rejected("second-0")["message"])
            work.delete_pod("old")
            until(lambda: len(of("second", work.bound())) == 4, "the second gang is bound")
            assert work.overfull() == {}
    finally:
        process.stop_cleanly()


@pytest.mark.usefixtures("served")
def test_g38_a_new_leader_completes_a_gang(control_plane: ControlPlane) -> None:
    slowly: dict[str, Any] = {
        **PROFILES,
        "clientConnection": {"qps": 5, "burst": 5},
        "kubestow": {"bindConcurrency": 1},
    }
    with Workload(control_plane, "restarted-gang") as work:
        for number in range(4):
            work.node(f"gang-{number}", cpu="8")
        add_group(control_plane, work, "g", 30)
        members(work, "g", 30)
        process = start_kubestow(control_plane, slowly, name="kubestow-gangs-1")
        until(lambda: len(work.bound()) > 2, "some members are bound")
        process.kill()
        middle = len(work.bound())
        assert middle < 30, "this is the middle"
        process = start_kubestow(control_plane, PROFILES, name="kubestow-gangs-2")
        try:
            until(lambda: len(work.bound()) == 30, "the gang is whole")
            assert work.overfull() == {}
        finally:
            process.stop_cleanly()


@pytest.mark.usefixtures("served")
@pytest.mark.parametrize("is_older", [True, False], ids=["older", "younger"])
def test_after_a_takeover_the_room_of_a_half_bound_gang_goes_to_no_other(
    control_plane: ControlPlane, is_older: bool
) -> None:
    slowly: dict[str, Any] = {
        **PROFILES,
        "clientConnection": {"qps": 5, "burst": 5},
        "kubestow": {"bindConcurrency": 1},
    }
    with Workload(control_plane, f"half-gang-{is_older:d}") as work:
        for number in range(10):
            work.node(f"gang-{number}", cpu="1")
        add_group(control_plane, work, "g", 10)
        add_group(control_plane, work, "other", 5)
        if is_older:
            members(work, "other", 4)
        members(work, "g", 10)
        process = start_kubestow(control_plane, slowly, name="kubestow-half-1")
        until(lambda: len(work.bound()) > 2, "some members are bound")
        process.kill()
        assert len(work.bound()) <= 5, "the other gang would have room"
        if is_older:
            work.pod("other-4", cpu="1", labels={LABEL: "other"})
        else:
            members(work, "other", 5)
        process = start_kubestow(control_plane, PROFILES, name="kubestow-half-2")
        try:
            until(lambda: len(of("g", work.bound())) == 10, "the gang is whole")
            assert not of("other", work.bound())
            assert "other" in str(work.until_rejected("other-0")["message"])
            assert work.overfull() == {}
        finally:
            process.stop_cleanly()


def test_g4_a_label_holds_nobody_where_the_resource_is_not_served(
    control_plane: ControlPlane,
) -> None:
    process = start_kubestow(control_plane, PROFILES, name="kubestow-no-groups")
    try:
        with Workload(control_plane, "no-groups") as work:
            work.node("gang-n", cpu="3")
            members(work, "g", 2)
            until(lambda: len(work.bound()) == 2, "pods with the label alone are bound")
    finally:
        process.stop_cleanly()
