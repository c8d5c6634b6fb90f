"""`kubestow apiserver` and `kubestow run` as processes of their own, driven by plain HTTP.

    with Server(folder) as server, server.scheduler():
        case = Case(server, "story")
        case.node("z1", "Z1")
        case.pod("p", fallback="zone=PreemptionFailed")
        case.until_bound("p", "z1")

Nothing of the project is imported but the paths: what a user gets is what is tested, with the
default feature gates. A `Case` is a namespace with nodes of its own, so that one server serves
many; its pods select its nodes.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Self, TypeVar

ROOT: Final = Path(__file__).parents[3]
PLUGINS: Final = Path(__file__).with_name("outside_plugins")
ANNOTATION: Final = "kubestow.io/topology-spread-fallback"
TERMINATE_SECONDS: Final = "kubestow.io/terminate-seconds"
CONDITION: Final = "kubestow.io/TopologySpreadFallback"
PROVISIONING: Final = "NodeProvisioningInProgress"
STRATEGIC: Final = "application/strategic-merge-patch+json"
PATIENCE: Final = 120.0
GATES: Final = "PodTopologySpreadFallbackMode=true,ResourceQuotaDeferredEnforcement=true"

Json = dict[str, Any]
T = TypeVar("T")


def until(look: Callable[[], T], what: str) -> T:
    """Poll `look` and return its first truthy value.

    Raises:
        AssertionError: it never was.
    """
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = look()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"did not happen in time: {what}")


class Server:
    """An API server of its own; `scheduler` runs schedulers against it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kubeconfig = folder / "kubeconfig"
        self.attempt_log = folder / "attempts"
        self.attempt_log.touch()
        self._environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "POD_NAMESPACE": "default",
            "ATTEMPT_LOG": str(self.attempt_log),
        }
        self._port = 0

    def __enter__(self) -> Self:
        self._process = self._start("apiserver", "--kubeconfig-out", str(self.kubeconfig))
        until(self.kubeconfig.exists, "the server's kubeconfig")
        address = until(self._address, "the server's address")
        self._port = int(address.rsplit(":", 1)[1])
        for name, value in (("high", 1000), ("higher", 2000)):
            body = {"metadata": {"name": name}, "value": value}
            self("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", body)
        return self

    def __exit__(self, *_: object) -> None:
        _stop(self._process, signal.SIGTERM)

    def __call__(
        self, method: str, path: str, body: Json | None = None, content: str = "application/json"
    ) -> Json:
        """Send one request; fail on a status other than 2xx or 404."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE)
        with contextlib.closing(connection):
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, {"Content-Type": content})
            response = connection.getresponse()
            found: Json = json.loads(response.read())
            assert response.status < 300 or response.status == 404, (method, path, found)
            return found if response.status < 300 else {}

    @contextlib.contextmanager
    def scheduler(self, name: str = "kubestow") -> Iterator[Callable[[], None]]:
        """Run one for pods of this scheduler name; what is yielded kills it, as -9 does."""
        profile = {
            "schedulerName": name,
            "plugins": {"multiPoint": {"enabled": [{"name": "attempt_log:AttemptLog"}]}},
        }
        config = self.folder / f"{name}.json"
        config.write_text(json.dumps({
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(self.kubeconfig)},
            "leaderElection": {"leaderElect": False},
            "profiles": [profile],
        }))  # fmt: skip
        process = self._start(
            "run", "--config", str(config), "--secure-port=0", "--plugin-dir", str(PLUGINS),
            f"--feature-gates={GATES}",
        )  # fmt: skip
        try:
            yield lambda: _stop(process, signal.SIGKILL)
        finally:
            _stop(process, signal.SIGTERM)

    def _start(self, *command: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{command[0]}.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "scheduler", *command],
                cwd=ROOT, env=self._environment, stdout=log, stderr=log,
            )  # fmt: skip

    def _address(self) -> str:
        for line in self.kubeconfig.read_text().splitlines():
            key, _, value = line.strip().partition(": ")
            if key.endswith("server"):
                return value.strip("\"'")
        return ""


def _stop(process: subprocess.Popen[bytes], how: signal.Signals) -> None:
    if process.poll() is None:
        process.send_signal(how)
        process.wait(PATIENCE)


class Case:
    """A namespace, nodes for its pods, and what becomes of them."""

    def __init__(self, server: Server, name: str, scheduler: str = "kubestow") -> None:
        self.server, self.name, self._scheduler = server, name, scheduler
        self.path = f"/api/v1/namespaces/{name}"
        server("POST", "/api/v1/namespaces", {"metadata": {"name": name}})

    def node(self, name: str, zone: str, cpu: str = "4") -> None:
        amounts = {"cpu": cpu, "memory": "64Gi", "pods": "110"}
        labels = {"zone": zone, "case": self.name, "kubernetes.io/hostname": f"{self.name}-{name}"}
        status = {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        metadata = {"name": f"{self.name}-{name}", "labels": labels}
        self.server("POST", "/api/v1/nodes", {"metadata": metadata, "status": status})

    def pod(
        self,
        name: str,
        cpu: str = "1",
        *,
        fallback: str = "",
        labels: Mapping[str, str] | None = None,
        **spec: Any,
    ) -> None:
        """A replica of app `a`, with a zone constraint; with `where`, one that runs there."""
        metadata: Json = {
            "name": name,
            "labels": {"app": "a", **(labels or {})},
            "annotations": {
                # As long as its grace period allows.
                TERMINATE_SECONDS: "3600",
                **({ANNOTATION: fallback} if fallback else {}),
            },
        }
        constraint = {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "a"}},
        }
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
        body = {
            "schedulerName": self._scheduler,
            "nodeSelector": {"case": self.name},
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
            "topologySpreadConstraints": [constraint],
            **spec,
        }
        self.server("POST", f"{self.path}/pods", {"metadata": metadata, "spec": body})

    def other(self, name: str, cpu: str, where: str, priority: str = "", **fields: Any) -> None:
        """A pod of another app that runs on a node."""
        if priority:
            fields["priorityClassName"] = priority
        self.pod(name, cpu, labels={"app": "other"}, nodeName=f"{self.name}-{where}", **fields)

    def uneven(self) -> None:
        """Z1 has a replica and room; Z2, where the next belongs, is full."""
        self.node("z1", "Z1")
        self.node("z2", "Z2")
        self.pod("first", nodeName=f"{self.name}-z1", priorityClassName="higher")
        self.other("full", "4", "z2")

    def delete_at_once(self, name: str) -> None:
        self.server("DELETE", f"{self.path}/pods/{name}", {"gracePeriodSeconds": 0})

    def patch(self, name: str, body: Json, subresource: str = "") -> None:
        self.server("PATCH", f"{self.path}/pods/{name}{subresource}", body, STRATEGIC)

    def provisioning(self, name: str, status: str) -> None:
        entry = {"type": PROVISIONING, "status": status}
        self.patch(name, {"status": {"conditions": [entry]}}, "/status")

    def get(self, name: str) -> Json:
        """The pod; empty when it is gone."""
        return self.server("GET", f"{self.path}/pods/{name}")

    def node_of(self, name: str) -> str:
        found = self.get(name).get("spec", {}).get("nodeName", "")
        return str(found).removeprefix(f"{self.name}-")

    def condition(self, name: str, kind: str = "PodScheduled") -> Json:
        conditions = self.get(name).get("status", {}).get("conditions", ())
        return next((dict(each) for each in conditions if each["type"] == kind), {})

    def until_reason(self, name: str, reason: str) -> None:
        until(lambda: self.condition(name).get("reason") == reason, f"{name} is {reason}")

    def until_bound(self, name: str, where: str) -> None:
        assert until(lambda: self.node_of(name), f"{name} is bound") == where

    def attempts(self, name: str) -> int:
        lines = self.server.attempt_log.read_text().splitlines()
        return lines.count(f"{self.name}/{name}")

    def notes(self, name: str, reason: str) -> list[str]:
        """Texts of the events of one pod and reason."""
        events = self.server("GET", f"/apis/events.k8s.io/v1/namespaces/{self.name}/events")
        return [
            each["note"]
            for each in events["items"]
            if (each["regarding"]["name"], each["reason"]) == (name, reason)
        ]
