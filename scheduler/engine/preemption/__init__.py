"""Preemption: which pods to evict, and from which node, so that a pod of higher priority fits."""
