"""A namespace whose compute quota is deferred, and the history of its pods.

with Team(cluster, "team-a", cpu=4, guarded=True) as team:
    team.queue(cpu=8)
    team.pod("a")
    team.until_bound(4)
    assert team.history().most_cpu <= 4000
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self

from scheduler.api.quantity import milli_value
from tests.envtest.workload import until
from tests.thirdparty.cluster import Cluster

Json = dict[str, Any]

CPU: Final = "deferred.kubestow.io/requests.cpu-millis"
MARK: Final = "kubestow.io/quota-deferred"
QUEUE: Final = "kueue.x-k8s.io/queue-name"
KUEUE: Final = "/apis/kueue.x-k8s.io/v1beta2"
HOSTNAME: Final = "kubernetes.io/hostname"
NODE_LABELS: Final = {"kubestow.test/pool": "main"}
"""Of the nodes that Kueue may choose from."""
WATCH_SECONDS: Final = 3
"""The API server sends a bookmark two seconds before the end, so that a quiet watch can go on."""


@dataclass(slots=True)
class Life:
    """History of one pod, in the order of the watch."""

    name: str
    gated: bool = False
    """Whether it ever had a gate."""

    gated_reasons: set[str] = field(default_factory=set)
    """Of its condition PodScheduled, while it had one."""

    reasons: list[str] = field(default_factory=list)
    """Of that condition once it had none, each when it came."""

    ungated: float | None = None
    bound: float | None = None
    deleted: bool = False
    marked: bool = False
    """Whether it had the annotation of policy P5 from the beginning."""

    @property
    def latency(self) -> float | None:
        """Seconds from the last gate to the node, of a pod that was never held."""
        if self.ungated is None or self.bound is None or "ResourceQuotaValidated" in self.reasons:
            return None
        return self.bound - self.ungated


@dataclass(slots=True)
class History:
    """History of all pods of a namespace."""

    lives: dict[str, Life]
    """By UID."""

    most_cpu: int
    """The greatest sum, in thousandths, that bound pods requested at any time."""

    def named(self, name: str) -> Life:
        """Return the life of the pod of a name."""
        (life,) = [each for each in self.lives.values() if each.name == name]
        return life

    def latencies(self) -> list[float]:
        """Seconds from ungated to bound, in ascending order."""
        found = [life.latency for life in self.lives.values()]
        return sorted(each for each in found if each is not None)

    def unschedulable(self) -> list[str]:
        """Return the names of pods that ever had the reason Unschedulable."""
        return [
            life.name
            for life in self.lives.values()
            if "Unschedulable" in life.reasons or "Unschedulable" in life.gated_reasons
        ]


class Team:
    """One namespace; its pods are followed from the beginning.

    It exists until the cluster ends: Kueue's finalizers keep what is left of pod groups.
    """

    def __init__(self, cluster: Cluster, name: str, *, cpu: int, guarded: bool) -> None:
        """Create it.

        Args:
            cluster: in which it is created.
            name: of the namespace.
            cpu: the limit, in cores.
            guarded: whether the policies P1 to P6 are in force.
        """
        self.cluster = cluster
        self.admin = cluster.admin
        self.name = name
        self.base = f"/api/v1/namespaces/{name}"
        self.jobs = f"/apis/batch/v1/namespaces/{name}/jobs"
        self.workloads_path = f"{KUEUE}/namespaces/{name}/workloads"
        self._lives: dict[str, Life] = {}
        self._most_cpu = 0
        self._using: dict[str, int] = {}
        self._version = ""
        self._problem = ""
        self._over = threading.Event()
        self._follower = threading.Thread(target=self._follow, name=f"pods of {name}")
        cluster.namespace(name, {"kubestow.io/deferred-quota": "enforced"} if guarded else {})
        quota = {
            "metadata": {"name": "deferred", "labels": {"kubestow.io/deferred-quota": "true"}},
            "spec": {"hard": {CPU: str(cpu * 1000)}},
        }
        cluster.create(f"{self.base}/resourcequotas", quota)
        until(lambda: self.used() == 0, f"usage of the quota of {name} published")

    def __enter__(self) -> Self:
        self._version = str(self.cluster.get(f"{self.base}/pods")["metadata"]["resourceVersion"])
        self._follower.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if error is not None:
                print(self.describe())
        finally:
            self._over.set()
            self._follower.join()

    # -- writing ---------------------------------------------------------------------------------

    def queue(self, *, cpu: int, flavor: str = "any") -> None:
        """Create a ClusterQueue with a nominal quota in cores, and a LocalQueue `main` for it.

        Kueue chooses the nodes of pods with the flavor "by-host".
        """
        by_host: Json = {"nodeLabels": NODE_LABELS, "topologyName": "hosts"}
        hosts: Json = {"levels": [{"nodeLabel": HOSTNAME}]}
        self.admin.ensure(f"{KUEUE}/topologies", _kueue("Topology", "hosts", hosts))
        flavors: dict[str, Json] = {"any": {}, "by-host": by_host}
        for name, given in flavors.items():
            self.admin.ensure(f"{KUEUE}/resourceflavors", _kueue("ResourceFlavor", name, given))
        resources = [{"name": "cpu", "nominalQuota": str(cpu)}]
        spec = {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self.name}},
            "resourceGroups": [
                {
                    "coveredResources": ["cpu"],
                    "flavors": [{"name": flavor, "resources": resources}],
                }
            ],
        }
        self.cluster.create(f"{KUEUE}/clusterqueues", _kueue("ClusterQueue", self.name, spec))
        local = _kueue("LocalQueue", "main", {"clusterQueue": self.name})
        self.cluster.create(f"{KUEUE}/namespaces/{self.name}/localqueues", local)
        until(self._queue_is_active, f"queue of {self.name} active")

    def pod(
        self,
        name: str,
        *,
        cpu: str = "1",
        queued: bool = True,
        group: str = "",
        group_size: int = 0,
        one_host: bool = False,
    ) -> Json:
        """Create a pod, of a group of pods if that has a name, all on one node if that is so."""
        labels = {QUEUE: "main"} if queued else {}
        annotations = {}
        if group:
            labels["kueue.x-k8s.io/pod-group-name"] = group
            annotations["kueue.x-k8s.io/pod-group-total-count"] = str(group_size)
        if one_host:
            annotations["kueue.x-k8s.io/podset-required-topology"] = HOSTNAME
        metadata = {"name": name, "labels": labels, "annotations": annotations}
        return self.cluster.create(
            f"{self.base}/pods", {"metadata": metadata, "spec": _pod_spec(cpu)}
        )

    def rejection(self, cpu: str) -> str:
        """Return the error for a pod without gates, or an empty text if it would be created."""
        path = f"{self.base}/pods?dryRun=All"
        body = {"metadata": {"name": "dry"}, "spec": _pod_spec(cpu)}
        code, text = self.admin.exchange("POST", path, body)
        return str(json.loads(text)["message"]) if code == http.HTTPStatus.FORBIDDEN else ""

    def job(self, name: str, *, parallelism: int, cpu: str = "1", elastic: bool = False) -> None:
        """Create a Job of pods that run until the test ends them."""
        annotations = {"kueue.x-k8s.io/elastic-job": "true"} if elastic else {}
        body = {
            "metadata": {"name": name, "labels": {QUEUE: "main"}, "annotations": annotations},
            "spec": {
                "parallelism": parallelism,
                # Kueue lets an elastic job change its parallelism; completions would not follow.
                **({} if elastic else {"completions": parallelism}),
                "template": {"spec": {**_pod_spec(cpu), "restartPolicy": "Never"}},
            },
        }
        self.cluster.create(self.jobs, body)

    def scale(self, name: str, parallelism: int) -> None:
        """Change the parallelism of a Job."""
        patch = {"spec": {"parallelism": parallelism}}
        self.admin.request("PATCH", f"{self.jobs}/{name}", patch)

    def limit(self, cpu: int) -> None:
        """Change the limit of the quota."""
        patch = {"spec": {"hard": {CPU: str(cpu * 1000)}}}
        self.admin.request("PATCH", f"{self.base}/resourcequotas/deferred", patch)

    def finish(self, *names: str) -> None:
        """Let the containers of pods end well, as their kubelet would report."""
        for name in names:
            self.cluster.finish(self.name, name)

    # -- reading ---------------------------------------------------------------------------------

    def pods(self) -> dict[str, Json]:
        """Return the pods that have not ended and are not about to be removed, by name."""
        items = self.cluster.items(f"{self.base}/pods")
        return {each["metadata"]["name"]: each for each in items if not _ended(each)}

    def bound(self) -> list[str]:
        """Return the names of the pods that have a node and have not ended."""
        return [name for name, pod in self.pods().items() if pod["spec"].get("nodeName")]

    def held(self) -> list[str]:
        """Return the names of the pods that the quota holds."""
        return [
            name for name, pod in self.pods().items() if _reason(pod) == "ResourceQuotaValidated"
        ]

    def gated(self) -> list[str]:
        """Return the names of the pods that have a gate."""
        return [name for name, pod in self.pods().items() if pod["spec"].get("schedulingGates")]

    def message(self, name: str) -> str:
        """Return the message of a pod's condition PodScheduled."""
        return str(_condition(self.pods()[name]).get("message", ""))

    def events(self, reason: str) -> list[Json]:
        """Return the Events of a reason in the namespace, with `note` or `message`."""
        items = self.cluster.items(f"{self.base}/events")
        return [each for each in items if each.get("reason") == reason]

    def used(self) -> int | None:
        """Return the published usage of the quota in thousandths."""
        quota = self.cluster.get(f"{self.base}/resourcequotas/deferred")
        used = quota.get("status", {}).get("used", {}).get(CPU)
        return None if used is None else milli_value(used) // 1000

    def workloads(self) -> list[Json]:
        """Return Kueue's Workloads."""
        return self.cluster.items(self.workloads_path)

    def until_bound(self, count: int, *, within: float = 120.0) -> list[str]:
        """Wait until so many pods are bound and have not ended; return their names."""
        return self._until(self.bound, count, "bound", within)

    def until_held(self, count: int) -> list[str]:
        """Wait until the quota holds so many pods; return their names."""
        return self._until(self.held, count, "held", 120.0)

    def until_gated(self, count: int) -> list[str]:
        """Wait until so many pods have a gate; return their names."""
        return self._until(self.gated, count, "gated", 120.0)

    def until_used(self, cpu: int) -> None:
        """Wait until the published usage is a number of cores."""
        until(lambda: self.used() == cpu * 1000, f"usage of {self.name} {cpu} cores")

    def history(self) -> History:
        """Return the history so far, once the follower has the current state of every pod."""
        until(self._is_followed, f"history of {self.name}")
        return History(dict(self._lives), self._most_cpu)

    def describe(self) -> str:
        """Return one line per pod, workload and event, for a failure."""
        lines = [f"namespace {self.name}: used {self.used()}"]
        for name, pod in self.pods().items():
            spec = pod["spec"]
            lines.append(
                f"pod {name}: node {spec.get('nodeName')}, gates {spec.get('schedulingGates')}, "
                f"{_reason(pod)}: {_condition(pod).get('message')}"
            )
        for each in self.workloads():
            conditions = [
                f"{one['type']}={one['status']} ({one['reason']}: {one['message']})"
                for one in each.get("status", {}).get("conditions", ())
            ]
            lines.append(f"workload {each['metadata']['name']}: {'; '.join(conditions)}")
        for each in self.cluster.items(f"{self.base}/events"):
            about = each["involvedObject"]
            lines.append(
                f"event {each['reason']} of {about['kind']} {about['name']}: {each.get('message')}"
            )
        return "\n".join(lines)

    def _until(
        self, names: Callable[[], list[str]], count: int, what: str, within: float
    ) -> list[str]:
        def found() -> list[str] | None:
            current = names()
            return [*current, ""] if len(current) == count else None

        expected = f"{count} pods of {self.name} {what}"
        found_names: Sequence[str] = until(found, expected, patience=within)
        return list(found_names[:-1])

    def _queue_is_active(self) -> bool:
        path = f"{KUEUE}/namespaces/{self.name}/localqueues/main"
        conditions = self.cluster.get(path).get("status", {}).get("conditions", ())
        return any(each["type"] == "Active" and each["status"] == "True" for each in conditions)

    # -- following -------------------------------------------------------------------------------

    def _follow(self) -> None:
        while not self._over.is_set():
            try:
                for event in self._watch():
                    if event["type"] != "BOOKMARK":
                        self._learn(event)
                    self._version = event["object"]["metadata"]["resourceVersion"]
            except (OSError, http.client.HTTPException):
                self._over.wait(0.05)
            except ValueError as error:
                self._problem = str(error)
                return

    def _watch(self) -> Iterator[Json]:
        path = (
            f"{self.base}/pods?watch=1&resourceVersion={self._version}"
            f"&timeoutSeconds={WATCH_SECONDS}&allowWatchBookmarks=true"
        )
        for line in self.admin.lines(path):
            event = json.loads(line)
            if event["type"] == "ERROR":
                msg = f"the history of {self.name} broke off: {event['object']}"
                raise ValueError(msg)
            yield event

    def _learn(self, event: Json) -> None:
        now = time.monotonic()
        pod = event["object"]
        metadata, spec = pod["metadata"], pod["spec"]
        uid = metadata["uid"]
        life = self._lives.get(uid)
        if life is None:
            marked = MARK in (metadata.get("annotations") or {})
            life = self._lives[uid] = Life(metadata["name"], marked=marked)
        reason = _reason(pod)
        if spec.get("schedulingGates"):
            life.gated = True
            if reason:
                life.gated_reasons.add(reason)
        else:
            if life.gated and life.ungated is None:
                life.ungated = now
            # The condition of a gated pod stays until the scheduler replaces it.
            if reason and reason != "SchedulingGated" and life.reasons[-1:] != [reason]:
                life.reasons.append(reason)
        if spec.get("nodeName") and life.bound is None:
            life.bound = now
        life.deleted = event["type"] == "DELETED"
        using = bool(spec.get("nodeName")) and not life.deleted and not _ended(pod)
        self._using[uid] = _cpu_of(pod) if using else 0
        self._most_cpu = max(self._most_cpu, sum(self._using.values()))

    def _is_followed(self) -> bool:
        assert not self._problem, self._problem
        listed = [each["metadata"] for each in self.cluster.items(f"{self.base}/pods")]
        there = {each["uid"] for each in listed}
        seen = int(self._version)
        return all(int(each["resourceVersion"]) <= seen for each in listed) and all(
            life.deleted for uid, life in self._lives.items() if uid not in there
        )


def _kueue(kind: str, name: str, spec: Mapping[str, object]) -> Json:
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": kind,
        "metadata": {"name": name},
        "spec": dict(spec),
    }


def _pod_spec(cpu: str) -> Json:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    return {
        "schedulerName": "kubestow",
        "containers": [container],
        "terminationGracePeriodSeconds": 0,
    }


def _condition(pod: Json) -> Json:
    for each in pod.get("status", {}).get("conditions") or ():
        if each["type"] == "PodScheduled":
            return dict(each)
    return {}


def _reason(pod: Json) -> str:
    condition = _condition(pod)
    return "" if condition.get("status") == "True" else str(condition.get("reason", ""))


def _ended(pod: Json) -> bool:
    """Whether a pod no longer counts: no pod here has a grace period, so deletion is the end.

    Kueue's finalizer may keep the object.
    """
    ended = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
    return ended or "deletionTimestamp" in pod["metadata"]


def _cpu_of(pod: Json) -> int:
    return sum(
        milli_value(each.get("resources", {}).get("requests", {}).get("cpu", "0"))
        for each in pod["spec"]["containers"]
    )
