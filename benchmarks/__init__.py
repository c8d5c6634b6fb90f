"""Measures kubestow and kube-scheduler side by side on a real control plane.

Run it with `python -m benchmarks`.
"""

__all__ = ["WORKLOADS"]

from benchmarks.workloads import WORKLOADS
