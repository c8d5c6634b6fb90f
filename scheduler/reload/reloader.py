"""Reloader: takes over changes of the configuration file and of plugin folders.

It checks the files every few seconds. A change is read after the files were stable for one period,
so that no half-written file is read. Files are read, checked and imported in a thread; plugins are
built on the event loop; the profiles are replaced between two scheduling cycles.

Invariant: a whole valid configuration is in force at any time. A change with any error, or with any
key that needs a restart, is refused as a whole, and the previous configuration stays in force.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import structlog

from config import Configuration, configz
from scheduler.api.storage import ObjectReference
from scheduler.framework import ConfigurationError
from scheduler.reload.fingerprints import Seen, look
from scheduler.reload.plugin_modules import FreshImports
from scheduler.reload.reading import (
    IMPORT_TIMEOUT,
    HangingError,
    Read,
    described,
    in_daemon_thread,
    read,
)
from scheduler.reload.takeover import Prepared, RestartRequiredError, Takeover
from scheduler.sanitizing.redaction import redact_message
from scheduler.service.options import RunOptions, own_namespace
from scheduler.service.plugin_overruns import SwitchedOff
from scheduler.service.supervision import CancelledFromWithinError, in_own_task
from scheduler.stages.wiring import Wiring

_log = structlog.get_logger(__name__)

PERIOD: Final = 2.0
"""Seconds between two checks of the files. A check is a few `stat` calls, and the period is short
compared to the minute in which the kubelet updates a ConfigMap."""

QUEUED_AT_ONCE: Final = 200
"""Pods of a new profile to queue before yielding to the event loop; takes a few milliseconds."""

SLICE_SECONDS: Final = 0.005
"""Time for which known objects are delivered to new plugins before yielding to the event loop."""

SUCCESS, UNCHANGED = "success", "unchanged"
INVALID, RESTART_REQUIRED, FAILED = "invalid", "restart_required", "failed"
CHANGING: Final = "changing"

HANGING: Final = (
    "the plugin folders have not been imported in {seconds} s: let nothing at the top of a module "
    "wait, and restart"
)
STILL_HANGING: Final = (
    "an earlier import of the plugin folders has not ended yet: a further one needs a restart"
)

_REASONS: Final = {
    SUCCESS: "ConfigurationReloaded",
    INVALID: "ConfigurationInvalid",
    RESTART_REQUIRED: "RestartRequired",
    FAILED: "ReloadFailed",
}
WAITED_FOR: Final = "plugin {} was switched off: the pod is tried again without it"

_MAX_NOTE: Final = 1000
"""Maximum number of characters of an Event's note; the API server accepts 1024 bytes."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The last change of the files, which was refused."""

    result: str
    problems: tuple[str, ...]
    time: str


class LongestPause:
    """Measures the longest time for which a reload blocks the event loop."""

    def __init__(self) -> None:
        self.seconds = 0.0
        #: CPU time of the thread, which is independent of other processes' load.
        self.cpu_seconds = 0.0

    @contextmanager
    def part(self) -> Iterator[None]:
        """Measure the body."""
        started, cpu_started = time.perf_counter(), time.thread_time()
        yield
        self.seconds = max(self.seconds, time.perf_counter() - started)
        self.cpu_seconds = max(self.cpu_seconds, time.thread_time() - cpu_started)


class Reloader:
    """Owns what is in force. Touched from the scheduling loop's event loop only."""

    def __init__(self, options: RunOptions, wiring: Wiring, seen: Seen) -> None:
        """Wire the reloader; `seen` are the files as they were read at the start."""
        self._options = options
        self.wiring = wiring
        self._takeover = Takeover(wiring)
        self._metrics = wiring.connections.metrics
        #: 1 is the configuration of the start.
        self.generation = 1
        self.refusal: Refusal | None = None
        self._judged = seen
        self._candidate: Seen | None = None
        self._folders_in_force = seen[1]
        self._one_at_a_time = asyncio.Lock()
        #: The thread of an import that did not end in time.
        self._hanging: threading.Thread | None = None
        self.import_timeout = IMPORT_TIMEOUT
        self._metrics.configuration_in_force(self.generation)
        #: Of the last change that was taken over.
        self.pause = LongestPause()
        self._overruns = wiring.scheduling.overruns
        self._overruns.on_switch_off.subscribe(self._start_switching_off)

    @property
    def configuration(self) -> Configuration:
        """The configuration in force."""
        return self._takeover.configuration

    def configz(self) -> dict[str, Any]:
        """Return the content of `/configz`: what is in force, and what was refused since."""
        status: dict[str, Any] = {"generation": self.generation, "file": self._options.config_file}
        if self.refusal is not None:
            status["refused"] = {
                "result": self.refusal.result,
                "problems": list(self.refusal.problems),
                "time": self.refusal.time,
            }
        if switched_off := self._overruns.off():
            status["switchedOff"] = [
                {"profile": each.profile, "plugin": each.plugin, "since": each.since}
                for each in switched_off
            ]
        return {**configz(self.configuration), "kubestow": status}

    def _start_switching_off(self, off: SwitchedOff) -> None:
        # In a task, because this is called in the middle of a cycle.
        self.wiring.state.background.start(self.switch_off(off), name="switch off plugin")

    async def switch_off(self, off: SwitchedOff) -> None:
        """Remove a plugin from one profile at the end of the current cycle.

        Binding cycles that hold reservations made through it undo them. Pods that wait for it at
        Permit are rejected, so that they are tried again without it.
        """
        async with self._one_at_a_time:
            if off not in self._overruns.off():
                # A reload took effect meanwhile.
                return
            try:
                prepared = self._takeover.without(off.profile, off.plugin)
                if prepared is not None:
                    await self._catch_up(prepared, self.pause)
            except Exception:  # noqa: BLE001 - boundary: methods of plugins are called
                _log.exception("plugin cannot be switched off", plugin=off.plugin)
                prepared = None
            if prepared is None:
                self._overruns.stays_on(off)
                return
            self._takeover.commit(prepared)
            self._overruns.went_off(off)
            self._takeover.reject_waiting(off.profile, off.plugin, WAITED_FOR.format(off.plugin))
        note = f"Plugin {off.plugin} of profile {off.profile} {off}"
        self._record("Warning", "PluginSwitchedOff", "SwitchingOff", note)

    async def run(self) -> None:
        """Watch the files until cancelled."""
        if not self._options.config_file and not self._options.plugin_dirs:
            return
        while True:
            await asyncio.sleep(PERIOD)
            await self.check()

    async def check(self) -> None:
        """Check the files once, and take over a change that the previous check saw as well."""
        seen = await asyncio.to_thread(look, self._options)
        if seen == self._judged:
            self._candidate = None
        elif seen != self._candidate:
            self._candidate = seen
        else:
            self._candidate = None
            if await self.reload(seen) != CHANGING:
                self._judged = seen

    async def reload(self, seen: Seen | None = None) -> str:
        """Take over what the files contain now, and return the result.

        `seen`: the fingerprints of file and folders; modules are imported afresh if the folders are
        not those in force. `CHANGING`: the files are not as seen any more, nothing was done.
        """
        async with self._one_at_a_time:
            seen = await asyncio.to_thread(look, self._options) if seen is None else seen
            imports = None
            if seen[1] != self._folders_in_force:
                imports = FreshImports(self._options.plugin_dirs)
            generation = self.generation
            try:
                result = await in_own_task(self._reload(seen, imports), "reload")
            except CancelledFromWithinError as error:
                if self.generation != generation:
                    # Half of the change is in force: see `_take_over`.
                    raise
                result = self._refuse(FAILED, [str(error)])
            if imports is not None and result not in (SUCCESS, UNCHANGED):
                imports.undo()
            return result

    async def _reload(self, seen: Seen, imports: FreshImports | None) -> str:
        try:
            prepared = await self._make_ready(seen, imports)
        except RestartRequiredError as required:
            return self._refuse(RESTART_REQUIRED, required.reasons)
        except ConfigurationError as error:
            return self._refuse(INVALID, error.problems)
        except Exception as error:  # noqa: BLE001 - boundary
            # Nothing is replaced yet, so a fault of ours costs this change only.
            _log.exception("reload failed unexpectedly")
            return self._refuse(FAILED, [described(error, imports)])
        return CHANGING if prepared is None else await self._take_over(prepared, seen)

    async def _make_ready(self, seen: Seen, imports: FreshImports | None) -> Prepared | None:
        """Read the files, and let new plugins catch up; None: the files are not as seen any more.

        Nothing is replaced yet. When it returns, no cycle is under way.
        """
        found, seen_afterwards = await self._read(imports)
        if seen_afterwards != seen:
            return None
        if not isinstance(found, Read):
            raise ConfigurationError(found)
        pause = self.pause = LongestPause()
        with pause.part():
            prepared = self._prepare(found, imports)
        if prepared.differs:
            await self._catch_up(prepared, pause)
        return prepared

    async def _take_over(self, prepared: Prepared, seen: Seen) -> str:
        """Replace the profiles; an exception from here on ends the process.

        What is in force would be a mixture; after the restart it is whole again.
        """
        if not prepared.differs:
            self._put_in_force(seen)
            self._metrics.configuration_reload(UNCHANGED, refused=False)
            _log.info("files changed, the configuration in force is the same")
            return UNCHANGED
        declared, pause = self.wiring.state.permissions.declared, self.pause
        with pause.part():
            added = self._takeover.commit(prepared)
            self._overruns.all_on()
        self._put_in_force(seen)
        self.generation += 1
        self._metrics.configuration_reload(SUCCESS, refused=False)
        self._metrics.configuration_in_force(self.generation, pause.seconds)
        _log.info(
            "configuration taken over",
            generation=self.generation,
            file=self._file,
            longest_pause_ms=round(1e3 * pause.seconds, 1),
            longest_pause_cpu_ms=round(1e3 * pause.cpu_seconds, 1),
        )
        note = f"Took over generation {self.generation} of {self._file}"
        self._record("Normal", _REASONS[SUCCESS], "Reloading", note)
        if added:
            await self._queue_known(added)
        if self.wiring.state.permissions.declared != declared:
            self.wiring.reviewer.review_now()
        return SUCCESS

    def _put_in_force(self, seen: Seen) -> None:
        self._folders_in_force = seen[1]
        self.refusal = None

    async def _read(self, imports: FreshImports | None) -> tuple[Read | tuple[str, ...], Seen]:
        """Read the files, and look at them again afterwards."""
        if self._hanging is not None and self._hanging.is_alive():
            raise RestartRequiredError([STILL_HANGING])

        def work() -> tuple[Read | tuple[str, ...], Seen]:
            return read(self._options, imports), look(self._options)

        try:
            return await in_daemon_thread(work, "configuration reload", self.import_timeout)
        except HangingError as error:
            self._hanging = error.thread
            message = HANGING.format(seconds=f"{self.import_timeout:g}")
            raise ConfigurationError(message) from None

    def _prepare(self, found: Read, imports: FreshImports | None) -> Prepared:
        forgotten = () if imports is None else imports.forgotten
        try:
            return self._takeover.prepare(found.configuration, found.registry, forgotten)
        except (RestartRequiredError, ConfigurationError, KeyboardInterrupt):
            raise
        except BaseException as error:
            # Boundary: constructors of plugins run here. Nothing awaits, so that this is no
            # cancellation of ours.
            raise ConfigurationError(described(error, imports)) from error

    async def _catch_up(self, prepared: Prepared, pause: LongestPause) -> None:
        """Let new plugins catch up in slices, and return between two cycles."""
        loop = self.wiring.scheduling.loop
        try:
            # A constructor may have cancelled this task, which must show before the takeover.
            await asyncio.sleep(0)
            # Those of an earlier takeover.
            await self.wiring.state.extender_transport.close_removed()
            await loop.between_cycles()
            with pause.part():
                self._takeover.begin_catching_up(prepared)
            deliveries = self._takeover.deliver_known(prepared)
            left = True
            while left:
                with pause.part():
                    end = time.monotonic() + SLICE_SECONDS
                    while (left := next(deliveries, deliveries) is None) and time.monotonic() < end:
                        pass
                await asyncio.sleep(0)
            await loop.between_cycles()
        except BaseException:
            self._takeover.abandon(prepared)
            raise

    async def _queue_known(self, scheduler_names: list[str]) -> None:
        """Queue the pending pods of new profiles that the informer knows already."""
        pods = self._takeover.known_pods(scheduler_names)
        for start in range(0, len(pods), QUEUED_AT_ONCE):
            for pod in pods[start : start + QUEUED_AT_ONCE]:
                self.wiring.state.inbox.submit(self._takeover.queue_known, pod)
            await asyncio.sleep(0)

    def _refuse(self, result: str, problems: Sequence[str]) -> str:
        problems = tuple(redact_message(each) for each in problems)
        self.refusal = Refusal(result, problems, datetime.now(UTC).isoformat(timespec="seconds"))
        self._metrics.configuration_reload(result, refused=True)
        _log.error(
            "configuration not taken over, the one in force stays",
            reason=result,
            generation=self.generation,
            file=self._file,
            problems=list(problems),
        )
        note = f"Generation {self.generation} stays in force, refused {self._file}: "
        self._record("Warning", _REASONS[result], "Reloading", note + "; ".join(problems))
        return result

    def _record(self, kind: str, reason: str, action: str, note: str) -> None:
        election = self._takeover.configuration.effective.leader_election
        lease = ObjectReference(
            kind="Lease",
            api_version="coordination.k8s.io/v1",
            namespace=election.resource_namespace or own_namespace(),
            name=election.resource_name,
        )
        note = note if len(note) <= _MAX_NOTE else f"{note[: _MAX_NOTE - 3]}..."
        self.wiring.connections.events.record(lease, kind, reason, action, note)

    @property
    def _file(self) -> str:
        return self._options.config_file or "plugin folders"
