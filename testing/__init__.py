"""What tests and benchmarks share: a real control plane, recorded decisions, hostile objects."""
