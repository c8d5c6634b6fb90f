"""CycleState: what plugins remember within one attempt at one pod.

Facts: framework-cycle-config.md 0.4.
"""

from __future__ import annotations

from typing import Any


class CycleState:
    """Key to value store of one attempt, plus what the framework decided for it.

    Keys are plugin-private by convention: use the plugin's name, or name plus a suffix. A value
    that AddPod/RemovePod changes must have a `clone()` method; others are shared between clones.
    """

    __slots__ = (
        "data",
        "now",
        "pods_to_activate",
        "record_plugin_metrics",
        "recorder",
        "skip_filter",
        "skip_post_filter",
        "skip_pre_bind",
        "skip_score",
    )

    def __init__(self, now: float = 0.0, data: dict[str, Any] | None = None) -> None:
        self.data: dict[str, Any] = {} if data is None else data
        #: Wall clock at the start of the attempt, seconds since the epoch; fixed for the cycle.
        self.now = now
        #: Plugins whose Filter and AddPod/RemovePod are not called this cycle.
        self.skip_filter: set[str] = set()
        self.skip_score: set[str] = set()
        self.skip_pre_bind: set[str] = set()
        self.skip_post_filter = False
        self.record_plugin_metrics = False
        #: "namespace/name" of pods to activate when the cycle, and again when the binding,
        #: succeeds.
        self.pods_to_activate: set[str] = set()
        #: Keys written while the framework records a reusable PreFilter or PreScore (None: not
        #: recording).
        self.recorder: list[str] | None = None

    def read(self, key: str) -> Any:
        """The value under `key`; KeyError with upstream's text when missing."""
        try:
            return self.data[key]
        except KeyError:
            raise StateNotFoundError from None

    def get(self, key: str) -> Any:
        """The value under `key`, or None."""
        return self.data.get(key)

    def write(self, key: str, value: object) -> None:
        """Store `value`."""
        self.data[key] = value
        if self.recorder is not None:
            self.recorder.append(key)

    def clone(self) -> CycleState:
        """A copy for a what-if: values are cloned through their own `clone`, sets are shared."""
        copy = CycleState(self.now)
        copy.data = {
            key: value.clone() if hasattr(value, "clone") else value
            for key, value in self.data.items()
        }
        copy.skip_filter = self.skip_filter
        copy.skip_score = self.skip_score
        copy.skip_pre_bind = self.skip_pre_bind
        copy.skip_post_filter = self.skip_post_filter
        copy.record_plugin_metrics = self.record_plugin_metrics
        copy.pods_to_activate = self.pods_to_activate
        return copy


class StateNotFoundError(KeyError):
    """A plugin read state that was never written; the text is upstream's `not found`."""

    def __str__(self) -> str:
        return "not found"
