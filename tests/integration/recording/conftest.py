"""Fixtures: a scheduler behind its HTTPS endpoints."""

from tests.integration.explain.conftest import garbage_collection, log, scheduling

__all__ = ["garbage_collection", "log", "scheduling"]
