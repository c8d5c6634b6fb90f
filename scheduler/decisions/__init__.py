"""Decisions remembered: what was decided about each pod lately, and why. Pure."""

from scheduler.decisions.records import Decision, DecisionResult, RejectionCount

__all__ = ["Decision", "DecisionResult", "RejectionCount"]
