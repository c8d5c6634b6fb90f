"""Objects nested as deep as the real API server stores them stop no scheduler and lose no pod.

The control plane is not shared: clients that read such objects recursively fail.
"""

from __future__ import annotations

import msgspec
import pytest

from devtools.control_plane.control_plane import ControlPlane
from devtools.control_plane.kubestow import start_kubestow
from devtools.hostile.catalogue import CASES, Dimension, JsonObject, chosen
from devtools.hostile.sending import HostileSender, message
from devtools.hostile.templates import NAMESPACE, namespace, node
from scheduler.api.decoding import decode_json
from scheduler.api.pod import Pod
from tests.envtest.workload import Workload, until

pytestmark = pytest.mark.envtest

OURS = CASES["pods-managed-fields-deep"]
# Go's JSON decoder accepts 10,000 levels in total.
DEEPEST = 9_995
# Watches more kinds than the default plugins do.
CONFIG = {"profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "ResourceQuota"}]}}}]}

_pods = msgspec.json.Decoder(Pod)


def deepest(serial: int) -> list[JsonObject]:
    """Return an object of every watched kind, and a pod for kubestow and for another scheduler."""
    cases = chosen(dimension=Dimension.DEPTH)
    objects = [case.object(DEEPEST, serial) for case in cases if "managed-fields" in case.name]
    foreign = OURS.object(DEEPEST, 1_000 + serial)
    foreign["spec"]["schedulerName"] = "another"
    return [*objects, foreign]


def node_of(sender: HostileSender, pod: JsonObject) -> str:
    return decode_json(_pods, sender.read(pod).body).spec.node_name


def test_before_the_start_and_while_it_runs(fresh_control_plane: ControlPlane) -> None:
    with HostileSender(fresh_control_plane) as sender, Workload(fresh_control_plane, "ok") as work:
        sender.create_all([namespace(NAMESPACE), node("roomy")])
        sender.create_all(deepest(0))
        reply = sender.create(OURS.object(DEEPEST + 1))
        assert reply.status == 400, "the API server accepts still deeper ones"
        assert "exceeded max depth" in message(reply)
        process = start_kubestow(fresh_control_plane, CONFIG)
        until(lambda: node_of(sender, OURS.object(serial=0)), "bound after the list")
        work.pod("first")
        work.until_bound("first")
        sender.create_all(deepest(1))
        until(lambda: node_of(sender, OURS.object(serial=1)), "bound after the watch")
        work.pod("second")
        work.until_bound("second")
        assert not node_of(sender, OURS.object(serial=1_001)), "another scheduler's"
        assert "malformed object" not in process.log.read_text()
        for obj in deepest(1):
            sender.delete(obj)
        work.pod("third")
        work.until_bound("third")
        process.stop_cleanly()
