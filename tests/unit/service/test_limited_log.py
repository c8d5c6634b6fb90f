"""The rate of log lines that clients can cause."""

from __future__ import annotations

from structlog.testing import capture_logs

from scheduler.service.limited_log import PERIOD_SECONDS, LimitedLog
from tests.unit.client.virtual_clock import ManualClock


def test_an_event_is_written_once_in_a_period_and_the_rest_counted() -> None:
    clock = ManualClock()
    log = LimitedLog("x", clock)
    with capture_logs() as lines:
        for number in range(5):
            log.warning("malformed request", client=number)
        log.warning("too many connections")
        clock.jump(PERIOD_SECONDS)
        log.warning("malformed request", client=9)
        clock.jump(PERIOD_SECONDS)
        log.warning("malformed request", client=10)
    assert [(line["event"], line.get("client"), line.get("suppressed")) for line in lines] == [
        ("malformed request", 0, None),
        ("too many connections", None, None),
        ("malformed request", 9, 4),
        ("malformed request", 10, None),
    ]
