"""Fixtures: a scheduler behind its HTTPS endpoints."""

from tests.integration.explain.conftest import log, scheduling

__all__ = ["log", "scheduling"]
