"""A made-up cluster at work, for pictures of the page: as a stranger would meet it."""

from __future__ import annotations

from typing import Any, Final

from tests.page.answers import NOW, Answers, decision, group_view, pod_view, rejected

Json = dict[str, Any]

NO_CPU: Final = (
    "0/36 nodes are available: 12 node(s) had untolerated taint(s), 24 Insufficient cpu. "
    "preemption: 0/36 nodes are available: 12 Preemption is not helpful for scheduling, "
    "24 No preemption victims found for incoming pod."
)
NO_GPU: Final = (
    "0/36 nodes are available: 30 node(s) didn't match Pod's node affinity/selector, "
    "6 Insufficient nvidia.com/gpu."
)
NO_LABEL: Final = "0/36 nodes are available: 36 node(s) didn't match Pod's node affinity/selector."

#: Namespace, owner, number of pods, message, sentence, changes.
OWNERS: Final[list[tuple[str, str, int, str, str, Json]]] = [
    ("shop", "Deployment/checkout", 24, NO_CPU, ("None of 36 nodes fits: 24 lack CPU (wants 16 "
     "cpu, the largest node that passes everything else has 8); 12 have a taint it does not "
     "tolerate (dedicated=gpu:NoSchedule on 12)."), {}),
    ("research", "Job/llm-finetune-2026-11-29", 8, NO_GPU, ("None of 36 nodes fits: 30 have other "
     "labels; 6 lack nvidia.com/gpu (wants 8 nvidia.com/gpu, most free on a node that passes "
     "everything else: 3 (node-00004))."), {}),
    ("research", "PodGroup/pretrain", 6, "waiting for more members: 6 of 16 exist",
     ("Plugin GangScheduling does not let it be scheduled yet: waiting for more members: 6 of 16 "
     "exist."), {"place": "gated", "gating_plugin": "GangScheduling"}),
    ("batch", "Job/nightly-report", 3, NO_LABEL,
     "None of 36 nodes fits: 36 have other labels (disk=ssd: 0 of 36).", {}),
    ("batch", "", 2, "waiting for scheduling gates: [example.com/budget]",
     ("Plugin SchedulingGates does not let it be scheduled yet: waiting for scheduling gates: "
     "[example.com/budget]."), {"place": "gated", "gating_plugin": "SchedulingGates"}),
    ("shop", "StatefulSet/db", 1, "", "It waits for its turn in the queue: it is next.",
     {"place": "active", "unschedulable_plugins": [], "position": 0}),
]  # fmt: skip


def busy_cluster() -> Answers:
    """Return the answers of a cluster in which some pods wait."""
    answers = Answers(pods=[], nodes=36)
    for namespace, owner, count, message, sentence, changes in OWNERS:
        name = owner.partition("/")[2] or "debug"
        for number in range(count):
            pod = pod_view(f"{name}-{number:x}{number * 7919 % 4096:03x}", **changes)
            pod |= {"namespace": namespace, "message": message}
            pod |= {"timestamp": NOW - 60 * (number + 1) * (2 + len(name))}
            pod["uid"] += namespace
            answers.pods.append(pod)
            answers.owners[pod["uid"]] = owner
        answers.sentences[owner] = sentence
    answers.more_pods = 7
    answers.decisions = [decision(at, f"shop/web-{at}") for at in range(1, 20)]
    answers.decisions += [rejected(at, f"shop/checkout-{at}") for at in range(20, 30)]
    answers.groups = [
        group_view("pretrain", "WaitingForMembers"), group_view("serve", "AllBound"),
    ]  # fmt: skip
    return answers


def empty_cluster() -> Answers:
    """Return the answers of a cluster in which nothing was scheduled yet."""
    answers = Answers(pods=[], nodes=3)
    answers.decisions, answers.groups = [], []
    answers.unused = True
    return answers
