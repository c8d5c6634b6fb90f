"""A server that cannot be reached is one line now and then, however many notice it."""

from __future__ import annotations

import pytest
import structlog

from scheduler.client.errors import ApiError, ConnectionFailed, StatusBody
from scheduler.client.outages import (
    ACCEPTED,
    HTTPS_ONLY,
    NO_API,
    PERIOD_SECONDS,
    REACHED,
    UNACCEPTED,
    UNREACHED,
    OutageLog,
    is_outage,
)
from tests.unit.client.virtual_clock import ManualClock


def refused(plural: str) -> ConnectionFailed:
    return ConnectionFailed("GET", f"/api/v1/{plural}", "connection refused", sent=False)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def test_many_failures_are_a_line_now_and_then_and_one_when_it_is_over(clock: ManualClock) -> None:
    outages = OutageLog(clock, "https://api:6443", "kubeconfig x")
    with structlog.testing.capture_logs() as lines:
        for _ in range(40):
            for plural in ("pods", "nodes", "services"):
                outages.failed(plural, refused(plural))
            clock.jump(PERIOD_SECONDS / 16)
    assert len(lines) == 3
    assert {line["server"] for line in lines} == {"https://api:6443"}
    assert lines[0]["affected"] == ["pods"]
    assert lines[-1]["affected"] == ["pods", "nodes", "services"]
    assert lines[-1]["seconds"] == 2 * PERIOD_SECONDS
    assert all("connection refused" in line["error"] for line in lines)
    with structlog.testing.capture_logs() as lines:
        for plural in ("pods", "pods", "nodes"):
            outages.recovered(plural)
        assert lines == []
        outages.recovered("services")
    (line,) = lines
    assert (line["event"], line["failures"]) == (REACHED, 120)


def test_lines_about_a_long_outage_become_rare(clock: ManualClock) -> None:
    outages = OutageLog(clock, "https://api:6443", "kubeconfig x", "kubectl --context=y")
    with structlog.testing.capture_logs() as lines:
        for _ in range(1000):
            outages.failed("pods", refused("pods"))
            clock.jump(1.0)
    assert [line["seconds"] for line in lines] == [0, 10, 20, 40, 80, 160, 320, 620, 920]
    assert {line["event"] for line in lines} == {UNREACHED.format(kubectl="kubectl --context=y")}


def test_credentials_that_are_not_accepted_are_one_line_per_period_as_well(
    clock: ManualClock,
) -> None:
    kubectl = "kubectl --kubeconfig=x --context=y"
    outages = OutageLog(clock, "https://api:6443", "kubeconfig x", kubectl)
    error = ApiError("GET", "/api/v1/pods", status=401, body=StatusBody())
    assert is_outage(error)
    assert not is_outage(ApiError("GET", "/api/v1/pods", status=403, body=StatusBody()))
    with structlog.testing.capture_logs() as lines:
        for plural in ("pods", "nodes", "pods"):
            outages.failed(plural, error)
        for plural in ("pods", "nodes"):
            outages.recovered(plural)
    assert [line["event"] for line in lines] == [UNACCEPTED.format(kubectl=kubectl), ACCEPTED]
    assert lines[0]["configuration"] == "kubeconfig x"


def test_a_server_without_nodes_is_no_api_server(clock: ManualClock) -> None:
    outages = OutageLog(clock, "https://api:6443", "kubeconfig x")
    error = ApiError("GET", "/api/v1/nodes", status=404, body=StatusBody())
    assert is_outage(error)
    assert not is_outage(ApiError("GET", "/apis/x/v1/racks", status=404, body=StatusBody()))
    with structlog.testing.capture_logs() as lines:
        outages.failed("nodes", error)
        outages.recovered("nodes")
    assert [line["event"] for line in lines] == [NO_API.format(kubectl="kubectl"), REACHED]


def test_the_next_outage_is_logged_at_once(clock: ManualClock) -> None:
    outages = OutageLog(clock, "https://api:6443", "kubeconfig x")
    with structlog.testing.capture_logs() as lines:
        for _ in range(2):
            outages.failed("pods", refused("pods"))
            outages.recovered("pods")
    assert [line["failures"] for line in lines] == [1, 1, 1, 1]


def test_a_client_that_was_never_affected_logs_nothing(clock: ManualClock) -> None:
    with structlog.testing.capture_logs() as lines:
        OutageLog(clock, "https://api:6443", "kubeconfig x").recovered("pods")
    assert lines == []


def test_http_at_a_port_for_https_is_one_line(clock: ManualClock) -> None:
    outages = OutageLog(clock, "http://api:6443", "kubeconfig x")
    body = StatusBody(message="Client sent an HTTP request to an HTTPS server.")
    error = ApiError("GET", "/apis/apps/v1/replicasets", status=400, body=body)
    assert is_outage(error)
    other = StatusBody(message="limit is no number")
    assert not is_outage(ApiError("GET", "/api/v1/pods", status=400, body=other))
    with structlog.testing.capture_logs() as lines:
        for plural in ("pods", "nodes", "pods"):
            outages.failed(plural, error)
    assert [line["event"] for line in lines] == [HTTPS_ONLY.format(kubectl="kubectl")]
