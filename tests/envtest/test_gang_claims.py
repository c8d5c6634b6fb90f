"""A gang whose members share a claim, beside the controller that releases claims."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest

from devtools.control_plane.control_plane import ControlPlane, ManagedProcess
from devtools.control_plane.kubestow import start_kubestow
from tests.envtest.devices import Devices, by_name, claim_controllers, consumers, devices_of
from tests.envtest.gang_objects import LABEL, PROFILES, add_group, served_groups
from tests.envtest.workload import Workload, until

pytestmark = pytest.mark.envtest("kube-controller-manager")

#: The members that wait for the write of another one must not keep its binding slot.
SETTINGS: Final[dict[str, Any]] = {**PROFILES, "kubestow": {"bindConcurrency": 1}}


@pytest.fixture(autouse=True)
def served(control_plane: ControlPlane) -> Iterator[None]:
    """Serve PodGroups, and release claims."""
    with served_groups(control_plane), claim_controllers(control_plane, "gang-claim-controller"):
        yield


@pytest.fixture
def scheduler(control_plane: ControlPlane) -> Iterator[ManagedProcess]:
    process = start_kubestow(control_plane, SETTINGS, name="kubestow-gang-claims")
    yield process
    process.stop_cleanly()


def add_gang(work: Workload, devices: Devices, group: str) -> None:
    """Create a gang of three, and the claim that they share."""
    devices.claim(group)
    add_group(work.control_plane, work, group, 3)
    for number in range(3):
        use = by_name(group)
        work.pod(f"{group}-{number}", cpu="1", labels={LABEL: group}, resourceClaims=use)


@pytest.mark.usefixtures("scheduler")
def test_a_gang_that_shares_a_claim_is_bound_together(
    control_plane: ControlPlane, request: pytest.FixtureRequest
) -> None:
    with devices_of(control_plane, request.node.name) as devices:
        work = devices.work
        for name, cpu in (("small", "2"), ("large", "4")):
            work.node(name, cpu=cpu)
            devices.publish(name, 1)
        add_gang(work, devices, "a")
        until(lambda: len(work.bound()) == 3, "the first gang is bound")
        assert set(work.bound().values()) == {"large"}
        assert sorted(consumers(devices.claims()["a"])) == ["a-0", "a-1", "a-2"]
        add_gang(work, devices, "b")
        assert "needs 3 pods, 2 fit" in str(work.until_rejected("b-0")["message"])
        assert list(devices.allocated()) == ["a"]
        for name in work.bound():
            work.delete_pod(name)
        until(lambda: len(work.bound()) == 3, "the second gang is bound")
        assert sorted(consumers(devices.claims()["b"])) == ["b-0", "b-1", "b-2"]
        assert devices.taken_twice() == []
