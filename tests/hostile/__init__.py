"""Hostile objects: a generated catalogue, and how kubestow handles each.

`catalogue.CASES` has every case. `test_growth` counts the work that each costs in the pure stack,
`test_service` runs them through the embedded service, `tests/envtest/test_hostile.py` checks which
of them the real API server stores, and `benchmarks.hostile` compares the cost of the worst ones
with kube-scheduler's.
"""
