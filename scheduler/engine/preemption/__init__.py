"""Preemption: chooses a node and victims there, so that a pod of higher priority fits."""
