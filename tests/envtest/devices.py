"""Devices, classes and claims of one test on a shared control plane.

Drivers and kubelets are absent: the test publishes slices, and ends pods by their status.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from devtools.control_plane.control_plane import ControlPlane, ManagedProcess
from tests.envtest.workload import Json, Workload, until

BASE: Final = "/apis/resource.k8s.io/v1"
FINALIZER: Final = "resource.kubernetes.io/delete-protection"
TEMPLATE: Final = "one"


@contextmanager
def claim_controllers(control_plane: ControlPlane, name: str) -> Iterator[ManagedProcess]:
    """Run the controllers that make and release claims."""
    process = control_plane.start_controller_manager(
        controllers=("resourceclaim-controller", "garbage-collector-controller"), name=name
    )
    yield process
    assert process.running, process.describe("ended")
    process.stop()


@contextmanager
def devices_of(control_plane: ControlPlane, test: str) -> Iterator[Devices]:
    """Make the devices of a test, in a workload of its own."""
    name = test.removeprefix("test_").replace("_", "-").replace("[", "-").rstrip("]")
    # The driver has the same name, with a domain: 63 characters in all.
    with Workload(control_plane, f"dra-{name[:20].rstrip('-')}-{name[-4:]}") as work:
        made = Devices(work)
        yield made
        made.close()


class Devices:
    """The objects of `resource.k8s.io` in the namespace of a workload; its driver is its own."""

    def __init__(self, work: Workload) -> None:
        self.work = work
        self._request = work.control_plane.admin.request
        self.driver = f"{work.namespace}.example.com"
        self._claims = f"{BASE}/namespaces/{work.namespace}/resourceclaims"
        self._pods = f"/api/v1/namespaces/{work.namespace}/pods"
        self._slices: list[str] = []
        self._own = f'device.driver == "{self.driver}"'
        self.create_class()
        self.template(TEMPLATE)

    def close(self) -> None:
        """Delete what has no namespace."""
        for name in self._slices:
            self._request("DELETE", f"{BASE}/resourceslices/{name}")
        self.delete_class()

    def create_class(self, expression: str = "") -> None:
        """Create the class again, by default with the selector for all devices of the driver."""
        spec = {"selectors": [{"cel": {"expression": expression or self._own}}]}
        body = {"metadata": {"name": self.driver}, "spec": spec}
        self._request("POST", f"{BASE}/deviceclasses", body)

    def delete_class(self) -> None:
        """Delete the class."""
        self._request("DELETE", f"{BASE}/deviceclasses/{self.driver}")

    def spec(self, count: int = 1, *, constraints: Sequence[Json] = (), **exactly: Any) -> Json:
        """Return the spec of a claim for `count` devices of the class."""
        wanted = {"deviceClassName": self.driver, **exactly}
        if exactly.get("allocationMode") != "All":
            wanted["count"] = count
        requests = [{"name": "r", "exactly": wanted}]
        return {"devices": {"requests": requests, "constraints": list(constraints)}}

    def publish(self, node: str, count: int, **device: Any) -> None:
        """Publish the devices of a node, with these fields each."""
        self.publish_slice(node, [{"name": f"device-{each}", **device} for each in range(count)])

    def publish_slice(
        self, node: str, devices: Sequence[Json], *, of: int = 1, number: int = 0, **spec: Any
    ) -> None:
        """Publish one of the slices of a node's pool."""
        name = f"{node}-{self.driver}" + (f"-{number}" if number else "")
        body = {
            "driver": self.driver,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": of},
            "devices": list(devices),
            **spec,
        }
        if not devices:
            del body["devices"]
        self._request("POST", f"{BASE}/resourceslices", {"metadata": {"name": name}, "spec": body})
        self._slices.append(name)

    def replace_slice(self, node: str, devices: Sequence[Json], pool: Json) -> None:
        """Update the first slice of a node's pool, as a driver whose devices changed."""
        path = f"{BASE}/resourceslices/{node}-{self.driver}"
        self._request("PATCH", path, {"spec": {"pool": pool, "devices": list(devices)}})

    def delete_slice(self, node: str, *, number: int = 0) -> None:
        """Delete one of the slices of a node's pool."""
        name = f"{node}-{self.driver}" + (f"-{number}" if number else "")
        self._request("DELETE", f"{BASE}/resourceslices/{name}")
        self._slices.remove(name)

    def report(self, claim: str, condition: str) -> None:
        """Report a condition of the devices of a claim, as their driver would."""
        conditions = [
            {
                "type": condition,
                "status": "True",
                "reason": "Reported",
                "message": "by the test",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
        ]
        names = ("driver", "pool", "device")
        reported = [
            {**{name: each[name] for name in names}, "conditions": conditions}
            for each in results(self.claims()[claim])
        ]
        patch = {"status": {"devices": reported}}
        self._request("PATCH", f"{self._claims}/{claim}/status", patch)

    def template(self, name: str, **spec: Any) -> None:
        """Create a further template, of a claim with this `spec`."""
        self._request(
            "POST",
            f"{BASE}/namespaces/{self.work.namespace}/resourceclaimtemplates",
            {"metadata": {"name": name}, "spec": {"spec": self.spec(**spec)}},
        )

    def claim(self, name: str, count: int = 1, **spec: Any) -> None:
        """Create a claim of a user."""
        body = {"metadata": {"name": name}, "spec": self.spec(count, **spec)}
        self._request("POST", self._claims, body)

    def requests(self, name: str, *requests: Json) -> None:
        """Create a claim of a user with these requests."""
        body = {"metadata": {"name": name}, "spec": {"devices": {"requests": requests}}}
        self._request("POST", self._claims, body)

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

    def used_twice(self) -> list[str]:
        """Return devices that claims of more than one bound pod hold.

        Two schedulers may allocate one device at the same time. One of them gives it back then,
        before it binds the pod.
        """
        bound = set(self.work.bound())
        held = Counter(
            f"{each['pool']}/{each['device']}"
            for claim in self.claims().values()
            if not bound.isdisjoint(consumers(claim))
            for each in results(claim)
        )
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


def by_template(name: str = TEMPLATE) -> list[Json]:
    """Return `spec.resourceClaims` of a pod with a claim of its own, by default for one device."""
    return [{"name": "gpu", "resourceClaimTemplateName": name}]


def by_name(claim: str) -> list[Json]:
    """Return `spec.resourceClaims` of a pod that uses a claim of a user."""
    return [{"name": "gpu", "resourceClaimName": claim}]
