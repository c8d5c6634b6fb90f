"""A source for tests: answers about a small or a large made-up cluster, some of them hostile."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from scheduler.cli.page.questions import QuestionError
from scheduler.cli.page.sources import Description
from scheduler.explain.records import WaitingGroup
from scheduler.explain.records.causes import cause_of
from scheduler.explain.records.waiting_pods import Selection, WaitingPods

Json = dict[str, Any]

NOW: Final = 1_800_000_000.0
HOSTILE_MESSAGE: Final = (
    "<img src=x onerror=\"document.title='owned'\"> \u202egnp.exe\u2066 \x1b[31mred\x07 "
    "javascript:alert(1) z\u0300\u0301\u0302\u0303\u0304\u0305\u0306algo " + "A" * 1_000_000
)
HOSTILE_NAME: Final = "<script>document.title='owned'</script>\u202e"

REMEDIES: Final = {
    "remedies": [
        {
            "codes": ["RemoveTaint"],
            "text": "remove taint dedicated=x:NoSchedule from node-00004",
            "steps": [],
            "node": "node-00004",
            "cost": 1.0,
        }
    ],
    "first": [{"text": "create the pod with schedulerName kubestow"}],
    "fits": "",
    "tried": 12,
    "complete": True,
    "note": "",
}

STORY: Final = [
    (
        "None of 18 nodes fits: 16 lack CPU (wants 16 cpu, the largest node has 8); "
        "2 others for other reasons (-v)."
    ),
    "It is unschedulable, after 3 attempts, the last 1m30s ago.",
    "It is tried again when a node appears; and in 5m at the latest (periodic flush).",
]

STATISTICS: Final = ("active", "backoff", "unschedulable", "gated", "in_flight")


def pod_view(name: str, place: str = "unschedulable", **changes: Any) -> Json:
    """Return a pod of `/debug/queue`."""
    return {
        "namespace": "team-a",
        "name": name,
        "uid": f"uid-{name}",
        "profile": "kubestow",
        "place": place,
        "position": 0 if place == "active" else None,
        "attempts": 3,
        "timestamp": NOW - 90,
        "next_retry": NOW + 30 if place == "backoff" else None,
        "next_retry_reason": "backoff" if place == "backoff" else "",
        "gating_plugin": "DeferredQuota" if place == "gated" else "",
        "message": "0/3 nodes are available: 3 Insufficient cpu.",
        "unschedulable_plugins": ["NodeResourcesFit"],
        "pending_plugins": [],
        "nominated_node": "",
        "last_event": "NodeAdd",
        "last_hint": "NodeResourcesFit",
        **changes,
    }


def group_view(name: str, stage: str = "Unschedulable", **changes: Any) -> Json:
    """Return a pod group of `/debug/gangs`."""
    return {
        "group": f"team-a/{name}",
        "source": "CRD",
        "stage": stage,
        "minimum": 64,
        "bound": 8,
        "succeeded": 2,
        "reserved": 3,
        "pending": 40,
        "gated": 5,
        "foreign": 0,
        "text": "needs 64 pods, 40 fit at most, 24 do not: short of nvidia.com/gpu on 5 nodes",
        **changes,
    }


def node_row(number: int) -> Json:
    """Return a node of `/debug/nodes`."""
    used = number * 7 % 16
    return {
        "name": f"node-{number:05}",
        "zone": f"zone-{'abc'[number % 3]}",
        "pool": "gpu" if number % 9 else "system",
        "unschedulable": number % 50 == 7,
        "taints": int(number % 50 == 7),
        "pods": used,
        "requested": [used, used << 32, 0, used, number % 9],
        "allocatable": [16, 64 << 30, 100 << 30, 110, 8],
    }


def decision(seq: int, pod: str = "team-a/web-1", **changes: Any) -> Json:
    """Return a decision of `/debug/decisions`."""
    scores = [{"plugin": "NodeResourcesFit", "raw": 71, "normalized": 71, "weighted": 71}]
    return {
        "seq": seq,
        "pod": pod,
        "uid": "uid",
        "profile": "kubestow",
        "attempt": 2,
        "time": NOW - 60 + seq,
        "queue": "active",
        "event": "NodeAdd",
        "hint_plugin": "NodeResourcesFit",
        "result": "placed",
        "node": "node-00001",
        "message": "",
        "nodes": 3,
        "evaluated": 3,
        "feasible": 2,
        "rejections": [],
        "best": [{"node": "node-00001", "total": 171, "scores": scores}],
        "victims": [],
        "nominated_node": "",
        "phases": {"queued": 1.5, "filter": 0.0004, "bind": 0.01},
        "bound": NOW - 59 + seq,
        **changes,
    }


def rejected(seq: int, pod: str) -> Json:
    """Return a decision that found no node."""
    why = {
        "plugin": "NodeResourcesFit",
        "status": "Unschedulable",
        "reason": "Insufficient cpu",
        "nodes": 3,
        "detail": "wants 6, most free: 3.5 (node-00002)",
    }
    return decision(
        seq,
        pod,
        result="unschedulable",
        node="",
        message="0/3 nodes are available: 3 Insufficient cpu.",
        feasible=0,
        rejections=[why],
        best=[],
        bound=0.0,
    )


def explanation(namespace: str, name: str) -> Json:
    """Return the pod of `/debug/explain`."""
    score = {"plugin": "NodeResourcesFit", "raw": 40, "normalized": 40, "weighted": 40}
    return {
        "namespace": namespace,
        "name": name,
        "uid": "uid",
        "profile": "kubestow",
        "priority": 0,
        "state": "queued",
        "summary": "unschedulable: waits for an event; it fits on 1 of 3 nodes now",
        "now": NOW,
        "node": "",
        "since": "",
        "queue": pod_view(name),
        "nodes": {
            "nodes": 3,
            "feasible": 1,
            "rejections": [
                {
                    "plugin": "NodeResourcesFit",
                    "status": "Unschedulable",
                    "reasons": ["Insufficient cpu"],
                    "nodes": 2,
                    "examples": ["node-00001", "node-00002"],
                    "only_nominated": False,
                }
            ],
            "best": [{"node": "node-00003", "total": 140, "scores": [score]}],
            "tied": 1,
            "weights": {"NodeResourcesFit": 1},
            "skipped_filters": [],
            "skipped_scores": [],
            "error": "",
            "error_plugin": "",
            "notes": [],
            "explanations": {"DeferredQuota": ["used 4 of 8 GPUs"]},
        },
    }


class Answers:
    """A `Source` whose answers the test may change."""

    def __init__(self, *, pods: list[Json] | None = None, nodes: int = 30) -> None:
        self.pods = [pod_view("web-1"), pod_view("web-2", "gated")] if pods is None else pods
        self.nodes = nodes
        #: Owners of pods, by UID, and the sentences of their groups.
        self.owners: dict[str, str] = {}
        self.sentences: dict[str, str] = {}
        #: Pods that have a node and are not bound yet.
        self.binding: list[Json] = []
        #: Pods on each node beside one.
        self.more_pods = 0
        #: Whether nothing was ever scheduled.
        self.unused = False
        self.groups = [group_view("train"), group_view("infer", "AllBound")]
        self.decisions = [decision(1), rejected(2, "team-a/web-2")]
        self.description = Description("live", "https://localhost:10259")
        self.failure: QuestionError | None = None
        self.asked: list[tuple[str, dict[str, str], float | None]] = []

    def describe(self) -> Description:
        return self.description

    def ask(self, path: str, query: Mapping[str, str], at: float | None) -> bytes:
        self.asked.append((path, dict(query), at))
        if self.failure is not None:
            raise self.failure
        common = {"apiVersion": "debug.kubestow.io/v1", "now": NOW, "leading": True}
        return json.dumps(common | self._answer(path.removeprefix("/debug/"), query)).encode()

    def _answer(self, page: str, query: Mapping[str, str]) -> Json:
        match page:
            case "queue":
                return {
                    "kind": "QueueList",
                    "statistics": self._statistics(),
                    "pods": self.pods[: int(query.get("limit", 100))],
                    "binding": self.binding,
                }
            case "waiting":
                return self._waiting(query)
            case "gangs":
                total = len(self.groups)
                return {"kind": "GroupList", "total": total, "groups": self.groups}
            case "explain":
                namespace, _, name = query["pod"].partition("/")
                story = {"kind": "PodExplanation", "pod": explanation(namespace, name)}
                return {
                    **story,
                    "story": STORY,
                    "remedies": REMEDIES if "remedies" in query else None,
                }
            case "decisions":
                after = int(query.get("since", 0))
                found = [each for each in self.decisions if each["seq"] > after]
                return {"kind": "DecisionList", "decisions": found}
            case "nodes":
                return self._nodes(int(query["from"]), int(query["limit"]))
            case "node":
                return self._node(query["name"])
            case _:
                return self._summary()

    def _waiting(self, query: Mapping[str, str]) -> Json:
        words = tuple(query.get("words", "").lower().split())
        selection = Selection(
            query.get("namespace", ""), query.get("owner", ""), query.get("cause", ""), words
        )
        found: WaitingPods[Json] = WaitingPods(selection)
        for pod in self.pods:
            waiting = self._waiting_pod(pod)
            owner, cause = waiting["owner"], waiting["cause"]
            found.add(pod["namespace"], pod["name"], owner, cause, pod["timestamp"], waiting)
        groups = [
            WaitingGroup(
                each.namespace, each.owner, each.cause, each.pods, each.pod["pod"]["name"],
                each.since, self.sentences.get(each.owner, each.pod["pod"]["message"]),
            )
            for each in found.groups(int(query.get("groups", 100)))
        ]  # fmt: skip
        page = {
            "kind": "WaitingList",
            "namespace": selection.namespace,
            "total": found.total,
            "headline": found.headline(),
            "causes": found.causes(),
            "selected": found.selected,
            "group_total": found.group_total,
            "groups": groups,
            "pods": found.longest(int(query.get("limit", 0))),
        }
        encoded: Json = msgspec.to_builtins(page)
        return encoded

    def _waiting_pod(self, pod: Json) -> Json:
        gate = pod["gating_plugin"]
        cause = cause_of(
            pod["place"], pod["message"], [gate] if gate else pod["unschedulable_plugins"]
        )
        return {"pod": pod, "owner": self.owners.get(pod["uid"], ""), "cause": cause}

    def _statistics(self) -> Json:
        counts = dict.fromkeys(STATISTICS, 0)
        for pod in self.pods:
            counts[pod["place"].replace("-", "_")] += 1
        return counts

    def _nodes(self, first: int, limit: int) -> Json:
        end = min(self.nodes, first + limit)
        return {
            "kind": "NodeList",
            "total": self.nodes,
            "resources": ["cpu", "memory", "ephemeral-storage", "pods", "nvidia.com/gpu"],
            "nodes": [node_row(number) for number in range(first, end)],
            "next": end if end < self.nodes else None,
        }

    def _node(self, name: str) -> Json:
        pod = {"namespace": "team-a", "name": "db-0", "uid": "db", "profile": "kubestow"}
        requests = {"cpu": 2.5, "memory": 4 << 30}
        return {
            "kind": "Node",
            "name": name,
            "zone": "zone-a",
            "unschedulable": False,
            "taints": ["a=b:NoSchedule"],
            "labels": {"topology.kubernetes.io/zone": "zone-a"},
            "allocatable": {"cpu": 16, "memory": 64 << 30, "pods": 110},
            "requested": {"cpu": 2.5 + sum(0.5 + at / 4 for at in range(self.more_pods))}
            | {"memory": (4 + sum(range(1, self.more_pods + 1))) << 30, "pods": 1 + self.more_pods},
            "pods_total": 1 + self.more_pods,
            "pods": [
                {**pod, "priority": 5, "state": "bound", "requests": requests},
                *(
                    {**pod, "name": f"web-{at}", "uid": str(at), "priority": 0, "state": "bound"}
                    | {"requests": {"cpu": 0.5 + at / 4, "memory": (at + 1) << 30}}
                    for at in range(self.more_pods)
                ),
            ],
        }

    def _summary(self) -> Json:
        return {
            "kind": "Summary",
            "started": NOW - 7200,
            "queue": self._statistics(),
            "attempts": {} if self.unused else {"scheduled": 1200, "unschedulable": 40, "error": 1},
            "rates": {"seconds": 60.0, "attempts": {} if self.unused else {"scheduled": 12.5}},
            "nodes": self.nodes,
            "pods": 1100,
            "assumed_pods": 3,
            "resources": [{"resource": "cpu", "requested": 300.5, "allocatable": 480.0}],
            "timeline": [
                {"time": NOW - 15 * (119 - at), "waiting": at % 40, "placed": at % 7, "failed": 1}
                for at in range(120)
            ][: 0 if self.unused else 120],
            "fill": [3, 2, 1, 0, 4, 9, 12, 3, 2, 1, 0],
            "fullest": [],
            "oldest": self.pods[:20],
            "placed": []
            if self.unused
            else [
                {"time": NOW - 3, "pod": "team-a/db-0", "node": "node-00001", "attempt": 1}
                | {"score": 171, "seconds": 0.02}
            ],
        }
