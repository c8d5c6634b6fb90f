"""Decisions remembered: what was decided about each pod lately, and why. Pure."""

from scheduler.decisions.records import Decision, DecisionResult, RejectionCount
from scheduler.decisions.run import Frame, Run, RunNode, RunPod, frame_at

__all__ = [
    "Decision",
    "DecisionResult",
    "Frame",
    "RejectionCount",
    "Run",
    "RunNode",
    "RunPod",
    "frame_at",
]
