"""Changes after which a pod was once forgotten, as the search found them."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler import offline
from tests.unit.plugins.forgotten_pods.changes import ZONE, Change, apply
from tests.unit.plugins.forgotten_pods.forgotten import forgotten
from tests.unit.plugins.forgotten_pods.making import BEGINNING

AWAY_BY_RACK: dict[str, Any] = {
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "rack", "labelSelector": {}}
            ]
        }
    }
}
CLAIM: dict[str, Any] = {"volumes": [{"name": "c", "persistentVolumeClaim": {"claimName": "mine"}}]}
DISK: dict[str, Any] = {"volumes": [{"name": "disk", "gcePersistentDisk": {"pdName": "disk"}}]}


def pod(name: str, spec: dict[str, Any] | None = None, node: str = "", **more: Any) -> Change:
    made = {"namespace": "default", "labels": {}, "cpu": "100m", "priority": 0, **more}
    return "pod", {"name": name, "spec": spec or {}, "node": node, **made}


def device(name: str) -> dict[str, Any]:
    return {"resourceClaims": [{"name": name, "resourceClaimName": name}]}


def claim(volume: str, mode: str = "ReadWriteOnce") -> Change:
    where = {"name": "mine", "namespace": "default", "storage": "later"}
    return "claim", {**where, "volume": volume, "modes": [mode]}


FAULTS: dict[str, list[Change]] = {
    "the last node in a domain of a placed pod's anti-affinity leaves it": [
        ("no_node", {"name": "n1"}),
        pod("blocker", AWAY_BY_RACK, "n0"),
        pod("waits"),
        ("node", {"name": "n0", "labels": {ZONE: "z0"}}),
    ],
    "an allocated claim is deleted": [
        pod("first", device("d1")),
        pod("waits", device("d0")),
        ("no_device_claim", {"name": "d1", "namespace": "default"}),
    ],
    "the node of a pod with a ReadWriteOncePod claim is deleted": [
        claim("", "ReadWriteOncePod"),
        pod("user", CLAIM, "n1"),
        pod("waits", CLAIM),
        ("no_node", {"name": "n1"}),
    ],
    "a pod of another namespace frees a disk": [
        ("no_node", {"name": "n1"}),
        pod("user", DISK, "n0", namespace="team"),
        pod("waits", DISK),
        ("no_pod", {"name": "user", "namespace": "team"}),
    ],
    "a driver no longer reports its capacity": [
        claim(""),
        ("driver", {"capacity": True}),
        pod("waits", CLAIM),
        ("driver", {"capacity": False}),
    ],
    "a pod comes whose volume is on the node then": [
        ("no_node", {"name": "n1"}),
        ("csi_node", {"name": "n0", "count": 0}),
        claim(""),
        pod("waits", CLAIM),
        pod("user", CLAIM, "n0"),
    ],
    "a node comes, which has no limit of volumes yet": [
        ("volume", {"name": "v0", "storage": "later", "zone": "", "zone_label": ""}),
        claim("v0"),
        ("csi_node", {"name": "n0", "count": 0}),
        ("csi_node", {"name": "n1", "count": 0}),
        pod("waits", CLAIM),
        ("node", {"name": "n2", "labels": {}}),
    ],
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_last_change_wakes_the_pod(fault: str) -> None:
    *before, last = FAULTS[fault]
    with offline.World() as world:
        for change in (*BEGINNING, *before):
            apply(world, change)
            world.schedule()
        assert [each.pod for each in world.waiting()] == ["default/waits"]
        apply(world, last)
        placed = world.schedule().placed
        assert [each.pod for each in placed] == ["default/waits"]
        assert list(forgotten(world)) == []
