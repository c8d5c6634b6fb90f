"""Nodes and pods of one test on a control plane that other tests also use.

    with Workload(control_plane, "my-test") as work:
        work.node("n1", cpu="4")
        work.pod("a")
        work.until_bound("a")

The administrator creates everything, and the context deletes it at its end; nodes are not
namespaced, so concurrent tests would see each other's.
"""

from __future__ import annotations

import http
import http.client
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Self

from devtools.control_plane.admin import ApiError
from devtools.control_plane.control_plane import ControlPlane
from scheduler.api.quantity import milli_value

PATIENCE_SECONDS: Final = 300.0
"""Before `until` gives up; a loaded machine needs a minute for what otherwise takes a second."""
POLL_SECONDS: Final = 0.05
WATCH_TIMEOUT_SECONDS: Final = 10.0
"""For a watch that asks for one second."""

Json = dict[str, Any]


def until(condition: Callable[[], object], what: str, *, patience: float = PATIENCE_SECONDS) -> Any:
    """Poll until `condition` returns a true value; return that value.

    An object that the API server does not have yet is waited for: 404 counts as false.

    Raises:
        AssertionError: it is still false after `patience` seconds.
        ApiError: the API server answered `condition` with another error.
    """
    deadline = time.monotonic() + patience
    while True:
        missing = None
        try:
            if answer := condition():
                return answer
        except ApiError as error:
            if error.status != http.HTTPStatus.NOT_FOUND:
                raise
            missing = error
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {patience:.0f} s: {what}") from missing
        time.sleep(POLL_SECONDS)


class Workload:
    """Creates objects in a namespace of its own, and reads their state."""

    def __init__(
        self, control_plane: ControlPlane, namespace: str, scheduler_name: str = "kubestow"
    ) -> None:
        self.control_plane = control_plane
        self.namespace = namespace
        self.scheduler_name = scheduler_name
        self._base = f"/api/v1/namespaces/{namespace}"
        self._nodes: list[str] = []
        self._history: list[Json] = []
        self._over = threading.Event()
        self._follower: threading.Thread | None = None

    def __enter__(self) -> Self:
        self.control_plane.admin.ensure(
            "/api/v1/namespaces", {"metadata": {"name": self.namespace}}
        )
        #: Resource version at which the history of this workload begins.
        self.start = str(self._get(f"{self._base}/pods")["metadata"]["resourceVersion"])
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._follower is not None:
            self._follower.join()
        now = {"gracePeriodSeconds": 0, "kind": "DeleteOptions", "apiVersion": "v1"}
        request = self.control_plane.admin.request
        # First, because the Job controller, where one runs, would replace their pods.
        request("DELETE", f"/apis/batch/v1/namespaces/{self.namespace}/jobs", now)
        request("DELETE", f"{self._base}/pods", now)
        for name in self._nodes:
            self.delete_node(name)

    # -- writing ---------------------------------------------------------------------------------

    def node(
        self,
        name: str,
        *,
        cpu: str = "4",
        pods: int = 110,
        labels: Mapping[str, str] | None = None,
        resources: Mapping[str, str] | None = None,
        **spec: object,
    ) -> None:
        """Create a node, which the context deletes at its end."""
        size = {"cpu": cpu, "memory": "8Gi", "pods": str(pods), **(resources or {})}
        body = {
            "metadata": {"name": name, "labels": dict(labels or {})},
            "spec": spec,
            "status": {"capacity": size, "allocatable": size},
        }
        self.control_plane.admin.request("POST", "/api/v1/nodes", body)
        self._nodes.append(name)

    def delete_node(self, name: str) -> None:
        """Delete a node, if it exists."""
        try:
            self.control_plane.admin.request("DELETE", f"/api/v1/nodes/{name}")
        except ApiError as error:
            if error.status != http.HTTPStatus.NOT_FOUND:
                raise

    def pod(
        self,
        name: str,
        *,
        cpu: str = "100m",
        gates: Sequence[str] = (),
        scheduler_name: str = "",
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        container: Mapping[str, object] | None = None,
        **spec: object,
    ) -> Json:
        """Create a pod."""
        main = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
        body: Json = {
            "metadata": {
                "name": name,
                "labels": dict(labels or {}),
                "annotations": dict(annotations or {}),
            },
            "spec": {
                "schedulerName": scheduler_name or self.scheduler_name,
                "containers": [{**main, **(container or {})}],
                **spec,
            },
        }
        if gates:
            body["spec"]["schedulingGates"] = [{"name": gate} for gate in gates]
        return self.control_plane.admin.request("POST", f"{self._base}/pods", body)

    def open_gates(self, name: str) -> None:
        """Remove a pod's scheduling gates."""
        patch = {"spec": {"schedulingGates": None}}
        self.control_plane.admin.request("PATCH", f"{self._base}/pods/{name}", patch)

    def bind(self, name: str, node: str) -> None:
        """Bind a pod, as another scheduler would."""
        body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
        self.control_plane.admin.request("POST", f"{self._base}/pods/{name}/binding", body)

    def delete_pod(self, name: str) -> None:
        """Delete a pod at once."""
        now = {"gracePeriodSeconds": 0, "kind": "DeleteOptions", "apiVersion": "v1"}
        self.control_plane.admin.request("DELETE", f"{self._base}/pods/{name}", now)

    def finish_pod(self, name: str) -> None:
        """Let a pod succeed, as its kubelet would report it."""
        body = {"status": {"phase": "Succeeded"}}
        self.control_plane.admin.request("PATCH", f"{self._base}/pods/{name}/status", body)

    # -- reading ---------------------------------------------------------------------------------

    def pods(self) -> dict[str, Json]:
        """Return all pods by name."""
        items = self._get(f"{self._base}/pods")["items"]
        return {item["metadata"]["name"]: item for item in items}

    def bound(self) -> dict[str, str]:
        """Return the node of every bound pod by the name of the pod."""
        return {
            name: item["spec"]["nodeName"]
            for name, item in self.pods().items()
            if item["spec"].get("nodeName")
        }

    def condition(self, name: str) -> Json:
        """Return a pod's PodScheduled condition, empty if it has none."""
        status = self._get(f"{self._base}/pods/{name}")["status"]
        for each in status.get("conditions") or ():
            if each["type"] == "PodScheduled":
                return dict(each)
        return {}

    def events(self, reason: str) -> list[Json]:
        """Return the events.k8s.io Events of a reason."""
        path = f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events"
        return [item for item in self._get(path)["items"] if item["reason"] == reason]

    def until_bound(self, *names: str) -> dict[str, str]:
        """Wait until these pods are bound, all if `names` is empty; return their nodes."""

        def bound() -> dict[str, str] | None:
            nodes = self.bound()
            wanted = names or tuple(self.pods())
            return nodes if all(name in nodes for name in wanted) else None

        found: dict[str, str] = until(bound, f"{', '.join(names) or 'all pods'} bound")
        return found

    def until_rejected(self, name: str) -> Json:
        """Wait until the scheduler has rejected a pod; return its PodScheduled condition."""
        found: Json = until(
            lambda: self._rejection(name), f"pod {name} has a condition PodScheduled=False"
        )
        return found

    def _rejection(self, name: str) -> Json | None:
        condition = self.condition(name)
        rejected = condition.get("reason") in ("Unschedulable", "SchedulerError")
        return condition if rejected else None

    def overfull(self) -> dict[str, int]:
        """Return nodes whose pods request more CPU than allocatable, in millicores."""
        used: Counter[str] = Counter()
        for pod in self._get("/api/v1/pods")["items"]:
            for container in pod["spec"]["containers"]:
                cpu = container.get("resources", {}).get("requests", {}).get("cpu", "0")
                used[pod["spec"].get("nodeName", "")] += milli_value(cpu)
        size = {
            item["metadata"]["name"]: milli_value(item["status"]["allocatable"]["cpu"])
            for item in self._get("/api/v1/nodes")["items"]
        }
        return {name: used[name] for name in size if used[name] > size[name]}

    def follow(self) -> None:
        """Record every version of the pods from the start on, for `history` and `bindings`.

        The history could not be read later: the API server keeps versions older than 75 s only as
        long as its watch cache has room.
        """
        self._follower = threading.Thread(target=self._follow, name="history of the pods")
        self._follower.start()

    def _follow(self) -> None:
        version = self.start
        while not self._over.is_set():
            path = f"{self._base}/pods?watch=1&resourceVersion={version}&timeoutSeconds=1"
            try:
                _, text = self.control_plane.admin.exchange(
                    "GET", path, None, timeout=WATCH_TIMEOUT_SECONDS
                )
            except (OSError, http.client.HTTPException):
                self._over.wait(POLL_SECONDS)
                continue
            for line in text.splitlines():
                event = json.loads(line)
                self._history.append(event)
                if event["type"] == "ERROR":
                    return
                version = event["object"]["metadata"]["resourceVersion"]

    def _followed(self) -> bool:
        """Whether the history has every pod's newest version. AssertionError if it broke off."""
        assert self._follower is not None, "follow() before the first pod"
        assert all(event["type"] != "ERROR" for event in self._history), self._history[-1]
        seen = {event["object"]["metadata"]["resourceVersion"] for event in [*self._history]}
        pods = self._get(f"{self._base}/pods")["items"]
        return seen >= {pod["metadata"]["resourceVersion"] for pod in pods}

    def history(self) -> list[Json]:
        """Return every version of the pods so far as watch events; requires `follow`."""
        until(self._followed, "the history of the pods")
        return [*self._history]

    def bindings(self) -> Counter[str]:
        """Count how often each pod (by UID) went from no node, or another one, to a node."""
        nodes: dict[str, str] = {}
        moves: Counter[str] = Counter()
        for event in self.history():
            uid = event["object"]["metadata"]["uid"]
            node = event["object"]["spec"].get("nodeName", "")
            if node and nodes.get(uid) != node:
                nodes[uid] = node
                moves[uid] += 1
        return moves

    def _get(self, path: str) -> Json:
        return self.control_plane.admin.request("GET", path)
