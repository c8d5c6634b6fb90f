"""The examples of gangs, applied as the documentation says, beside the real controllers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest
import yaml

from devtools.control_plane.control_plane import ApiServerOptions, ControlPlane, ManagedProcess
from devtools.control_plane.kubestow import start_kubestow
from tests.envtest.fixtures import ControlPlaneFactory
from tests.envtest.quickstart import ROOT, documented, execute
from tests.envtest.workload import Workload, until

pytestmark = pytest.mark.envtest("kube-controller-manager")

GANGS: Final = ROOT / "examples" / "gang"
GPU: Final = "nvidia.com/gpu"
RACK: Final = "example.com/rack"
CONTROLLERS: Final = ("job-controller", "replicaset-controller", "garbage-collector-controller")


@pytest.fixture
def plane(make_control_plane: ControlPlaneFactory) -> ControlPlane:
    """Return a control plane of which the default namespace is the reader's."""
    made = make_control_plane(ApiServerOptions())
    made.start_controller_manager(controllers=CONTROLLERS)
    return made


@pytest.fixture
def scheduler(plane: ControlPlane) -> Iterator[ManagedProcess]:
    (configuration,) = yaml.safe_load_all((GANGS / "config.yaml").read_text(encoding="utf-8"))
    process = start_kubestow(plane, configuration, name="kubestow-gang-examples")
    yield process
    process.stop_cleanly()


def members(work: Workload, prefix: str) -> dict[str, Any]:
    """Return the pods of an example."""
    return {name: pod for name, pod in work.pods().items() if name.startswith(prefix)}


def bound(work: Workload, prefix: str) -> list[str]:
    """Return the nodes of an example's bound pods."""
    return [node for name, node in work.bound().items() if name.startswith(prefix)]


@pytest.mark.usefixtures("scheduler")
def test_the_examples_are_bound_as_a_whole(plane: ControlPlane) -> None:
    with Workload(plane, "default") as work:
        for rack, gpus in (("r0", 2), ("r1", 1)):
            work.node(f"node-{rack}", cpu="8", labels={RACK: rack}, resources={GPU: str(gpus)})
        document = ROOT / "docs" / "gang-scheduling.md"
        first = "kubectl apply -f examples/gang/crd.yaml"
        *_, output = [execute(plane, each) for each in documented(document, first=first, count=4)]
        assert "train" in output
        until(lambda: len(bound(work, "train-")) == 4, "the Job is bound")
        until(lambda: work.events("GangScheduled"), "its pods were scheduled as a gang")
        execute(plane, "kubectl apply -f examples/gang/ray-style.yaml")
        until(lambda: len(bound(work, "ray-")) == 3, "head and workers are bound")
        execute(plane, "kubectl apply -f examples/gang/pytorch-job.yaml")
        until(lambda: len(members(work, "pytorch-")) == 4, "the Job controller made the pods")
        name = next(iter(members(work, "pytorch-")))
        until(lambda: "3 fit" in str(work.condition(name).get("message")), "it says what lacks")
        assert GPU in str(work.condition(name)["message"])
        assert not bound(work, "pytorch-")
        work.node("node-r2", cpu="8", labels={RACK: "r2"}, resources={GPU: "4"})
        until(lambda: len(bound(work, "pytorch-")) == 4, "the workers are bound")
        assert set(bound(work, "pytorch-")) == {"node-r2"}
