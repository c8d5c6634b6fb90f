"""Measures kubestow and kube-scheduler side by side on a real control plane.

Run it with `python -m benchmarks`; `queue_load` measures the queue alone, in one process.
"""
