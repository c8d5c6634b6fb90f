"""Decisions remembered: what was decided about each pod lately, and why. Pure."""

from scheduler.decisions.history import DecisionHistory, HistoryStatistics
from scheduler.decisions.recorder import DecisionRecorder
from scheduler.pages import Decision, DecisionResult, RejectionCount

__all__ = [
    "Decision",
    "DecisionHistory",
    "DecisionRecorder",
    "DecisionResult",
    "HistoryStatistics",
    "RejectionCount",
]
