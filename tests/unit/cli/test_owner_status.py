"""The causes why an owner has fewer pods than it should, from its own spec and status."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.cli.owner_status import cure, missing, rollout


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


@pytest.mark.parametrize(
    ("numbers", "pods", "text"),
    [
        (
            "requested: requests.cpu=4, used: requests.cpu=0, limited: requests.cpu=2",
            3,
            "at least requests.cpu=12 (it has 2), or each must request at most requests.cpu=666m.",
        ),
        (
            "requested: memory=8Gi, used: memory=1Gi, limited: memory=2Gi.",
            1,
            "at least memory=9Gi (it has 2Gi), or each must request at most memory=1Gi.",
        ),
        # Nothing that a pod requests makes room for its number.
        (
            "requested: pods=1,cpu=1, used: pods=9,cpu=3, limited: pods=9,cpu=3500m",
            2,
            "at least pods=11 (it has 9), cpu=5 (it has 3500m).",
        ),
        # Cut off, or unlike what an API server writes.
        ("requested: cpu=4, used: cpu=1, limited: cp…", 1, ""),
        ("requested: cpu=4, used: cpu=many, limited: cpu=2", 1, ""),
        ("requested: cpu, used: cpu=1, limited: cpu=2", 1, ""),
        ("requested: pods=1, limited: pods=2", 1, ""),
    ],
)
def test_of_a_quota_the_cure_is_told_with_numbers(numbers: str, pods: int, text: str) -> None:
    said = cure(f'pods "a" is forbidden: exceeded quota: q, {numbers}', pods)
    lack = "one that is" if pods == 1 else f"{pods} that are"
    assert said == (f"\nFor the {lack} missing, ResourceQuota q must have {text}" if text else "")


def test_the_cure_is_for_the_pods_that_lack() -> None:
    refused = "exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"
    status = {"replicas": 1, "conditions": [{**FAILED, "message": refused}]}
    said = missing({"spec": {"replicas": 4}, "status": status}, "ReplicaSet", "web", "shop", 1)
    assert said.endswith(
        "\nFor the 3 that are missing, ResourceQuota q must have at least pods=4 (it has 1)."
    )
    rollout = missing({"spec": {"replicas": 1}, "status": status}, "ReplicaSet", "web", "shop", 1)
    assert rollout.endswith(
        "\nFor the one that is missing, ResourceQuota q must have at least pods=2 (it has 1)."
    )
    unstated = {**FAILED, "message": "failed quota: q: must specify limits.cpu for: a"}
    said = missing({"spec": {"replicas": 4}, "status": {"conditions": [unstated]}}, "ReplicaSet",
                   "web", "shop")  # fmt: skip
    assert said.endswith("for: a\nState them in the containers, or let a LimitRange set defaults.")


def deployment(
    replicas: int = 3,
    exist: int = 4,
    available: int = 3,
    updated: int = 1,
    strategy: dict[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    return {
        "metadata": {"generation": 2},
        "spec": {"replicas": replicas, "strategy": strategy or {}, **spec},
        "status": {
            "observedGeneration": 2,
            "replicas": exist,
            "updatedReplicas": updated,
            "availableReplicas": available,
        },
    }


def update(**fields: Any) -> dict[str, Any]:
    return {"rollingUpdate": fields}


@pytest.mark.parametrize(
    ("found", "text"),
    [
        # 25 % of 3, rounded down, is none.
        (deployment(), "3 of 4 pods are old. No old pod goes before a new one is available, since"),
        (deployment(), "since of 3 wanted 3 are available and maxUnavailable is 0.\n"),
        (deployment(), '"rollingUpdate":{"maxUnavailable":1}'),
        (deployment(exist=2, replicas=1, available=1), "1 of 2 pods is old. "),
        (deployment(available=2, strategy=update(maxUnavailable=1)), '{"maxUnavailable":2}'),
        (deployment(strategy=update(maxUnavailable="33%")), "available and maxUnavailable is 0."),
        # Both of them 0 is 1.
        (deployment(exist=3, available=2, strategy=update(maxUnavailable=0, maxSurge="0%")),
         "2 of 3 pods are old."),
        (deployment(strategy=update(maxUnavailable=0, maxSurge=0)), ""),
        # It deletes one soon.
        (deployment(strategy=update(maxUnavailable=1)), ""),
        (deployment(strategy=update(maxUnavailable="34%")), ""),
        # No rollout, one that has no new pod, one that is stopped, or not begun.
        (deployment(exist=3, updated=3), ""),
        (deployment(updated=0), ""),
        (deployment(paused=True), ""),
        (deployment(strategy={"type": "Recreate"}), ""),
        ({**deployment(), "metadata": {"generation": 3}}, ""),
        # Whatever somebody wrote.
        (deployment(strategy=update(maxUnavailable="many")), ""),
        (deployment(strategy=update(maxUnavailable=-1)), ""),
        ({"spec": [], "status": 1}, ""),
    ],
)  # fmt: skip
def test_why_a_rollout_stands_still(found: dict[str, Any], text: str) -> None:
    said = rollout(found, "web", "shop")
    assert text in said
    assert bool(text) == bool(said)
