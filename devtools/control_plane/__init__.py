"""A real Kubernetes control plane for tests and benchmarks.

`build` makes the binaries, `control_plane` runs them; `tests/envtest/fixtures.py` has the fixtures.
"""
