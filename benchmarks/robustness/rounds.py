"""Rounds: pods are created, something fails, and in the end every pod must be bound, once."""

from __future__ import annotations

import http.client
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, Final

import msgspec

from benchmarks.audit import overfilled
from benchmarks.robustness.faults import FAULTS, End, Fault
from benchmarks.robustness.replicas import Site
from devtools.control_plane.admin import ApiError, JsonObject

NAMESPACE: Final = "default"
NODES: Final = 12
NODE_CPU: Final = "2"
SIZES: Final = ("100m", "250m", "500m")
PODS_PER_ROUND: Final = 40
"""About 11 of the 24 CPUs, so that every pod fits beside those that are kept."""
KEPT_PODS: Final = 15
MAX_FAULT_SECONDS: Final = 9.0
"""One and a half lease durations: some faults last through a takeover, most end before it."""
BOUND_TIMEOUT_SECONDS: Final = 90.0
"""After the end of the fault: a lease duration, a start of the process, backoffs."""
POLL_SECONDS: Final = 0.2


@dataclass(slots=True)
class Report:
    """Actions and findings of a run."""

    rounds: int = 0
    pods: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    takeovers: int = 0
    conflicts: int = 0
    starts: int = 0
    #: Seconds from the end of the fault until the last pod was bound, by round.
    recovery: list[float] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def json(self) -> str:
        """All of it as a JSON document."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode() + "\n"


class Rounds:
    """Runs rounds on a site; nodes are created by `prepare`."""

    def __init__(self, site: Site, random: Random, report: Report) -> None:
        self._site = site
        self._random = random
        self._admin = site.control_plane.admin
        self._pods: list[str] = []
        self._number = 0
        self.report = report

    def prepare(self) -> None:
        """Create the nodes and start the replicas."""
        size = {"cpu": NODE_CPU, "memory": "8Gi", "pods": "60"}
        for number in range(NODES):
            status = {"capacity": size, "allocatable": size}
            self._persist("/api/v1/nodes", {"metadata": {"name": f"n{number}"}, "status": status})
        self._site.ensure_running()

    def run(self, fault: Fault | None = None) -> None:
        """Run one round with a fault of its own; a random one, or two, unless `fault` is given."""
        chosen = [fault] if fault else self._random.sample(FAULTS, self._random.choice((1, 1, 2)))
        self.report.rounds += 1
        before = self._random.randrange(PODS_PER_ROUND)
        self._create(before)
        ends: list[End] = []
        for each in chosen:
            self.report.faults[each.name] += 1
            ends.append(each.begin(self._site, self._random))
        healed = time.monotonic() + self._random.uniform(0.0, MAX_FAULT_SECONDS)
        while time.monotonic() < healed:
            for replica in self._site.replicas:
                replica.ensure_running()
            time.sleep(POLL_SECONDS)
        for end in ends:
            end()
        self._site.ensure_running()
        ended = time.monotonic()
        self._create(PODS_PER_ROUND - before)
        self._await_all_bound([each.name for each in chosen])
        self.report.recovery.append(round(time.monotonic() - ended, 2))
        self._judge()
        self._delete_some()

    # -- objects -----------------------------------------------------------------------------------

    def _create(self, count: int) -> None:
        for _ in range(count):
            name = f"p{self._number}"
            self._number += 1
            cpu = self._random.choice(SIZES)
            container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": cpu}}}
            spec = {"schedulerName": "kubestow", "containers": [container]}
            self._persist(
                f"/api/v1/namespaces/{NAMESPACE}/pods",
                {"metadata": {"name": name}, "spec": spec},
            )
            self._pods.append(name)
        self.report.pods += count

    def _persist(self, collection: str, manifest: JsonObject) -> None:
        self._retried(lambda: self._admin.ensure(collection, manifest))

    def _delete_some(self) -> None:
        self._random.shuffle(self._pods)
        now = {"gracePeriodSeconds": 0, "kind": "DeleteOptions", "apiVersion": "v1"}
        while len(self._pods) > KEPT_PODS:
            path = f"/api/v1/namespaces/{NAMESPACE}/pods/{self._pods.pop()}"
            self._retried(partial(self._delete, path, now))

    def _delete(self, path: str, options: JsonObject) -> None:
        try:
            self._admin.request("DELETE", path, options)
        except ApiError as error:
            if error.status != http.HTTPStatus.NOT_FOUND:
                raise

    def _retried(self, request: Callable[[], Any]) -> Any:
        """Send a request until the API server responds: a fault may have ended just now."""
        deadline = time.monotonic() + BOUND_TIMEOUT_SECONDS
        while True:
            try:
                return request()
            except (ApiError, OSError, http.client.HTTPException) as error:
                client_fault = isinstance(error, ApiError) and error.status < 429
                if client_fault or time.monotonic() > deadline:
                    raise
                time.sleep(POLL_SECONDS)

    # -- the end of a round ------------------------------------------------------------------------

    def _await_all_bound(self, faults: list[str]) -> None:
        deadline = time.monotonic() + BOUND_TIMEOUT_SECONDS
        while True:
            self._site.ensure_running()
            unbound = self._unbound()
            if not unbound:
                return
            if time.monotonic() > deadline:
                some = ", ".join(sorted(unbound)[:3])
                self.report.problems.append(
                    f"round {self.report.rounds} ({' and '.join(faults)}): {len(unbound)} pods not "
                    f"bound {BOUND_TIMEOUT_SECONDS:.0f} s after its end, such as {some}"
                )
                return
            time.sleep(POLL_SECONDS)

    def _unbound(self) -> set[str]:
        items = self._list("pods")
        bound = {item["metadata"]["name"] for item in items if item["spec"].get("nodeName")}
        return set(self._pods) - bound

    def _list(self, plural: str) -> list[Any]:
        path = f"/api/v1/{plural}"
        response: Any = self._retried(lambda: self._admin.request("GET", path))
        return list(response["items"])

    def _judge(self) -> None:
        audit = self._site.audit
        audit.read()
        problems = audit.problems()
        pods = self._list("pods")
        if over := overfilled(self._list("nodes"), pods):
            problems.append(f"over capacity: {', '.join(over)}")
        for pod in pods:
            meta, node = pod["metadata"], pod["spec"].get("nodeName")
            key = f"{meta['namespace']}/{meta['name']}"
            binds = audit.binds.get(key, [])
            if binds and binds[-1].node != node:
                problems.append(f"{key} is on {node}, but was bound to {binds[-1].node}")
            if node and key not in audit.requested:
                problems.append(f"{key} is on {node} without a Binding in the audit log")
        for problem in problems:
            if problem not in self.report.problems:
                self.report.problems.append(problem)
        self.report.takeovers = audit.takeovers
        self.report.conflicts = audit.conflicts
        self.report.starts = sum(replica.starts for replica in self._site.replicas)
