"""DirectLoop: the scheduling of a world by calls of its event loop, with tasks for what waits only.

In the service one task schedules, and one binds each pod, because API servers take time. In a world
nearly every binding cycle ends without waiting, and the tasks would cost more than the binding. The
decisions, the binding cycle and the order of both are those of the service: pods are attempted back
to back, and then their binding cycles begin in the same order. A cycle that waits (at Permit, for a
PreBind plugin, in a plugin's own Bind) goes on in a task.

Not for profiles whose scheduling cycle itself may be suspended: see `suits`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from inspect import iscoroutinefunction
from typing import Any, Final

from scheduler.engine import Attempt, Engine, Framework
from scheduler.engine.plugin_calls import run_synchronously
from scheduler.offline.virtual_time import Step, Timer, VirtualLoop
from scheduler.service.continued import continued
from scheduler.stages.scheduling import Scheduling
from scheduler.stages.state import State

DEFAULT_BINDER: Final = "DefaultBinder"
"""The Bind plugin that waits for nothing but the server of the world."""


class Wake(asyncio.Event):
    """The event of the service's loop, and the call that a `DirectLoop` has in place of it."""

    def __init__(self) -> None:
        super().__init__()
        self._call: Callable[[], None] = super().set

    def set(self) -> None:
        """Report that there may be work."""
        self._call()

    def divert(self, call: Callable[[], None]) -> None:
        """Have `set` call this instead of setting the event."""
        self._call = call


def suits(engine: Engine) -> bool:
    """Whether no scheduling cycle is ever suspended, so that it can run within a call."""
    return not engine.may_suspend


class DirectLoop:
    """Schedules while the event loop of the world runs."""

    def __init__(self, loop: VirtualLoop, wake: Wake, state: State, scheduling: Scheduling) -> None:
        self._loop = loop
        self._wake = wake
        self._slots = state.slots
        self._queue = scheduling.queue
        self._cycles = scheduling.loop
        self._binding = scheduling.binding
        self._planned = self._stopped = False
        self._next = Step(self._step)
        #: While pods are attempted, and whether something called for another step meanwhile.
        self._attempting = self._woken = False
        self._timer: Timer | None = None
        #: Profiles of which the Bind and PostBind plugins can be called outside of a task.
        self._callable: set[Framework] = set()
        #: Binding cycles that wait.
        self.tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Begin; nothing is scheduled before the event loop runs."""
        self._wake.divert(self._plan)
        self._plan()

    def stop(self) -> None:
        """Schedule no more. Binding cycles that wait are left to their tasks."""
        self._stopped = True
        self._wake.divert(lambda: None)
        self._set_timer(float("inf"))

    def _plan(self) -> None:
        if self._attempting:
            self._woken = True
        elif not self._planned:
            self._planned = True
            self._loop.add_step(self._next)

    def _step(self) -> None:
        """Do what is due, attempt every active pod, and begin the binding cycles."""
        self._planned = self._woken = False
        self._attempting = True
        try:
            prompt = self._attempt_all()
        finally:
            self._attempting = False
        # Tasks that begin now run before the next step, as in the service, and that before the
        # delivery of what the bindings change.
        if self._woken:
            self._plan()
        for attempt in prompt:
            self._bind(attempt)
        if not self._planned:
            self._set_timer(self._loop.time() + self._cycles.seconds_to_sleep())

    def _attempt_all(self) -> list[Attempt]:
        """Return the attempts whose binding cycles are called; the others have their tasks."""
        self._queue.run_due()
        self._cycles.run_timed()
        prompt: list[Attempt] = []
        while not (self._stopped or self._slots.full):
            info = self._queue.pop()
            if info is None:
                break
            for attempt in run_synchronously(self._cycles.schedule_popped(info)):
                self._binding.under_way[attempt.info.uid] = attempt
                if attempt.waiting is None and (
                    attempt.framework in self._callable or self._needs_no_task(attempt.framework)
                ):
                    prompt.append(attempt)
                else:
                    self._go_on(attempt, self._binding.run(attempt))
        return prompt

    def _bind(self, attempt: Attempt) -> None:
        """Run a binding cycle to its end, or to where it waits and goes on in a task."""
        cycle = self._binding.run(attempt)
        try:
            awaited = cycle.send(None)
        except StopIteration:
            return
        self._go_on(attempt, continued(cycle, awaited))

    def _go_on(self, attempt: Attempt, cycle: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(cycle, name=f"bind {attempt.info.key}")
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def _set_timer(self, due: float) -> None:
        timer = self._timer
        if timer is not None:
            if timer.when() == due and not timer.cancelled():
                return
            timer.cancel()
            self._timer = None
        if due != float("inf"):
            self._timer = self._loop.add_timer(due, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._plan()

    def _needs_no_task(self, framework: Framework) -> bool:
        """Whether Bind and PostBind may run outside of a task.

        A coroutine of a plugin may do what works in a task only, such as limiting its time.
        """
        calls = [
            *(each.bind for each in framework.bind if each.name != DEFAULT_BINDER),
            *(each.post_bind for each in framework.post_bind),
        ]
        if any(map(iscoroutinefunction, calls)):
            return False
        self._callable.add(framework)
        return True
