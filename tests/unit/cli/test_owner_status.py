"""The causes why an owner has fewer pods than it should, from its own spec and status."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.cli.owner_status import missing


def condition(kind: str, status: str, reason: str, message: str = "") -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": reason, "message": message}


FAILED = condition("ReplicaFailure", "True", "FailedCreate", "exceeded quota: q")
NO_SET = condition("Progressing", "False", "ReplicaSetCreateError", "exceeded quota: sets")


@pytest.mark.parametrize(
    ("kind", "spec", "status", "known", "text"),
    [
        ("Deployment", {"replicas": 0}, {"observedGeneration": 1}, 0, "spec.replicas is 0."),
        ("StatefulSet", {"replicas": 0}, {}, 0, "It asks for no pods: spec.replicas is 0."),
        ("Deployment", {"replicas": 0}, {"replicas": 0}, 2, ""),
        ("Job", {"parallelism": 0}, {}, 0, "It asks for no pods: spec.parallelism is 0."),
        ("DaemonSet", {}, {"desiredNumberScheduled": 0}, 0, "desiredNumberScheduled is 0."),
        ("CronJob", {"suspend": True}, {}, 0, "It makes no pods: spec.suspend is true."),
        ("Deployment", {"replicas": 1, "paused": True}, {}, 0, "spec.paused is true."),
        (
            "Deployment",
            {"replicas": 1, "paused": True},
            {"conditions": [FAILED]},
            0,
            "1 pod is wanted, none exists: the ReplicaSet cannot create them: FailedCreate: exc",
        ),
        (
            "ReplicaSet",
            {"replicas": 3},
            {"replicas": 1, "conditions": [FAILED]},
            1,
            "3 pods are wanted, 1 exists: the ReplicaSet cannot create the others: FailedCreate: ",
        ),
        (
            "ReplicationController",
            {"replicas": 3},
            {"replicas": 2, "conditions": [FAILED]},
            0,
            "the ReplicationController cannot create the others: FailedCreate: exceeded quota: q",
        ),
        # In a rollout the pods of before are there.
        (
            "Deployment",
            {"replicas": 3},
            {"replicas": 3, "conditions": [FAILED]},
            3,
            "The ReplicaSet cannot create pods: FailedCreate: exceeded quota: q",
        ),
        (
            "Deployment",
            {"replicas": 3},
            {"conditions": [NO_SET]},
            0,
            "Its ReplicaSet cannot be created: ReplicaSetCreateError: exceeded quota: sets",
        ),
        ("Deployment", {"replicas": 3}, {"conditions": [{**FAILED, "status": "False"}]}, 3, ""),
        (
            "StatefulSet",
            {"replicas": 3},
            {"replicas": 1},
            1,
            "3 pods are wanted, 1 exists: a StatefulSet creates each after the one before is ready",
        ),
        (
            "StatefulSet",
            {"replicas": 3, "podManagementPolicy": "Parallel"},
            {"replicas": 1},
            1,
            "wanted, 1 exists; its events may say why:  kubectl -n shop describe statefulset web",
        ),
        ("StatefulSet", {"replicas": 3}, {"replicas": 0}, 0, "3 pods are wanted, none exists; its"),
        ("Job", {"parallelism": 4}, {"active": 1}, 1, "4 pods are wanted, 1 exists; its events"),
        ("Job", {"parallelism": 4, "completions": 9}, {"active": 1, "succeeded": 8}, 1, ""),
        (
            "Job",
            {"parallelism": 1},
            {"conditions": [condition("Failed", "True", "BackoffLimitExceeded", "too often")]},
            0,
            "It has finished: BackoffLimitExceeded: too often",
        ),
        (
            "Job",
            {"parallelism": 1},
            {"conditions": [{"type": "Complete", "status": "True"}]},
            0,
            "It has finished: Complete",
        ),
        (
            "DaemonSet",
            {},
            {"desiredNumberScheduled": 3, "currentNumberScheduled": 2},
            2,
            "3 pods are wanted, 2 exist; its events may say why",
        ),
        # The status is older than the pods that the scheduler knows, or there is none yet.
        ("Deployment", {"replicas": 3}, {"replicas": 1}, 3, ""),
        ("Deployment", {"replicas": 3}, {}, 0, ""),
    ],
)
def test_the_cause(
    kind: str, spec: dict[str, Any], status: dict[str, Any], known: int, text: str
) -> None:
    said = missing({"spec": spec, "status": status}, kind, "web", "shop", known)
    assert text in said
    assert bool(said) is bool(text)


@pytest.mark.parametrize("value", ["3", -1, True, 1 << 40, 1.5, [], {}])
@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob"])
def test_what_is_no_count_says_nothing(value: Any, kind: str) -> None:
    spec = {"replicas": value, "parallelism": value, "completions": value}
    status = {"replicas": 1, "active": value, "desiredNumberScheduled": value, "conditions": value}
    assert missing({"spec": {**spec, "suspend": 1}, "status": status}, kind, "a", "b", 1) == ""
    assert missing({"spec": value, "status": value}, kind, "a", "b") == ""
