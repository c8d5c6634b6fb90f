"""Devices, classes and claims of one test on a shared control plane.

Drivers and kubelets are absent: the test publishes slices, and ends pods by their status.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from tests.envtest.workload import Json, Workload, until

BASE: Final = "/apis/resource.k8s.io/v1"
FINALIZER: Final = "resource.kubernetes.io/delete-protection"
TEMPLATE: Final = "one"


class Devices:
    """The objects of `resource.k8s.io` in the namespace of a workload; its driver is its own."""

    def __init__(self, work: Workload) -> None:
        self._request = work.control_plane.admin.request
        self.driver = f"{work.namespace}.example.com"
        self._claims = f"{BASE}/namespaces/{work.namespace}/resourceclaims"
        self._pods = f"/api/v1/namespaces/{work.namespace}/pods"
        self._slices: list[str] = []
        expression = f'device.driver == "{self.driver}"'
        spec = {"selectors": [{"cel": {"expression": expression}}]}
        self._request(
            "POST", f"{BASE}/deviceclasses", {"metadata": {"name": self.driver}, "spec": spec}
        )
        self._request(
            "POST",
            f"{BASE}/namespaces/{work.namespace}/resourceclaimtemplates",
            {"metadata": {"name": TEMPLATE}, "spec": {"spec": self.spec()}},
        )

    def close(self) -> None:
        """Delete what has no namespace."""
        for name in self._slices:
            self._request("DELETE", f"{BASE}/resourceslices/{name}")
        self._request("DELETE", f"{BASE}/deviceclasses/{self.driver}")

    def spec(self, count: int = 1) -> Json:
        """Return the spec of a claim for `count` devices of the class."""
        exactly = {"deviceClassName": self.driver, "count": count}
        return {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}

    def publish(self, node: str, count: int) -> None:
        """Publish the devices of a node."""
        name = f"{node}-{self.driver}"
        spec = {
            "driver": self.driver,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"device-{number}"} for number in range(count)],
        }
        self._request("POST", f"{BASE}/resourceslices", {"metadata": {"name": name}, "spec": spec})
        self._slices.append(name)

    def claim(self, name: str, count: int = 1) -> None:
        """Create a claim of a user."""
        self._request("POST", self._claims, {"metadata": {"name": name}, "spec": self.spec(count)})

    def delete_claim(self, name: str) -> None:
        """Delete a claim; one in use stays until its pods end."""
        self._request("DELETE", f"{self._claims}/{name}")

    def finish(self, pod: str) -> None:
        """Let a pod end, as its kubelet would."""
        patch = {"status": {"phase": "Succeeded"}}
        self._request("PATCH", f"{self._pods}/{pod}/status", patch)

    def claims(self) -> dict[str, Json]:
        """Return all claims by name."""
        items: Any = self._request("GET", self._claims)["items"]
        return {each["metadata"]["name"]: each for each in items}

    def allocated(self) -> dict[str, list[str]]:
        """Return the devices of each allocated claim, as `pool/device`."""
        return {
            name: [f"{each['pool']}/{each['device']}" for each in results(claim)]
            for name, claim in self.claims().items()
            if results(claim)
        }

    def taken_twice(self) -> list[str]:
        """Return devices that more than one claim holds."""
        held = Counter(each for devices in self.allocated().values() for each in devices)
        return sorted(each for each, count in held.items() if count > 1)

    def until_free(self) -> None:
        """Wait until no claim holds a device or a finalizer."""

        def free() -> bool:
            claims: Iterable[Json] = self.claims().values()
            return not any(
                results(each) or FINALIZER in each["metadata"].get("finalizers", ())
                for each in claims
            )

        until(free, "all devices free")


def results(claim: Json) -> list[Json]:
    """Return the devices of a claim; none if it is not allocated."""
    allocation = claim.get("status", {}).get("allocation") or {}
    found: list[Json] = allocation.get("devices", {}).get("results", [])
    return found


def consumers(claim: Json) -> list[str]:
    """Return the names of the pods that a claim is reserved for."""
    return [each["name"] for each in claim.get("status", {}).get("reservedFor", [])]


def by_template() -> list[Json]:
    """Return `spec.resourceClaims` of a pod with one device of its own."""
    return [{"name": "gpu", "resourceClaimTemplateName": TEMPLATE}]


def by_name(claim: str) -> list[Json]:
    """Return `spec.resourceClaims` of a pod that uses a claim of a user."""
    return [{"name": "gpu", "resourceClaimName": claim}]
