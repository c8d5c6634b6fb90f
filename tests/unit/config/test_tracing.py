"""The address of a collector, as its parts are written."""

from __future__ import annotations

import pytest

from config import tracing_url


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("collector:4318", "http://collector:4318/v1/traces"),
        ("http://collector:4318", "http://collector:4318/v1/traces"),
        ("https://collector/", "https://collector/v1/traces"),
        ("https://collector/team/v1/traces", "https://collector/team/v1/traces"),
        ("[::1]:4318", "http://[::1]:4318/v1/traces"),
    ],
)
def test_an_endpoint_becomes_a_whole_url(endpoint: str, url: str) -> None:
    assert tracing_url(endpoint) == url


@pytest.mark.parametrize(
    ("endpoint", "problem"),
    [
        ("http://", "names no host"),
        ("http://collector:0", "names no host"),
        ("http://collector:port", "Port could not be cast"),
        ("http://col lector:4318", "names no host"),
        ("http://collector:4318?tenant=a", "has a query"),
        ("me:secret@collector:4318", "OTEL_EXPORTER_OTLP_HEADERS"),
        ("https://me:secret/key@collector:4318", "OTEL_EXPORTER_OTLP_HEADERS"),
    ],
)
def test_anything_else_is_refused_with_a_reason(endpoint: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem) as refused:
        tracing_url(endpoint)
    assert "secret" not in str(refused.value)
