"""Hostile objects: a generated catalogue, and what kubestow makes of each.

`catalogue.CASES` has every case. `test_growth` counts the work that each costs in the pure stack,
`test_service` runs them through the embedded service, `tests/envtest/test_hostile.py` asks the real
API server which it stores, and `benchmarks.hostile` measures the worst beside kube-scheduler.
"""
