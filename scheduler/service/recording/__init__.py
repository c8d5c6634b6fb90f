"""Bundles and recordings of the running scheduler (docs/bundles.md)."""
