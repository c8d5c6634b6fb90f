"""The scheduling core: framework runtime, scheduling cycle, diagnosis. Pure; see `Engine`."""

from scheduler.engine.diagnosis import FitError
from scheduler.engine.engine import Engine
from scheduler.engine.errors import AttemptError
from scheduler.engine.failure import Failure
from scheduler.engine.preemption.evaluator import Evaluator
from scheduler.engine.runtime import Framework
from scheduler.engine.schedule_one import Attempt, ScheduleResult, SchedulingAlgorithm
from scheduler.engine.waiting import WaitingPod, WaitingPods

__all__ = [
    "Attempt",
    "AttemptError",
    "Engine",
    "Evaluator",
    "Failure",
    "FitError",
    "Framework",
    "ScheduleResult",
    "SchedulingAlgorithm",
    "WaitingPod",
    "WaitingPods",
]
