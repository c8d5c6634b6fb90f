"""Decisions remembered: what was decided about each pod lately, and why. Pure."""

from scheduler.explain.records import Decision, DecisionResult, RejectionCount
from scheduler.history.history import DecisionHistory, HistoryStatistics
from scheduler.history.recorder import DecisionRecorder

__all__ = [
    "Decision",
    "DecisionHistory",
    "DecisionRecorder",
    "DecisionResult",
    "HistoryStatistics",
    "RejectionCount",
]
