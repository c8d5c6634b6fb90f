"""Failures of an allocation. Their texts are those of kube-scheduler."""

from __future__ import annotations

from scheduler.framework import PluginError


class AllocationError(PluginError):
    """A failure that ends the attempt to schedule the pod, on whatever node it was found."""


class NodeAllocationError(Exception):
    """A failure that concerns only the node."""


class TooManyDevicesError(Exception):
    """An alternative that would exceed the limit of devices of a claim; the next one is tried."""
