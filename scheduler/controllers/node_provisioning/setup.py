"""Construction of the bridge from the configuration."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from config import Configuration
from scheduler.client.dispatcher import Dispatcher
from scheduler.client.rest import ApiClient
from scheduler.controllers.node_provisioning.bridge import (
    BridgeOptions,
    NodeProvisioningBridge,
)
from scheduler.controllers.node_provisioning.condition_selector import (
    ConditionSelector,
    profiles_that_fall_back_by_default,
)
from scheduler.controllers.node_provisioning.decisions import Decisions
from scheduler.controllers.node_provisioning.signals import StatusObject
from scheduler.controllers.node_provisioning.sources import Limits
from scheduler.framework import Subscriptions
from scheduler.metrics.recorders import BridgeRecorder


def build_bridge(
    configuration: Configuration,
    derive: Callable[[], ApiClient],
    dispatcher: Dispatcher,
    subscriptions: Subscriptions,
    *,
    metrics: BridgeRecorder,
    random: Random,
) -> NodeProvisioningBridge | None:
    """Build the bridge, or return None when it is off; it sees pods and nodes from here on.

    `derive` makes a client with a rate limit of its own: an autoscaler that rejects thousands of
    pods must not delay binds.
    """
    settings = configuration.options.node_provisioning_bridge
    fallback = configuration.feature_gates.enabled("PodTopologySpreadFallbackMode")
    if settings.mode == "Off" or (settings.mode == "Auto" and not fallback):
        return None
    status = StatusObject(
        settings.cluster_autoscaler_namespace, settings.cluster_autoscaler_config_map
    )
    window = settings.suspect_window
    decisions = Decisions(
        names={profile.scheduler_name for profile in configuration.profiles},
        wanted=ConditionSelector(
            every_pod=settings.scope == "All",
            by_default=tuple(profiles_that_fall_back_by_default(configuration.profiles)),
        ),
        status=status,
        limits=Limits(
            None if window is None else window.total_seconds(),
            settings.provisioning_deadline.total_seconds(),
        ),
        backs_off=settings.mode == "Auto",
    )
    idle_timeout = configuration.options.watch_idle_timeout
    bridge = NodeProvisioningBridge(
        derive(),
        dispatcher,
        decisions,
        options=BridgeOptions(
            always=settings.mode == "On",
            status=status,
            idle_timeout=idle_timeout.total_seconds(),
        ),
        metrics=metrics,
        random=random,
    )
    subscriptions.on_object("pods", bridge.pod)
    subscriptions.on_object("nodes", bridge.node)
    return bridge
