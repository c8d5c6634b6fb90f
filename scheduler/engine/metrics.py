"""What the engine measures, as a Protocol that the service maps to Prometheus."""

from __future__ import annotations

from typing import Protocol


class EngineMetrics(Protocol):
    """Durations are in seconds; labels are upstream's (framework-cycle-config.md section 10)."""

    def extension_point(self, point: str, status: str, profile: str, seconds: float) -> None:
        """One run of an extension point over all its plugins."""
        ...

    def plugin(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """One call of one plugin, on sampled attempts."""
        ...

    def algorithm(self, seconds: float) -> None:
        """PreFilter to host selection, PostFilter included."""
        ...


class NoMetrics:
    """Measures nothing."""

    def extension_point(self, point: str, status: str, profile: str, seconds: float) -> None:
        """Ignore."""

    def plugin(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """Ignore."""

    def algorithm(self, seconds: float) -> None:
        """Ignore."""
