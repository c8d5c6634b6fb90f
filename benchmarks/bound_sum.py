"""The sum of the requests of all bound pods, after every change of a pod in the store."""

from __future__ import annotations

from scheduler.api.quantity import NANO, parse
from simulator import EmbeddedCluster
from simulator.store import StoreChange


class BoundSum:
    """Milli-CPU of bound pods of a namespace that have not finished: now, and the most ever."""

    def __init__(self, cluster: EmbeddedCluster, namespace: str = "default") -> None:
        self.namespace = namespace
        self.now = self.most = self.changes = self.binds = 0
        self._pods: dict[str, int] = {}
        cluster.store.subscribe("pods", self._changed)

    def _changed(self, _table: str, change: StoreChange) -> None:
        obj = change.version.obj
        meta, spec = obj["metadata"], obj["spec"]
        if meta["namespace"] != self.namespace:
            return
        self.changes += 1
        finished = obj.get("status", {}).get("phase") in ("Succeeded", "Failed")
        if change.type == "DELETED" or finished or not spec.get("nodeName"):
            self.now -= self._pods.pop(meta["uid"], 0)
        elif meta["uid"] not in self._pods:
            self.binds += 1
            requested = sum(
                parse(each.get("resources", {}).get("requests", {}).get("cpu", "0")).nano
                for each in spec["containers"]
            )
            self._pods[meta["uid"]] = requested * 1000 // NANO
            self.now += self._pods[meta["uid"]]
            self.most = max(self.most, self.now)
