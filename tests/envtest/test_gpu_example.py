"""The example gpu_sharing on a real API server: no GPU is oversold, whatever ends or is killed."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from devtools.control_plane.control_plane import ControlPlane, ManagedProcess
from devtools.control_plane.kubestow import start_kubestow
from scheduler.api.quantity import milli_value
from tests.envtest.workload import Workload, until

pytestmark = pytest.mark.envtest

EXAMPLE: Final = Path(__file__).parents[2] / "examples" / "gpu_sharing"
POLICIES: Final = (
    "best-fit", "dot-prod", "fgd", "fgd-best-fit", "gpu-clustering", "gpu-packing", "random"
)  # fmt: skip
UNITS: Final = "alibabacloud.com/gpu-milli"
INDEX: Final = "alibabacloud.com/gpu-index"
GPUS: Final = 4
"""Of each node."""
WHOLE: Final = 1000
"""Units of one GPU."""
SIZES: Final = (300, 700, 400, 1000, 600, 2000, 250, 500)

Json = dict[str, Any]


def units_of(pod: Json) -> int:
    requests = pod["spec"]["containers"][0]["resources"]["requests"]
    return milli_value(requests[UNITS]) // 1000


@dataclass
class Audit:
    """Follows every version of every pod in the order of the API server."""

    pods: dict[str, Json] = field(default_factory=dict)
    binds: int = 0

    def see(self, event: Json) -> None:
        """Apply an event of the watch; AssertionError if a GPU is oversold after it."""
        pod = event["object"]
        uid, before = pod["metadata"]["uid"], self.pods.pop(pod["metadata"]["uid"], None)
        ended = pod["status"].get("phase") in ("Succeeded", "Failed")
        if event["type"] == "DELETED" or ended or not pod["spec"].get("nodeName"):
            return
        indexes = pod["metadata"]["annotations"][INDEX].split("-")
        assert set(indexes) <= set(map(str, range(GPUS))), f"no such GPU: {pod['metadata']}"
        assert len(set(indexes)) == len(indexes) == max(1, units_of(pod) // WHOLE)
        if before is not None:
            assert before["metadata"]["annotations"][INDEX] == "-".join(indexes), "it moved"
        self.binds += before is None
        self.pods[uid] = pod
        assert max(self.usage().values()) <= WHOLE, f"oversold: {self.usage()}"

    def usage(self) -> Counter[tuple[str, str]]:
        """Units in use by node and GPU, as the annotations say."""
        found: Counter[tuple[str, str]] = Counter()
        for each in self.pods.values():
            indexes = each["metadata"]["annotations"][INDEX].split("-")
            for index in indexes:
                found[each["spec"]["nodeName"], index] += units_of(each) // len(indexes)
        return found


class Churn:
    """Lets pods arrive and end at random, two thirds of the cluster at a time."""

    def __init__(self, work: Workload, seed: int) -> None:
        self._work, self._random, self._made = work, random.Random(seed), 0
        self.alive: dict[str, int] = {}

    def arrive(self) -> None:
        """Create a pod, and end or delete older ones to make room for it."""
        units = self._random.choice(SIZES)
        while sum(self.alive.values()) + units > 2 * GPUS * WHOLE * 2 // 3:
            self.end(self._random.choice(sorted(self.alive)))
        name = f"p{self._made}"
        self._made += 1
        self.alive[name] = units
        amounts = {"cpu": "10m", UNITS: str(units)}
        self._work.pod(name, container={"resources": {"requests": amounts, "limits": amounts}})

    def arrive_slowly(self, count: int) -> None:
        """Create pods while a scheduler runs, which has to place them before most of them end."""
        for number in range(count):
            if number % 5 == 0:
                until(self.settled, "every pod has a node or was rejected")
            self.arrive()

    def end(self, name: str) -> None:
        """Let a pod end as a container would, or be deleted at once."""
        del self.alive[name]
        if self._random.random() < 0.5:
            self._work.delete_pod(name)
        else:
            self._work.finish_pod(name)

    def settled(self) -> bool:
        """Whether each pod that is alive has a node or was rejected."""
        pods = self._work.pods()
        return all(
            pods[name]["spec"].get("nodeName")
            or any(
                each["type"] == "PodScheduled"
                for each in pods[name]["status"].get("conditions") or ()
            )
            for name in self.alive
        )


@pytest.mark.parametrize("policy", POLICIES)
def test_no_gpu_is_oversold_when_pods_end_and_the_scheduler_is_killed(
    control_plane: ControlPlane, policy: str
) -> None:
    config = yaml.safe_load((EXAMPLE / f"{policy}.yaml").read_text(encoding="utf-8"))

    def started(number: int) -> ManagedProcess:
        arguments = [f"--plugin-dir={EXAMPLE}"]
        return start_kubestow(control_plane, config, arguments, name=f"gpus-{policy}-{number}")

    with Workload(control_plane, f"gpus-{policy}") as work:
        for name in ("g1", "g2"):
            work.node(f"{policy}-{name}", resources={UNITS: str(GPUS * WHOLE)})
        work.follow()
        churn = Churn(work, seed=len(policy))
        process = started(1)
        churn.arrive_slowly(25)
        # Bindings of the last arrivals are under way, most likely.
        process.kill()
        for _ in range(10):
            churn.arrive()
        process = started(2)
        churn.arrive_slowly(15)
        process.stop_cleanly()
        churn.end(min(churn.alive))
        process = started(3)
        for _ in range(10):
            churn.arrive()
        until(churn.settled, "every pod has a node or was rejected")
        audit = Audit()
        for event in work.history():
            audit.see(event)
        assert audit.binds >= 30, "too few pods were bound for this to say anything"
        assert set(work.bindings().values()) == {1}, "a pod was bound twice"
        process.stop_cleanly()
