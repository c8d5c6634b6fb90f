"""Decisions remembered: what was decided about each pod lately, and why. Pure."""

from scheduler.history.history import DecisionHistory, HistoryStatistics
from scheduler.history.recorder import DecisionRecorder
from scheduler.pages import Decision, DecisionResult, RejectionCount

__all__ = [
    "Decision",
    "DecisionHistory",
    "DecisionRecorder",
    "DecisionResult",
    "HistoryStatistics",
    "RejectionCount",
]
