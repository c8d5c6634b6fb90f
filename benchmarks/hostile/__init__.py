"""Hostile pods on a real control plane, and what they do to kubestow and kube-scheduler."""
