"""LeaseThread: leader election in a thread of its own, so that a long cycle keeps the Lease.

All other state of the process is touched from one event loop only. The reasons for this exception
are in docs/decisions/0007-lease-thread.md. The thread runs an event loop of its own, which owns the
elector, its client, connections and credentials. The two loops share

- the fence, which the thread updates and the process checks before every write;
- the heartbeat, which the process's loop updates and the thread checks before each renewal;
- callbacks by `call_soon_threadsafe`: the thread reports that it leads, that it ended and with
  which error, and metrics; the process requests the end.

Each renewal needs the GIL for a few moments. Python code releases it every 5 ms, however long a
cycle takes. A single call of C code (decoding, sorting an array) does not: if one takes longer than
the renew deadline, the Lease is lost.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final

import uvloop

from scheduler.client.fence import LeaderFence
from scheduler.client.leader_election import LeaderElector, run_while
from scheduler.client.metrics import ClientMetrics, NullMetrics
from scheduler.client.transport import Transport

THREAD_NAME: Final = "lease"


class LeaseThread:
    """One candidate for one term, as `LeaderElector`; use it on the process's event loop."""

    def __init__(self, elector: LeaderElector, transport: Transport) -> None:
        """Prepare; from now on only the thread may use the two arguments."""
        self._elector = elector
        self._transport = transport
        #: Checked immediately before each write.
        self.fence: LeaderFence = elector.fence
        # The process's loop and two futures of it, all set by `run`.
        self._home: asyncio.AbstractEventLoop
        self._acquired: asyncio.Future[None]
        self._ended: asyncio.Future[BaseException | None]
        # The thread's loop, and state that only its callbacks and tasks use.
        self._loop: asyncio.AbstractEventLoop
        self._election: asyncio.Task[None] | None = None
        self._stop_requested = False

    @property
    def leading(self) -> bool:
        """Whether this process leads and may write."""
        return self._elector.leading

    async def run(self, lead: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Acquire, run `lead` while the thread renews, and release when it returns.

        Raises:
            LeadershipLostError: the Lease was lost; `lead` has been cancelled and has ended.
        """
        self._home = asyncio.get_running_loop()
        self._acquired = self._home.create_future()
        self._ended = self._home.create_future()
        runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self._loop = runner.get_loop()
        # A daemon, so that it cannot keep an ending process alive if it hangs.
        thread = threading.Thread(
            target=self._thread, args=(runner,), name=THREAD_NAME, daemon=True
        )
        thread.start()
        try:
            await asyncio.wait((self._acquired, self._ended), return_when=asyncio.FIRST_COMPLETED)
            # If this loop was blocked for long, the thread may have led and ended meanwhile.
            if not self._ended.done():
                await run_while(lead, self._until_ended)
        finally:
            await self._end(thread)
        await self._until_ended()

    async def _until_ended(self) -> None:
        if (error := await asyncio.shield(self._ended)) is not None:
            raise error

    async def _end(self, thread: threading.Thread) -> None:
        """Make the thread release the Lease and end; a cancellation is raised afterwards."""
        cancellation: asyncio.CancelledError | None = None
        while not self._ended.done():
            _post(self._loop, self._stop_election)
            try:
                await asyncio.wait((self._ended,))
            except asyncio.CancelledError as error:
                cancellation = error
        # Setting `_ended` was the thread's last action, so this does not block.
        thread.join()
        if cancellation is not None:
            raise cancellation

    # ----------------------------------------------------------------------------------- the thread

    def _thread(self, runner: asyncio.Runner) -> None:
        failure: BaseException | None = None
        try:
            with runner:
                runner.run(self._elect())
        except asyncio.CancelledError:
            pass
        # The boundary of the thread: `run` raises the exception on the process's loop.
        except BaseException as error:  # noqa: BLE001
            failure = error
        finally:
            self.fence.shut()
        _post(self._home, self._ended.set_result, failure)

    async def _elect(self) -> None:
        self._election = asyncio.current_task()
        if self._stop_requested:
            return
        async with self._transport:
            await self._elector.run(self._lead)

    async def _lead(self) -> None:
        _post(self._home, self._acquired.set_result, None)
        await asyncio.Event().wait()

    def _stop_election(self) -> None:
        self._stop_requested = True
        if self._election is not None:
            self._election.cancel()


class PostedMetrics(NullMetrics):
    """Forwards reports of the Lease's client to the event loop that owns the metrics.

    The instruments need no lock because only that loop's thread writes them.
    """

    __slots__ = ("_home", "_metrics")

    def __init__(self, metrics: ClientMetrics, home: asyncio.AbstractEventLoop) -> None:
        self._metrics = metrics
        self._home = home

    def request(self, verb: str, code: str, seconds: float) -> None:
        """Report a request that ended."""
        _post(self._home, self._metrics.request, verb, code, seconds)

    def leader(self, name: str, leading: bool) -> None:
        """Report that this process began or stopped leading."""
        _post(self._home, self._metrics.leader, name, leading)


def _post(loop: asyncio.AbstractEventLoop, message: Callable[..., object], *args: Any) -> None:
    # RuntimeError: the loop is closed, so nothing waits for the message.
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(message, *args)
