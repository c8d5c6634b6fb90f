"""Hostile objects on a real API server: which it stores, and that `kubestow run` survives them.

`python -m benchmarks.hostile` measures their cost; here no process may end.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

import pytest

from devtools.control_plane.control_plane import ControlPlane, ManagedProcess
from devtools.control_plane.inspecting import Inspector
from devtools.control_plane.kubestow import start_kubestow
from devtools.hostile.catalogue import CASES, WORST, HostileCase, Verdict, chosen, name_of
from devtools.hostile.sending import HostileSender, message
from devtools.hostile.templates import NAMESPACE, TEMPLATES, namespace
from tests.envtest.workload import Workload, until

pytestmark = pytest.mark.envtest

ELECTION: Final = {
    "leaderElection": {
        "leaderElect": True,
        "resourceNamespace": "default",
        "resourceName": "kubestow-hostile",
    }
}
DEEP: Final = tuple(CASES[f"{plural}-managed-fields-deep"] for plural in ("services", "nodes"))


@pytest.fixture
def sender(control_plane: ControlPlane) -> Iterator[HostileSender]:
    with HostileSender(control_plane) as opened:
        opened.create(namespace(NAMESPACE))
        yield opened
        opened.delete_pods(NAMESPACE)


@pytest.mark.parametrize("plural", sorted(TEMPLATES))
def test_the_api_server_stores_the_objects_as_the_catalogue_declares(
    sender: HostileSender, plural: str
) -> None:
    wrong = {}
    for serial, case in enumerate(chosen(plural=plural)):
        obj = case.object(case.full, serial)
        reply = sender.create(obj)
        if reply.ok:
            sender.delete(obj)
        if reply.ok is not (case.verdict is Verdict.STORED):
            wrong[case.name] = f"{reply.status} {'' if reply.ok else message(reply)[:300]}"
    assert not wrong


def test_objects_reach_a_scheduler_as_deep_as_they_were_sent(sender: HostileSender) -> None:
    case = CASES["pods-managed-fields-deep"]
    sender.create_all([obj := case.object(case.full, 900)])
    assert sender.read(obj).body.count(b'{"f:a":') == case.full


def hostile(sender: HostileSender, cases: tuple[HostileCase, ...], first: int) -> list[str]:
    """Create one object of each case at full size; return the names of the pods."""
    objects = [case.object(case.full, first + n) for n, case in enumerate(cases)]
    sender.create_all(objects)
    return [name_of(obj) for obj in objects if obj["kind"] == "Pod"]


def attempted(sender: HostileSender, name: str) -> bool:
    """Whether a pod is bound, or has a condition that it does not fit."""
    # Searched, not decoded: no decoder accepts such depth.
    body = sender.exchange("GET", f"/api/v1/namespaces/{NAMESPACE}/pods/{name}").body
    return b'"nodeName":"' in body or b'"type":"PodScheduled"' in body


def test_two_replicas_survive_the_worst_and_restart_with_them(
    control_plane: ControlPlane, sender: HostileSender
) -> None:
    processes: list[ManagedProcess] = []

    def start(name: str) -> ManagedProcess:
        processes.append(start_kubestow(control_plane, ELECTION, name=f"kubestow-hostile-{name}"))
        return processes[-1]

    before = [case.object(case.full, 500) for case in DEEP]
    sender.create_all(before)
    try:
        with Workload(control_plane, "hostile-tenant") as work:
            for number in range(20):
                work.node(f"hostile-node-{number}", cpu="8")
            leader, standby = start("leader"), start("standby")
            names = hostile(sender, WORST, 600)
            work.pod("beside")
            work.until_bound("beside")
            for name in names:
                until(partial(attempted, sender, name), f"{name} was tried")
            assert leader.running, leader.describe("ended")
            assert standby.running, standby.describe("ended")
            malformed = Inspector(leader, control_plane).sample("kubestow_malformed_objects_total")
            assert malformed == 0, leader.log_tail()
            leader.stop()
            work.pod("after-takeover")
            work.until_bound("after-takeover")
            # A replica whose first lists have all of the objects.
            again = start("again")
            standby.kill()
            work.pod("after-restart")
            until(lambda: "after-restart" in work.bound(), "bound by the new one")
            assert again.running, again.describe("ended")
            sender.delete_pods(NAMESPACE)
            work.pod("after-deletion")
            work.until_bound("after-deletion")
            again.stop_cleanly()
    finally:
        for process in processes:
            process.kill()
        for obj in before:
            sender.delete(obj)
