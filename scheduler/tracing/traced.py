"""Scheduling loop and binding cycle whose sampled attempts are traced.

Each method adds to the one of the base class and changes nothing that it does.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, ClassVar, Final

from scheduler.engine import Attempt, Failure, WaitingPod
from scheduler.framework import QueuedPodInfo, Status
from scheduler.service.binding_cycle import BindingCycle
from scheduler.service.scheduling_loop import SchedulingLoop

if TYPE_CHECKING:
    from scheduler.tracing.attempts import AttemptTraces

NO_OUTCOME: Final = "given up: the pod needs no scheduling any more, or the process stops"


class TracedSchedulingLoop(SchedulingLoop):
    """Begins the traces."""

    traces: ClassVar[AttemptTraces]

    async def schedule(self, info: QueuedPodInfo) -> Attempt | None:
        """Attempt a popped pod; return the attempt if its binding cycle is next."""
        trace = self.traces.begin(info, self._clock.now())
        if trace is None:
            return await super().schedule(info)
        try:
            with self.traces.in_cycle(trace):
                attempt = await super().schedule(info)
        except asyncio.CancelledError:
            trace.dropped(NO_OUTCOME)
            raise
        if attempt is not None:
            trace.chosen(attempt)
            self.traces.binding[attempt.info.uid] = trace
        elif trace.span.is_recording():
            trace.dropped(NO_OUTCOME)
        return attempt

    def _outcome(self, attempt: Attempt) -> Attempt | None:
        trace = self.traces.cycle
        if trace is not None and attempt.failure is not None:
            # Before the pod is requeued: its next attempt has a trace of its own.
            trace.failed(attempt.failure)
        return super()._outcome(attempt)


class TracedBindingCycle(BindingCycle):
    """Continues the traces of pods that have a node, and ends them."""

    traces: ClassVar[AttemptTraces]

    async def run(self, attempt: Attempt) -> None:
        """Run the whole cycle; raises only when cancelled."""
        trace = self.traces.binding.get(attempt.info.uid)
        if trace is None:
            await super().run(attempt)
            return
        try:
            with trace.current():
                await super().run(attempt)
        except asyncio.CancelledError:
            if self.traces.binding.pop(attempt.info.uid, None) is not None:
                trace.dropped(NO_OUTCOME)
            raise

    async def _wait_at_permit(self, attempt: Attempt, waiting: WaitingPod) -> Failure | None:
        if attempt.info.uid not in self.traces.binding:
            return await super()._wait_at_permit(attempt, waiting)
        with self.traces.step(attempt, "WaitOnPermit") as step:
            failure = await super()._wait_at_permit(attempt, waiting)
            if failure is not None:
                step.failed(failure.message)
            return failure

    async def _run_pre_bind(self, attempt: Attempt, plugin: Any) -> None:
        if attempt.info.uid not in self.traces.binding:
            await super()._run_pre_bind(attempt, plugin)
            return
        with self.traces.step(attempt, "PreBind", plugin.name):
            await super()._run_pre_bind(attempt, plugin)

    async def _run_bind(self, attempt: Attempt) -> Status | None:
        if attempt.info.uid not in self.traces.binding:
            return await super()._run_bind(attempt)
        with self.traces.step(attempt, "Bind") as step:
            status = await super()._run_bind(attempt)
            if status is not None and not status.success:
                step.failed(status.message)
            return status

    def succeeded(self, attempt: Attempt) -> None:
        """Report the binding, and end the trace."""
        trace = self.traces.binding.pop(attempt.info.uid, None)
        if trace is not None:
            trace.bound()
        super().succeeded(attempt)

    def failed(self, attempt: Attempt, failure: Failure) -> None:
        """Requeue the pod, and end the trace."""
        trace = self.traces.binding.pop(attempt.info.uid, None)
        if trace is not None:
            trace.failed(failure)
        super().failed(attempt, failure)
