"""Failures of an allocation. Their texts are those of kube-scheduler."""

from __future__ import annotations

from scheduler.framework import PluginError


class AllocationError(PluginError):
    """A failure that ends the attempt to schedule the pod, even if it occurs on one node only."""


class NodeAllocationError(Exception):
    """A failure that only rejects the node."""


class TooManyDevicesError(Exception):
    """An alternative would exceed the maximum devices of a claim; the search tries the next one."""
