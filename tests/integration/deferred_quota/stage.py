"""A scheduler with the gate on, a quota of deferred keys, and time that the test moves.

    async with staged(cluster) as stage:
        await stage.quota("q", cpu=2000)
        stage.gated("p", "2")
        stage.ungate("p")
        await stage.bound("p")

The embedded cluster is a stock one: gated pods over a deferred limit are admitted, and what is used
is read from the scheduler's ledger.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

from config import FeatureGates
from devtools.embedded_service import (
    PROFILE,
    bound_to,
    condition,
    delete,
    event_notes,
    find,
    node,
    patch_status,
    pod,
    scheduling,
    settled,
    until,
)
from devtools.loop_time import LoopClock
from plugins.resource_quota.keys import PREFIX
from plugins.resource_quota.ledger import Ledger
from plugins.resource_quota.plugin import GATE, ResourceQuota
from scheduler.api import Pod
from scheduler.client.fence import Fence
from scheduler.service.options import RunOptions
from scheduler.stages.wiring import Wiring
from simulator import EmbeddedCluster
from simulator.admission import WriteOptions
from simulator.api import MERGE_PATCH
from simulator.objects import JsonObject

CPU: Final = "requests.cpu-millis"
HELD: Final = "ResourceQuotaValidated"
EXCEEDED: Final = "ResourceQuotaExceeded"
GATES: Final = ("example.com/gate",)
BACKOFF: Final = 15.0
"""Longer than any backoff."""


class Stage:
    """A running scheduler and its cluster."""

    def __init__(self, cluster: EmbeddedCluster, wiring: Wiring, clock: LoopClock) -> None:
        self.cluster = cluster
        self.wiring = wiring
        self.clock = clock

    @property
    def plugin(self) -> ResourceQuota:
        found: ResourceQuota = self.wiring.profiles.frameworks[PROFILE].plugins["ResourceQuota"]
        return found

    @property
    def ledger(self) -> Ledger:
        assert self.plugin.enforcement is not None
        return self.plugin.enforcement.ledger

    def advance(self, seconds: float = BACKOFF) -> None:
        """Let time pass."""
        self.clock.ahead += seconds
        self.wake()

    def wake(self) -> None:
        """Have the scheduling loop look at the clock."""
        self.wiring.scheduling.queue.signals.on_timer()
        if self.wiring.controllers.quota.usage_writer is not None:
            self.wiring.controllers.quota.usage_writer.wake()

    # -- objects ---------------------------------------------------------------------------------

    async def quota(
        self, name: str = "q", hard: Mapping[str, object] | None = None, **spec: Any
    ) -> None:
        """Create a quota and wait until the scheduler has it; keys of `hard` without prefix."""
        cpu = spec.pop("cpu", None)
        limits = {CPU: cpu} if hard is None else hard
        body = {PREFIX + key: str(value) for key, value in limits.items()}
        made = {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"hard": body, **spec},
        }
        self.cluster.create(made)
        await until(lambda: self.ledger.account("default", name) is not None, "quota known")

    async def patch_quota(self, name: str, hard: Mapping[str, object]) -> None:
        """Change or (None) remove keys; returns when the scheduler has seen it."""
        resource = self.cluster.resources.of_kind("v1", "ResourceQuota")
        body = {PREFIX + key: None if each is None else str(each) for key, each in hard.items()}
        patch = {"spec": {"hard": body}}
        version = self.cluster.api.patch(resource, "default", name, patch, MERGE_PATCH)
        wanted = version.obj["metadata"]["resourceVersion"]

        def seen() -> bool:
            known: Any = self.wiring.state.listers["resourcequotas"].get(name, "default")
            return int(known.metadata.resource_version) >= int(wanted)

        await until(seen, "quota seen")

    def gated(self, name: str, cpu: str = "1", **spec: Any) -> None:
        """A pod with a gate."""
        self.cluster.create(pod(name, cpu, gates=GATES, **spec))

    def ungate(self, *names: str, **spec: Any) -> None:
        """Remove the gates, and change other fields in the same patch, as Kueue does."""
        resource = self.cluster.resources.of_kind("v1", "Pod")
        for name in names:
            patch = {"spec": {"schedulingGates": None, **spec}}
            self.cluster.api.patch(resource, "default", name, patch, MERGE_PATCH)

    def released(self, *names: str, cpu: str = "1", **spec: Any) -> None:
        """Pods that were gated until now."""
        for name in names:
            self.gated(name, cpu, **spec)
        self.ungate(*names)

    def finish(self, name: str, phase: str = "Succeeded") -> None:
        patch_status(self.cluster, name, {"phase": phase})

    def delete(self, name: str, kind: str = "Pod") -> None:
        delete(self.cluster, name, kind)

    def update(self, name: str, patch: JsonObject, subresource: str = "") -> None:
        """Patch a pod as another client does."""
        resource = self.cluster.resources.of_kind("v1", "Pod")
        self.cluster.api.patch(
            resource, "default", name, patch, MERGE_PATCH, WriteOptions(), subresource=subresource
        )

    def update_size(self, name: str, containers: Sequence[JsonObject]) -> None:
        """Resize a pod as another client does (with the image: a merge patch replaces the list)."""
        full = [{"image": "i", **each} for each in containers]
        self.update(name, {"spec": {"containers": full}}, "resize")

    def delete_gracefully(self, name: str, seconds: int) -> None:
        """Delete a pod with a grace period, as another client does."""
        resource = self.cluster.resources.of_kind("v1", "Pod")
        options = {"gracePeriodSeconds": seconds}
        self.cluster.api.delete(resource, "default", name, options, WriteOptions())

    def activate(self, *names: str) -> None:
        """A plugin wants these pods to be tried now."""
        self.wiring.scheduling.queue.activate([self.seen(name) for name in names])

    # -- what became of it -----------------------------------------------------------------------

    async def bound(self, *names: str) -> None:
        for name in names:
            await until(partial(bound_to, self.cluster, name), f"{name} bound")

    async def held(self, *names: str) -> None:
        """Wait until a quota holds the pods; their status may not show it yet."""
        for name in names:
            await until(partial(self.is_held, name), f"{name} held")

    async def reason(self, name: str, reason: str = HELD) -> JsonObject:
        """Wait until PodScheduled has the reason; return the condition."""

        def has_reason() -> bool:
            self.wake()
            return bool(condition(self.cluster, name).get("reason") == reason)

        await until(has_reason, f"{name}: {reason}")
        return condition(self.cluster, name)

    async def quiet_ledger(self) -> None:
        """Wait until all work that is due is done; binds may be in flight."""

        def done() -> bool:
            due = self.ledger.next_due()
            return due is None or due > self.clock.now()

        await until(done, "ledger quiet")

    async def quiet(self) -> None:
        """Wait until nothing is in flight and nothing is due."""
        await until(lambda: self.ledger.next_due() is None, "ledger quiet")
        await settled(self.wiring)

    def is_held(self, name: str) -> bool:
        view = self.wiring.scheduling.queue.view("default", name)
        return view is not None and "ResourceQuota" in view.unschedulable_plugins

    def is_bound(self, name: str) -> bool:
        return bool(bound_to(self.cluster, name))

    def seen(self, name: str, namespace: str = "default") -> Pod:
        """Return the scheduler's object of a pod."""
        found: Pod | None = self.wiring.state.listers["pods"].get(name, namespace)
        assert found is not None
        return found

    def uid(self, name: str) -> str:
        found = find(self.cluster, name)
        assert found is not None
        return str(found["metadata"]["uid"])

    def marks(self, name: str) -> list[str]:
        """Status of the pod's durable mark."""
        found = find(self.cluster, name) or {}
        return [
            str(each["status"])
            for each in found.get("status", {}).get("conditions", ())
            if each["type"] == "kubestow.io/QuotaDeferred"
        ]

    def used(self, name: str = "q") -> dict[str, str]:
        """Return the usage that would be published of a quota."""
        account = self.ledger.account("default", name)
        published = {} if account is None else account.published()
        return {key.removeprefix(PREFIX): value for key, value in published.items()}

    def notes(self, reason: str = EXCEEDED) -> list[str]:
        return event_notes(self.cluster, reason)


@asynccontextmanager
async def staged(
    cluster: EmbeddedCluster,
    nodes: Sequence[JsonObject] | None = None,
    args: Mapping[str, Any] | None = None,
    plugins: Sequence[type[Any]] = (),
    *,
    gates: str = "",
    spread: Mapping[str, Any] | None = None,
    document: Mapping[str, Any] | None = None,
    fence: Fence | None = None,
) -> AsyncIterator[Stage]:
    """Run a scheduler with the gate on; leaving checks the ledger as well."""
    for each in [node("n1", "100", pods=5000)] if nodes is None else nodes:
        cluster.create(each)
    clock = LoopClock(cluster)
    options = RunOptions(feature_gates=FeatureGates.parse([f"{GATE}=true", gates]))
    more = dict(document or {})
    if args is not None or spread is not None:
        enabled = [{"name": each.name} for each in plugins]
        profile = {
            "schedulerName": PROFILE,
            "plugins": {"multiPoint": {"enabled": enabled}},
            "pluginConfig": [
                {"name": name, "args": dict(each)}
                for name, each in (("resourcequota", args), ("PodTopologySpread", spread))
                if each is not None
            ],
        }
        more["profiles"] = [profile]
    settings = {"statusPatchDelay": "0s", **more.pop("kubestow", {})}
    async with scheduling(
        cluster,
        plugins,
        options=options,
        clock=clock,
        fence=fence,
        kubestow=settings,
        **more,
    ) as wiring:
        stage = Stage(cluster, wiring, clock)
        yield stage
        stage.ledger.validate()
