"""A cluster without HTTP or a running loop, for tests of quotas: time moves on request."""

from __future__ import annotations

from typing import Any

from simulator import EmbeddedCluster, SimClock
from simulator.admission import WriteOptions
from simulator.api import MERGE_PATCH, STRATEGIC_PATCH
from simulator.errors import ApiError
from simulator.objects import JsonObject
from simulator.subresources import bind
from tests.unit.simulator.objects import START, binding

CPU_MILLIS = "deferred.kubestow.io/requests.cpu-millis"
HOLD = {"name": "example.com/hold"}


class Bench:
    """One cluster; everything happens in namespace default."""

    def __init__(self, **options: Any) -> None:
        self.clock = SimClock(start=START, rate=0, source=lambda: 0.0)
        controllers = options.pop("controllers", ["quota"])
        self.cluster = EmbeddedCluster(clock=self.clock, seed=1, controllers=controllers, **options)
        self.api = self.cluster.api
        self.pods = self.api.resources.of_kind("v1", "Pod")
        self.quotas = self.api.resources.of_kind("v1", "ResourceQuota")
        self.cluster.runner.attach()

    def enforce(self) -> None:
        """Label the namespace, so that the policies for deferred quota act in it."""
        namespaces = self.api.resources.of_kind("v1", "Namespace")
        patch = {"metadata": {"labels": {"kubestow.io/deferred-quota": "enforced"}}}
        self.api.patch(namespaces, "", "default", patch, MERGE_PATCH)

    def settle(self) -> None:
        """Let the controllers do all that is due."""
        for _ in range(100):
            if not self.cluster.runner.work_once():
                return
        raise AssertionError("the controllers do not come to rest")

    def quota(self, hard: JsonObject, name: str = "q", **spec: Any) -> None:
        """Create a quota and have it counted."""
        body = {"metadata": {"name": name}, "spec": {"hard": hard, **spec}}
        self.api.create(self.quotas, "default", body)
        self.settle()

    def pod(
        self,
        name: str,
        cpu: str = "",
        *,
        gates: list[JsonObject] | None = None,
        labels: JsonObject | None = None,
        **spec: Any,
    ) -> JsonObject:
        """Create a pod. Raises ApiError."""
        container: JsonObject = {"name": "c", "image": "i"}
        if cpu:
            container["resources"] = {"requests": {"cpu": cpu}}
        made: JsonObject = {"containers": [container], **spec}
        if gates:
            made["schedulingGates"] = gates
        meta = {"name": name, "labels": labels or {}}
        return self.api.create(self.pods, "default", {"metadata": meta, "spec": made}).obj

    def refusal(self, name: str, cpu: str = "", **more: Any) -> str:
        """The message of a refused pod; empty when it was let in."""
        try:
            self.pod(name, cpu, **more)
        except ApiError as error:
            return f"{error}" if error.code == 403 else f"{error.code} {error}"
        return ""

    def stored(self, name: str) -> JsonObject:
        return self.api.get(self.pods, "default", name).obj

    def ungate(self, name: str) -> None:
        patch = {"spec": {"schedulingGates": None}}
        self.api.patch(self.pods, "default", name, patch, MERGE_PATCH)

    def bind(self, name: str) -> None:
        bind(self.api, self.pods, "default", name, binding(name, "n1"), WriteOptions())

    def status(self, name: str, status: JsonObject) -> None:
        self.api.patch(
            self.pods, "default", name, {"status": status}, STRATEGIC_PATCH, subresource="status"
        )

    def delete(self, name: str, **body: Any) -> None:
        self.api.delete(self.pods, "default", name, body)

    def patch_quota(self, patch: JsonObject, subresource: str = "", name: str = "q") -> None:
        self.api.patch(self.quotas, "default", name, patch, MERGE_PATCH, subresource=subresource)

    def used(self, name: str = "q") -> JsonObject:
        found: JsonObject = self.api.get(self.quotas, "default", name).obj["status"]["used"]
        return found

    def hard(self, name: str = "q") -> JsonObject:
        found: JsonObject = self.api.get(self.quotas, "default", name).obj["status"]["hard"]
        return found

    def version(self, name: str = "q") -> int:
        return self.api.get(self.quotas, "default", name).rv
