"""The permissions that the stages need, declared before anything is sent."""

from __future__ import annotations

from functools import partial
from typing import Final

from scheduler.framework import ClusterEvent
from scheduler.framework.events import UNSCHEDULABLE_TIMEOUT
from scheduler.permissions.declarations import Parts, declared
from scheduler.permissions.reviewer import PermissionReviewer
from scheduler.service.resources import watched_plurals
from scheduler.stages.connections import Connections
from scheduler.stages.controllers import Controllers
from scheduler.stages.profiles import Profiles
from scheduler.stages.scheduling import Scheduling
from scheduler.stages.state import State

PERMISSION_GRANTED = ClusterEvent(
    UNSCHEDULABLE_TIMEOUT.resource, UNSCHEDULABLE_TIMEOUT.action_type, "PermissionGranted"
)
"""Moves all unschedulable pods, since any plugin may have rejected them without the permission."""

PRINT_ROLES: Final = ("kubestow", "config", "rbac")
"""The command that prints the roles of a configuration."""


def declare_permissions(
    connections: Connections,
    state: State,
    profiles: Profiles,
    scheduling: Scheduling,
    controllers: Controllers,
    *,
    serving: bool,
) -> None:
    """Declare the stages' permissions, at the start and after profiles were replaced."""
    plugins = [
        plugin
        for framework in profiles.frameworks.values()
        for plugin in framework.plugins.values()
    ]
    state.permissions.declare(
        declared(
            Parts(
                plugins=plugins,
                watched=watched_plurals(
                    scheduling.registered, plugins, state.subscriptions.plurals
                ),
                serving=serving,
                bridge=controllers.bridge is not None,
                reports_unenforced_quotas=controllers.quota.report_unenforced is not None,
                lease=_lease(connections),
            )
        )
    )


def build_reviewer(
    connections: Connections, state: State, scheduling: Scheduling
) -> PermissionReviewer:
    """Return the reviewer of the declared permissions, which does not run yet."""
    move = scheduling.queue.move_all_to_active_or_backoff
    state.permissions.on_granted.subscribe(
        partial(state.inbox.submit, partial(move, PERMISSION_GRANTED, None, None))
    )
    reviewer = PermissionReviewer(
        connections.derive("permissions"), state.permissions, connections.random
    )
    connections.client.transport.on_forbidden_write.subscribe(reviewer.write_forbidden)
    return reviewer


def _lease(connections: Connections) -> tuple[str, str] | None:
    election = connections.configuration.effective.leader_election
    return (election.resource_name, election.resource_namespace) if election.leader_elect else None
