"""Hypothesis strategies for clusters and pods. Import it only where Hypothesis is installed."""

from scheduler.testing.strategies import clusters, pods

__all__ = ["clusters", "pods"]
