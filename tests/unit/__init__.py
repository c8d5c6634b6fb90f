"""Unit tests: the pure core in virtual time."""
