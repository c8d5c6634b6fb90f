"""No device is ever free while a claim has it or is about to get it, and none stays taken."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.api.devices import AllocationResult, ResourceClaim
from tests.unit.plugins.dynamic_resources.objects import DeviceCluster
from tests.unit.plugins.dynamic_resources.worlds import DRIVER, decoded

NAMES = ("a", "b", "c")


def allocation(name: str) -> dict[str, Any]:
    """Return the allocation of a device that is named like its claim."""
    result = {"request": "r", "driver": DRIVER, "pool": "p", "device": name}
    return {"devices": {"results": [result]}}


class Interleaving:
    """Claims that the scheduler allocates, while others change them and the watch lags behind."""

    def __init__(self) -> None:
        self.world = DeviceCluster()
        self.world.api.lagging = True
        self.devices = self.world.devices
        #: What the scheduler does with a claim: reserved, or written and without response.
        self.reserved: set[str] = set()
        self.responses: dict[str, Any] = {}
        for name in NAMES:
            self.create(name)

    def create(self, name: str) -> None:
        if name not in self.world.api.stored:
            self.world.add_claim(name, metadata={"uid": f"{name}-{self.world.api.unshown}"})

    def _known(self, name: str) -> Any:
        return self.devices.claims.get(name, "default")

    def reserve(self, name: str) -> None:
        claim = self._known(name)
        busy = name in self.reserved or name in self.responses
        if claim is not None and claim.status.allocation is None and not busy:
            self.devices.begin(claim.metadata.uid, decoded(allocation(name), AllocationResult))
            self.reserved.add(name)

    def write(self, name: str) -> None:
        """The API server stores the allocation, if the scheduler knew the newest version."""
        if name not in self.reserved:
            return
        self.reserved.discard(name)
        claim, stored = self._known(name), self.world.api.stored.get(name)
        uid = next(
            each for each in self.devices.allocated.in_flight() if each.startswith(f"{name}-")
        )
        if (
            stored is None
            or claim is None
            or stored["metadata"]["resourceVersion"] != claim.metadata.resource_version
        ):
            self.devices.end(uid)
            return
        self.world.api.put({**stored, "status": {"allocation": allocation(name)}})
        self.responses[name] = self.world.api.stored[name]

    def respond(self, name: str) -> None:
        raw = self.responses.pop(name, None)
        if raw is not None:
            claim = decoded(raw, ResourceClaim)
            self.devices.claims.assume(claim)
            self.devices.end(claim.metadata.uid)

    def unreserve(self, name: str) -> None:
        if name in self.reserved:
            self.reserved.discard(name)
            for uid in list(self.devices.allocated.in_flight()):
                if uid.startswith(f"{name}-"):
                    self.devices.end(uid)

    def deallocate(self, name: str) -> None:
        stored = self.world.api.stored.get(name)
        if stored is not None and name not in self.responses:
            self.world.api.put({**stored, "status": {}})

    def delete(self, name: str) -> None:
        if name in self.world.api.stored:
            self.world.api.remove(name)

    def show(self, name: str) -> None:
        self.world.api.show(1)

    def check(self) -> None:
        self.devices.validate()
        taken = self.world.taken()
        held = {
            f"p/{name}"
            for name, raw in self.world.api.stored.items()
            if raw.get("status", {}).get("allocation")
        }
        assert held <= taken
        assert {f"p/{each}" for each in self.reserved} <= taken

    def finish(self) -> None:
        for name in NAMES:
            self.respond(name)
            self.unreserve(name)
        self.world.api.show()
        held = {
            f"p/{name}"
            for name, raw in self.world.api.stored.items()
            if raw.get("status", {}).get("allocation")
        }
        assert self.world.taken() == held
        assert len(self.devices.claims) == 0
        self.devices.validate()


STEPS = ("create", "reserve", "write", "respond", "unreserve", "deallocate", "delete", "show")


@given(st.lists(st.tuples(st.sampled_from(STEPS), st.sampled_from(NAMES)), max_size=60))
@settings(deadline=None, max_examples=60)
def test_devices_are_taken_as_long_as_a_claim_has_them(steps: list[tuple[str, str]]) -> None:
    world = Interleaving()
    world.world.api.show()
    for step, name in steps:
        getattr(world, step)(name)
        world.check()
    world.finish()


def test_a_trial_leaves_the_assumptions_as_they_were() -> None:
    world = DeviceCluster()
    world.add_claim("a")
    world.api.lagging = True
    world.api.put({**world.api.stored["a"], "status": {"allocation": allocation("a")}})
    assumed = decoded(world.api.stored["a"], ResourceClaim)
    assert world.devices.claims.assume(assumed)
    restore = world.devices._begin_trial()
    shown = world.cluster.objects["resourceclaims"].get("a", "default")
    world.cluster.delete_object("resourceclaims", shown)
    assert not world.taken()
    world.cluster.add_object("resourceclaims", shown)
    restore()
    assert world.taken() == {"p/a"}
    assert world.devices.claims.get("a", "default") is assumed


def newest(world: DeviceCluster) -> Any:
    """Return the claim `a` as it is known."""
    return world.devices.claims.get("a", "default")


def test_responses_in_another_order_than_the_writes_keep_the_newest() -> None:
    world = DeviceCluster()
    world.add_claim("a")
    world.api.lagging = True
    written = []
    for number in range(2):
        users = [{"resource": "pods", "name": "p", "uid": f"uid-{each}"} for each in range(number)]
        status = {"allocation": allocation("a"), "reservedFor": users}
        world.api.put({**world.api.stored["a"], "status": status})
        written.append(decoded(world.api.stored["a"], ResourceClaim))
    for each in reversed(written):
        assert world.devices.claims.assume(each)
    assert newest(world) is written[1]
    assert world.taken() == {"p/a"}
    world.api.show()
    assert len(world.devices.claims) == 0


def test_the_late_deletion_of_a_claim_leaves_its_successor() -> None:
    world = DeviceCluster()
    world.add_claim("a")
    before = newest(world)
    world.api.remove("a")
    world.add_claim("a", metadata={"uid": "second"})
    world.api.lagging = True
    world.api.put({**world.api.stored["a"], "status": {"allocation": allocation("a")}})
    assumed = decoded(world.api.stored["a"], ResourceClaim)
    assert world.devices.claims.assume(assumed)
    # The listers are ahead of the events.
    world.devices.claims.event(before, None)
    assert newest(world) is assumed
    assert world.taken() == {"p/a"}


def test_pods_that_an_allocation_in_flight_kept_out_are_woken_when_it_fails() -> None:
    world = DeviceCluster()
    world.add_claim("a")
    first, second = world.pod(name="first"), world.pod(name="second")
    world.devices.rejected(first)
    for uid in ("stored", "failed"):
        world.devices.begin(uid, decoded(allocation(uid), AllocationResult))
    world.devices.rejected(second)
    world.api.put({**world.api.stored["a"], "status": {"allocation": allocation("a")}})
    world.devices.begin("uid-a", decoded(allocation("a"), AllocationResult))
    world.devices.end("uid-a")
    assert world.woken == [], "the devices of that one are taken"
    world.devices.end("failed")
    assert world.woken == ["uid-second"]
    world.devices.end("stored")
    assert world.woken == ["uid-second"]
