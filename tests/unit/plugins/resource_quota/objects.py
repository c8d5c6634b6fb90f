"""Pods and quotas for tests of the ledger, and a ledger that checks itself after every step."""

from __future__ import annotations

from typing import Any

import msgspec

from plugins.resource_quota.callbacks import LedgerCallbacks
from plugins.resource_quota.keys import PREFIX
from plugins.resource_quota.ledger import Ledger
from scheduler.api import Pod, PodSignatures
from scheduler.api.policy import ResourceQuota
from tests.unit.api.objects import container
from tests.unit.api.objects import pod as api_pod

SHAPES = PodSignatures()
GATED = [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]


def quota(name: str = "q", namespace: str = "default", **spec: Any) -> ResourceQuota:
    """A quota of deferred keys; `hard` without the prefix, plus other fields of the spec."""
    hard = {
        (key if "=" in key else PREFIX + key).removeprefix("="): str(value)
        for key, value in spec.pop("hard", {"requests.cpu-millis": 2000}).items()
    }
    parts = {"status": spec.pop("status", {})}
    meta = {
        "name": name,
        "namespace": namespace,
        "uid": spec.pop("uid", f"quota-{name}"),
        "annotations": spec.pop("annotations", {}),
    }
    raw = {"metadata": meta, "spec": {"hard": hard, **spec}, **parts}
    return msgspec.convert(raw, ResourceQuota)


_versions = iter(range(1, 10**9))


def pod(
    uid: str,
    cpu: str = "1",
    *,
    node: str = "",
    gates: bool = False,
    deferred: bool = False,
    namespace: str = "default",
    **parts: Any,
) -> Pod:
    """A pod of one container; `deferred`: gated once, no more."""
    spec: dict[str, Any] = {
        "containers": [container(requests=parts.pop("requests", {"cpu": cpu}))],
        "schedulerName": "kubestow",
        "nodeName": node,
        **parts.pop("spec", {}),
    }
    if gates:
        spec["schedulingGates"] = [{"name": "example.com/gate"}]
    status = {"phase": "Pending", **parts.pop("status", {})}
    if gates or deferred:
        status["conditions"] = [*status.get("conditions", ()), *GATED]
    metadata = {
        "name": uid,
        "namespace": namespace,
        "uid": uid,
        "resourceVersion": str(next(_versions)),
        **parts.pop("metadata", {}),
    }
    made = api_pod(spec, metadata=metadata, status=status)
    SHAPES.intern(made)
    return made


class LedgerFixture:
    """A ledger, its clock and what it reported."""

    def __init__(self, *quotas: ResourceQuota, synced: bool = True, **options: Any) -> None:
        self.released: list[str] = []
        self.rechecked: list[str] = []
        self.overcommitted: list[str] = []
        callbacks = LedgerCallbacks(
            on_release=self.released.extend,
            on_recheck=self.rechecked.extend,
            on_overcommitted=lambda account: self.overcommitted.append(account.name),
        )
        self.ledger = Ledger(callbacks=callbacks, **options)
        self.now = 1000.0
        for each in quotas:
            self.ledger.set_quota(each)
        if synced:
            self.ledger.mark_synced()

    def observe(self, *pods: Pod) -> None:
        """Pass observed pods to the ledger."""
        for each in pods:
            self.ledger.observe(each)
        self.ledger.validate()

    def enqueue(self, *pods: Pod) -> list[str]:
        """Run PreEnqueue; return the UIDs of admitted pods."""
        passed = []
        for each in pods:
            self.ledger.observe_newer(each)
            found = self.ledger.violations(each)
            if found:
                self.ledger.hold(each.uid, found, self.now)
            else:
                self.ledger.admit(each.uid, self.now)
                passed.append(each.uid)
        self.ledger.validate()
        return passed

    def run(self, seconds: float = 0.0) -> list[str]:
        """Let time pass; return the UIDs of released pods."""
        self.now += seconds
        self.released.clear()
        self.ledger.run_due(self.now)
        self.ledger.validate()
        return list(self.released)

    def used(self, name: str = "q") -> dict[str, str]:
        """Return what would be published, without the prefix."""
        account = self.ledger.account("default", name)
        published = {} if account is None else account.published()
        return {key.removeprefix(PREFIX): value for key, value in published.items()}
