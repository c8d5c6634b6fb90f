"""The source of the page about a finished run: answers as the scheduler gave, at any moment.

Everything is derived from `Frame`; the last frame is kept, since a view asks several questions
about one moment. What only a living scheduler can tell, as what every node says to a pod now, is
not there.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from heapq import nlargest
from typing import Any, Final

import click
import msgspec

from scheduler.cli.exit_codes import BAD_INPUT, UNUSABLE_BUNDLE, CommandError
from scheduler.cli.page.bundle_runs import run_of
from scheduler.cli.page.questions import QuestionError
from scheduler.cli.page.run_file import RunError, load_run
from scheduler.cli.page.sources import Description
from scheduler.cli.page.timeline import timeline
from scheduler.explain.records import API_VERSION, WaitingGroup
from scheduler.explain.records.causes import cause_of
from scheduler.explain.records.story import none_fits
from scheduler.explain.records.waiting_pods import Selection, WaitingPods
from scheduler.history import Decision, DecisionResult
from scheduler.history.run import Frame, RecordedRun, RunNode, RunPod, frame_at
from scheduler.recording.format import BundleError
from scheduler.recording.reading import is_bundle

Json = dict[str, Any]

NOT_RECORDED: Final = "a finished run does not tell this"
RATE_SECONDS: Final = 60.0
_FILL_BUCKETS: Final = 11

_PLACE: Final = {
    DecisionResult.GATED: "gated",
    DecisionResult.UNSCHEDULABLE: "unschedulable",
    DecisionResult.ERROR: "backoff",
}
"""Place of a waiting pod by its last decision. A run does not know better; others are active."""


class RecordedSource:
    """Answers about a run. Thread-safe."""

    def __init__(self, run: RecordedRun, title: str) -> None:
        self._run = run
        self._title = run.title or title
        self._lock = threading.Lock()
        self._frame: Frame | None = None
        self._answers: dict[str, Callable[[Frame, Mapping[str, str]], Json]] = {
            "/debug/summary": self._summary,
            "/debug/queue": self._queue,
            "/debug/waiting": self._waiting,
            "/debug/explain": self._explain,
            "/debug/decisions": self._decisions,
            "/debug/nodes": self._nodes,
            "/debug/node": self._node,
        }

    @classmethod
    def load(cls, path: str) -> RecordedSource:
        """Read the file of a run, a bundle or a recording.

        Raises:
            CommandError: it is none, or it is damaged.
        """
        try:
            run = run_of(path) if is_bundle(path) else load_run(path)
        except BundleError as error:
            raise CommandError(str(error), UNUSABLE_BUNDLE) from error
        except RunError as error:
            raise CommandError(str(error), BAD_INPUT) from error
        return cls(run, click.format_filename(path, shorten=True))

    def describe(self) -> Description:
        """Return title and span."""
        return Description("recorded", self._title, self._run.begin, self._run.end)

    def ask(self, path: str, query: Mapping[str, str], at: float | None) -> bytes:
        """Answer as the scheduler would have at that moment."""
        if path not in self._answers:
            raise QuestionError(404, NOT_RECORDED)
        with self._lock:
            frame = self._at(self._run.end if at is None else at)
        kind, answer = path.rpartition("/")[2], self._answers[path](frame, query)
        common = {
            "apiVersion": API_VERSION,
            "kind": _KINDS[kind],
            "now": frame.moment,
            "leading": True,
        }
        return msgspec.json.encode(common | answer)

    def _at(self, moment: float) -> Frame:
        if self._frame is None or self._frame.moment != moment:
            self._frame = frame_at(self._run, moment)
        return self._frame

    def _summary(self, frame: Frame, query: Mapping[str, str]) -> Json:
        rows = int(query.get("rows", 10))
        results = Counter(each.result for each in frame.decisions)
        since = max(self._run.begin, frame.moment - RATE_SECONDS)
        lately = sum(
            each.time > since and each.result is DecisionResult.PLACED for each in frame.decisions
        )
        seconds = frame.moment - since
        fills = {name: max(_shares(frame, node), default=0.0) for name, node in frame.nodes.items()}
        buckets = [0] * _FILL_BUCKETS
        for fill in fills.values():
            buckets[min(_FILL_BUCKETS - 1, int(fill * 10))] += 1
        placed = [each for each in reversed(frame.decisions) if each.score is not None or each.node]
        return {
            "started": self._run.begin,
            "queue": _statistics(frame),
            "attempts": {
                "scheduled": results[DecisionResult.PLACED],
                "unschedulable": results[DecisionResult.UNSCHEDULABLE],
                "error": results[DecisionResult.ERROR],
            },
            "rates": {
                "seconds": seconds,
                "attempts": {"scheduled": lately / seconds} if seconds else {},
            },
            "nodes": len(frame.nodes),
            "pods": sum(map(len, frame.placed.values())),
            "assumed_pods": 0,
            "resources": _totals(frame),
            "fill": buckets,
            "timeline": timeline(self._run, frame.moment),
            "oldest": [_waiting(frame, pod) for pod in frame.waiting[:rows]],
            "placed": [
                {"time": each.time, "pod": each.pod, "node": each.node, "attempt": each.attempt}
                | {"score": each.score, "seconds": each.seconds}
                for each in placed[:rows]
                if each.result is DecisionResult.PLACED
            ],
        }

    def _queue(self, frame: Frame, query: Mapping[str, str]) -> Json:
        limit, namespace = int(query.get("limit", 100)), query.get("namespace", "")
        shown: Counter[str] = Counter()
        pods = []
        for pod in frame.waiting:
            place = _place(frame, pod)
            if (not namespace or pod.namespace == namespace) and shown[place] < limit:
                shown[place] += 1
                pods.append(_waiting(frame, pod))
        return {"namespace": namespace, "limit": limit, "pods": pods} | {
            "statistics": _statistics(frame)
        }

    def _waiting(self, frame: Frame, query: Mapping[str, str]) -> Json:
        words = tuple(query.get("words", "").lower().split())
        selection = Selection(
            query.get("namespace", ""), query.get("owner", ""), query.get("cause", ""), words
        )
        found: WaitingPods[RunPod] = WaitingPods(selection)
        for pod in frame.waiting:
            # A run does not tell who owns a pod.
            found.add(pod.namespace, pod.name, "", _cause(frame, pod), pod.created, pod)
        return {
            "namespace": selection.namespace,
            "total": found.total,
            "headline": found.headline(),
            "causes": found.causes(),
            "selected": found.selected,
            "group_total": found.group_total,
            "groups": [
                WaitingGroup(
                    each.namespace, each.owner, each.cause, each.pods, each.pod.name, each.since,
                    _why(frame, each.pod),
                )
                for each in found.groups(int(query.get("groups", 100)))
            ],
            "pods": [
                {"pod": _waiting(frame, pod), "owner": "", "cause": _cause(frame, pod)}
                for pod in found.longest(int(query.get("limit", 0)))
            ],
        }  # fmt: skip

    def _explain(self, frame: Frame, query: Mapping[str, str]) -> Json:
        key = query.get("pod", "")
        waiting = next((pod for pod in frame.waiting if pod.key == key), None)
        node, placed = next(
            ((name, pod) for name, pods in frame.placed.items() for pod in pods if pod.key == key),
            ("", None),
        )
        pod = waiting or placed
        if pod is None:
            raise QuestionError(404, f"there is no pod {key} at this time of the run")
        last = frame.last.get(key)
        reason = f": {last.message}" if last is not None and last.message else ""
        summary = f"on node {node}" if node else f"waits for a node{reason}"
        return {
            "pod": {
                **_named(pod),
                "priority": pod.priority,
                "state": "bound" if node else "queued",
                "summary": summary,
                "now": frame.moment,
                "node": node,
                "since": "",
                "queue": None if node else _waiting(frame, pod),
                "nodes": None,
            }
        }

    def _decisions(self, frame: Frame, query: Mapping[str, str]) -> Json:
        since, limit = int(query.get("since", 0)), int(query.get("limit", 100))
        key = query.get("pod")
        found: Iterable[Decision] = (
            each
            for each in frame.decisions
            if each.seq > since and (key is None or each.pod == key)
        )
        return {"decisions": nlargest(limit, found, key=lambda each: each.seq)}

    def _nodes(self, frame: Frame, query: Mapping[str, str]) -> Json:
        first, limit = int(query.get("from", 0)), int(query.get("limit", 500))
        nodes = sorted(frame.nodes.values(), key=lambda node: node.name)
        resources = _resources(frame)
        end = first + limit
        return {
            "total": len(nodes),
            "resources": resources,
            "nodes": [_node_row(frame, node, resources) for node in nodes[first:end]],
            "next": end if end < len(nodes) else None,
        }

    def _node(self, frame: Frame, query: Mapping[str, str]) -> Json:
        name = query.get("name", "")
        node = frame.nodes.get(name)
        if node is None:
            raise QuestionError(404, f"there is no node {name} at this time of the run")
        pods = sorted(frame.placed.get(name, ()), key=lambda pod: (-pod.priority, pod.key))
        return {
            "name": name,
            "zone": node.zone,
            "unschedulable": node.unschedulable,
            "taints": [],
            "labels": {},
            "allocatable": node.allocatable,
            "requested": _requested(frame, name),
            "pods_total": len(pods),
            "pods": [
                {**_named(pod), "priority": pod.priority, "state": "bound"}
                | {"requests": pod.requests}
                for pod in pods[: int(query.get("pods", 200))]
            ],
        }


_KINDS: Final = {
    "summary": "Summary",
    "queue": "QueueList",
    "explain": "PodExplanation",
    "waiting": "WaitingList",
    "decisions": "DecisionList",
    "nodes": "NodeList",
    "node": "Node",
}


def _named(pod: RunPod) -> Json:
    uid = pod.uid or pod.key
    return {"namespace": pod.namespace, "name": pod.name, "uid": uid, "profile": pod.profile}


def _requested(frame: Frame, node: str) -> dict[str, float]:
    """Return what the pods of a node request, `pods` included."""
    pods = frame.placed.get(node, ())
    total: Counter[str] = Counter({"pods": len(pods)})
    for pod in pods:
        total.update(pod.requests)
    return dict(total)


def _shares(frame: Frame, node: RunNode) -> Iterable[float]:
    requested = _requested(frame, node.name)
    for name, amount in node.allocatable.items():
        used = requested.get(name, 0.0)
        yield used / amount if amount > 0 else float(used > 0)


def _resources(frame: Frame) -> list[str]:
    """Return native resources first, then the others by name."""
    names = {name for node in frame.nodes.values() for name in node.allocatable}
    native = [name for name in ("cpu", "memory", "ephemeral-storage", "pods") if name in names]
    return native + sorted(names.difference(native))[:8]


def _totals(frame: Frame) -> list[Json]:
    requested: Counter[str] = Counter()
    allocatable: Counter[str] = Counter()
    for name, node in frame.nodes.items():
        requested.update(_requested(frame, name))
        allocatable.update(node.allocatable)
    return [
        {"resource": name, "requested": requested[name], "allocatable": allocatable[name]}
        for name in _resources(frame)
    ]


def _node_row(frame: Frame, node: RunNode, resources: list[str]) -> Json:
    requested = _requested(frame, node.name)
    return {
        "name": node.name,
        "zone": node.zone,
        "pool": "",
        "unschedulable": node.unschedulable,
        "taints": 0,
        "pods": int(requested["pods"]),
        "requested": [requested.get(name, 0) for name in resources],
        "allocatable": [node.allocatable.get(name, 0) for name in resources],
    }


def _place(frame: Frame, pod: RunPod) -> str:
    last = frame.last.get(pod.key)
    return "active" if last is None else _PLACE.get(last.result, "active")


def _statistics(frame: Frame) -> Json:
    places = Counter(_place(frame, pod) for pod in frame.waiting)
    return {name: places[name] for name in ("active", "backoff", "unschedulable", "gated")} | {
        "in_flight": 0
    }


def _cause(frame: Frame, pod: RunPod) -> str:
    view = _waiting(frame, pod)
    return cause_of(view["place"], view["message"], view["unschedulable_plugins"])


def _why(frame: Frame, pod: RunPod) -> str:
    """Return in a sentence why a pod waits; empty if nothing was decided about it."""
    last = frame.last.get(pod.key)
    if last is None:
        return ""
    if not last.rejections:
        return last.message
    return none_fits(last.nodes, last.rejections, namespace=pod.namespace)


def _waiting(frame: Frame, pod: RunPod) -> Json:
    last = frame.last.get(pod.key)
    rejected = last is not None and last.result is DecisionResult.UNSCHEDULABLE
    plugins = sorted({each.plugin for each in last.rejections}) if last and rejected else []
    return {
        **_named(pod),
        "place": _place(frame, pod),
        "position": None,
        "attempts": 0 if last is None else last.attempt,
        "timestamp": pod.created,
        "waiting_since": pod.created,
        "next_retry": None,
        "next_retry_reason": "",
        "gating_plugin": "",
        "message": "" if last is None else last.message,
        "unschedulable_plugins": plugins,
        "pending_plugins": [],
        "nominated_node": "" if last is None else last.nominated_node,
        "last_event": "" if last is None else last.event,
        "last_hint": "" if last is None else last.hint_plugin,
    }
