"""Code shared by tests and benchmarks: control plane, recorded decisions, hostile objects."""
