"""A board on a store that the test writes to, with a clock that the test advances."""

from __future__ import annotations

from simulator.demos.morning.cluster import POOL, ZONE, ClusterBoard
from simulator.demos.morning.objects import SCHEDULER
from simulator.objects import JsonObject
from simulator.store import Store

MESSAGE = (
    "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu. "
    "no new claims to deallocate"
)


class DemoCluster:
    """Pods and nodes as the API server would store them."""

    def __init__(self) -> None:
        self.now = 0.0
        self.store = Store()
        self.board = ClusterBoard(SCHEDULER, lambda: self.now)
        for table in ("nodes", "pods"):
            self.store.subscribe(table, self.board.observe)

    def node(self, name: str, *, cpu: str = "4", gpus: int = 0, **more: object) -> None:
        amounts = {"cpu": cpu, "memory": "8Gi", "pods": "10"}
        if gpus:
            amounts["nvidia.com/gpu"] = str(gpus)
        zone = str(more.get("zone", "z-1a"))
        labels = {ZONE: zone, POOL: str(more.get("pool", "general"))}
        obj: JsonObject = {
            "metadata": {"name": name, "labels": labels},
            "spec": {"unschedulable": True} if more.get("cordoned") else {},
            "status": {"allocatable": amounts},
        }
        self.store.create("nodes", "", name, obj)

    def pod(self, name: str, *, app: str = "", cpu: str = "1", scheduler: str = SCHEDULER) -> None:
        obj: JsonObject = {
            "metadata": {
                "name": name,
                "namespace": "shop",
                "uid": f"uid-{name}",
                "labels": {"app": app or name},
            },
            "spec": {
                "schedulerName": scheduler,
                "containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}],
            },
            "status": {"phase": "Pending"},
        }
        self.store.create("pods", "shop", name, obj)

    def bind(self, name: str, node: str) -> None:
        self._change(name, spec={"nodeName": node})

    def finish(self, name: str) -> None:
        self._change(name, status={"phase": "Succeeded"})

    def reject(self, name: str, message: str = MESSAGE, reason: str = "Unschedulable") -> None:
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": reason,
            "message": message,
        }
        self._change(name, status={"conditions": [condition]})

    def gate(self, name: str, *gates: str) -> None:
        self._change(name, spec={"schedulingGates": [{"name": gate} for gate in gates]})
        self.reject(name, "blocked by scheduling gates", "SchedulingGated")

    def delete(self, name: str) -> None:
        self.store.delete("pods", "shop", name)

    def _change(self, name: str, **parts: JsonObject) -> None:
        version = self.store.get("pods", "shop", name)
        assert version is not None
        changed = {**version.obj}
        for part, values in parts.items():
            changed[part] = {**changed[part], **values}
        self.store.update("pods", "shop", name, changed)
