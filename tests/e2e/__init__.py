"""Upstream's end-to-end specs of scheduling, run against kubestow: `python -m tests.e2e`."""
