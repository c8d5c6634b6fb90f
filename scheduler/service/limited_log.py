"""Rate limiting of log lines about events that clients can cause: one line per event and minute."""

from __future__ import annotations

from typing import Any, Final

import structlog

from scheduler.client.clock import Clock, SystemClock

PERIOD_SECONDS: Final = 60.0


class LimitedLog:
    """Logs each event at most once per period.

    The next line has the number of lines left out since (`suppressed`). Event texts are constants
    in our own code, so there are few.
    """

    def __init__(self, name: str, clock: Clock | None = None) -> None:
        self._log = structlog.get_logger(name)
        self._clock = clock or SystemClock()
        #: By event: when the next line may be written, and how many were left out since the last.
        self._events: dict[str, tuple[float, int]] = {}

    def warning(self, event: str, **fields: Any) -> None:
        """Log an error of a client, or an access that cannot be decided."""
        self._write("warning", event, fields)

    def exception(self, event: str, error: BaseException, **fields: Any) -> None:
        """Log an error of our own, with its traceback."""
        self._write("error", event, {**fields, "exc_info": error})

    def _write(self, level: str, event: str, fields: dict[str, Any]) -> None:
        now = self._clock.monotonic()
        due, suppressed = self._events.get(event, (now, 0))
        if now < due:
            self._events[event] = (due, suppressed + 1)
            return
        self._events[event] = (now + PERIOD_SECONDS, 0)
        if suppressed:
            fields["suppressed"] = suppressed
        getattr(self._log, level)(event, **fields)
