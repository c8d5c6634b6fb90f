"""Decisions recorded from kube-scheduler: reading them, replaying them, comparing ours."""
