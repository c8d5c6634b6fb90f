"""The part of `kubestow check` about what is installed: who leads, and why replicas do not run."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.cli.installation import MAX_TEXT, pod_faults


def pod(
    *, waiting: dict[str, Any] | None = None, unscheduled: str = "", ready: str = ""
) -> dict[str, Any]:
    """Return a replica whose container waits, or runs and is ready or not, or that has no node."""
    status: dict[str, Any] = {}
    if ready:
        time = "2026-12-01T06:30:06Z"
        status["conditions"] = [{"type": "Ready", "status": ready, "lastTransitionTime": time}]
        status["containerStatuses"] = [{"name": "kubestow", "state": {"running": {}}}]
    if waiting is not None:
        container = {"name": "kubestow", "image": "kubestow:0.1.0", "state": {"waiting": waiting}}
        status["containerStatuses"] = [container]
    if unscheduled:
        condition = {"type": "PodScheduled", "status": "False", "message": unscheduled}
        status["conditions"] = [condition]
    return {"metadata": {"name": "kubestow-1"}, "status": status}


@pytest.mark.parametrize(
    ("replica", "text"),
    [
        (pod(), ""),
        (pod(waiting={"reason": "ContainerCreating"}), ""),
        (
            pod(waiting={"reason": "ImagePullBackOff"}),
            "Pod a/kubestow-1 waits for its image kubestow:0.1.0 (ImagePullBackOff): load it into",
        ),
        (pod(waiting={"reason": "ErrImageNeverPull"}), "(ErrImageNeverPull): load it into every"),
        (pod(waiting={"reason": "CrashLoopBackOff"}), "kubectl -n a logs kubestow-1 --previous"),
        (
            pod(waiting={"reason": "CreateContainerConfigError", "message": "no ConfigMap"}),
            "Pod a/kubestow-1 does not run: CreateContainerConfigError: no ConfigMap",
        ),
        (pod(unscheduled="0/3 nodes"), "Pod a/kubestow-1 has no node: 0/3 nodes"),
        (pod(ready="True"), ""),
        (pod(ready="False"), "Pod a/kubestow-1 runs and is not ready, since 2026-12-01T06:30:06Z"),
    ],
)
def test_what_keeps_a_replica_from_running_is_said(replica: dict[str, Any], text: str) -> None:
    said = "\n".join(pod_faults("a", replica))
    assert text in said
    assert bool(text) is bool(said)


def test_a_message_is_cut() -> None:
    (said,) = pod_faults("a", pod(unscheduled="x" * 100_000))
    assert len(said) < 2 * MAX_TEXT
