"""Tests of the benchmark harness: its records, its arithmetic, its refusals."""
