"""Fifth stage: controllers whose writes are not part of scheduling, while this process leads."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any

from scheduler.controllers.node_provisioning.bridge import NodeProvisioningBridge
from scheduler.controllers.node_provisioning.setup import build_bridge
from scheduler.controllers.quota_usage.controllers import QuotaControllers, build_quota_controllers
from scheduler.service.rejected_pods import RejectedPods
from scheduler.stages.connections import Connections
from scheduler.stages.profiles import Profiles
from scheduler.stages.state import State


@dataclass(frozen=True, slots=True)
class Controllers:
    """The controllers; each is None when it is switched off."""

    bridge: NodeProvisioningBridge | None
    quota: QuotaControllers
    #: Fed by the event handlers; reads only, so it runs in every replica.
    rejected_pods: RejectedPods

    def leaders_work(self) -> Iterator[tuple[str, Callable[[], Coroutine[Any, Any, None]]]]:
        """Yield name and beginning of each task that runs only in the leading replica."""
        if self.bridge is not None:
            yield "node provisioning bridge", self.bridge.run
        yield from self.quota.work()


def build_controllers(connections: Connections, state: State, profiles: Profiles) -> Controllers:
    """Build the stage; the controllers see changes of objects from here on."""
    fence = connections.fence
    return Controllers(
        bridge=build_bridge(
            connections.configuration,
            lambda: connections.derive("node-provisioning-bridge", fence=fence),
            connections.dispatcher,
            state.subscriptions,
            metrics=connections.metrics.bridge,
            random=connections.random,
        ),
        quota=build_quota_controllers(
            profiles.shared.objects,
            connections.client,
            lambda: connections.derive("quota-usage", fence=fence),
            connections.dispatcher,
            state.subscriptions,
            events=connections.events,
            metrics=connections.metrics.quota,
            random=connections.random,
        ),
        rejected_pods=RejectedPods(
            connections.derive("rejections"),
            profiles.rejections,
            start=state.background.start,
            submit=state.inbox.submit,
            metrics=connections.metrics,
        ),
    )
