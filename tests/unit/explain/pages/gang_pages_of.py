"""The pages about the groups of a cluster in virtual time."""

from __future__ import annotations

from scheduler.explain.pages.gangs import GangPages
from scheduler.explain.pages.group_explainer import GroupExplainer
from tests.unit.plugins.gang_scheduling.gang_cluster import GangCluster


def explainer_of(cluster: GangCluster) -> GroupExplainer:
    """Return what explains the groups."""
    plugin, scheduler = cluster.plugin("GangScheduling"), cluster.world._assembly
    scheduling = scheduler.scheduling
    return GroupExplainer(
        scheduling.engine,
        scheduling.queue,
        scheduling.groups,
        # As with two profiles, which share the groups.
        lambda: [plugin, plugin],
        clock=scheduler.clock,
    )


def pages_of(cluster: GangCluster) -> GangPages:
    """Return the pages."""
    plugin, clock = cluster.plugin("GangScheduling"), cluster.world._assembly.clock
    return GangPages(
        lambda: [plugin, plugin], explainer_of(cluster), clock=clock, leading=lambda: True
    )
