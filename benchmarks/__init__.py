"""Measures kubestow and kube-scheduler side by side on a real control plane: `python -m benchmarks`."""

__all__ = ["WORKLOADS"]

from benchmarks.workloads import WORKLOADS
