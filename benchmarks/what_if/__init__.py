"""Slices of what-if questions on a large cluster, while pods are scheduled."""
