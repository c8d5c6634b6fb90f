"""Start of tracing: its conditions, the environment, and the error without the libraries."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from structlog.testing import capture_logs

from config import TracingConfiguration
from scheduler import tracing
from scheduler.framework import ConfigurationError
from scheduler.tracing.start import Tracing, start
from tests import otlp_receiver
from tests.otlp_receiver import MISSING, REQUIRE_VARIABLE, require_opentelemetry

EVERY = TracingConfiguration(endpoint="127.0.0.1:1", sampling_rate_per_million=1_000_000)


@contextmanager
def started(settings: TracingConfiguration, environ: dict[str, str]) -> Iterator[Tracing]:
    pytest.importorskip("opentelemetry.sdk", reason=MISSING)
    made = start(settings, environ)
    assert made is not None
    yield made
    made.processor.shutdown()


@pytest.mark.slow
def test_nothing_of_opentelemetry_is_imported_without_the_stanza() -> None:
    code = (
        "import sys; import scheduler.process.application; "
        "from scheduler.tracing.start import start; assert start(None) is None; "
        "print([each for each in sys.modules if each.split('.')[0] == 'opentelemetry'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_missing_library_is_one_error_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("attempts", "export"):
        monkeypatch.delitem(sys.modules, f"scheduler.tracing.{name}", raising=False)
        monkeypatch.delattr(tracing, name, raising=False)
    # As if it were not installed.
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(ConfigurationError, match=r"pip install opentelemetry-sdk") as refused:
        start(EVERY, {})
    assert "kubestow.tracing is set" in str(refused.value)


@pytest.mark.parametrize(
    ("rate", "environ", "said"),
    [
        (None, {}, "samplingRatePerMillion is 0 or not set"),
        (0, {"OTEL_TRACES_SAMPLER": "always_on"}, "samplingRatePerMillion is 0 or not set"),
        (1_000_000, {"OTEL_SDK_DISABLED": "true"}, "OTEL_SDK_DISABLED"),
    ],
)
def test_nothing_starts_where_nothing_can_be_traced(
    rate: int | None, environ: dict[str, str], said: str
) -> None:
    pytest.importorskip("opentelemetry.sdk", reason=MISSING)
    with capture_logs() as lines:
        assert start(TracingConfiguration(sampling_rate_per_million=rate), environ) is None
    assert said in lines[0]["event"]


def test_the_sampler_of_the_environment_counts_where_no_rate_is_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    environ = {"OTEL_TRACES_SAMPLER": "always_off"}
    settings = TracingConfiguration(endpoint="127.0.0.1:1")
    with started(settings, environ) as made:
        assert not made.attempts.tracer.start_span("any").is_recording()
    with started(EVERY, environ) as made:
        assert made.attempts.tracer.start_span("any").is_recording()


def test_a_protocol_other_than_http_is_mentioned() -> None:
    with (
        capture_logs() as lines,
        started(EVERY, {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}),
    ):
        assert [line["value"] for line in lines] == ["grpc"]


@pytest.mark.parametrize(
    "environ",
    [
        {"OTEL_EXPORTER_OTLP_PROTOCOL": ""},
        {
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
            "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
        },
    ],
)
def test_a_protocol_that_does_not_apply_to_traces_is_not_mentioned(
    environ: dict[str, str],
) -> None:
    with capture_logs() as lines, started(EVERY, environ):
        assert lines == []


def test_a_malformed_header_is_mentioned_without_its_content(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-team:sesame-open")
    with capture_logs() as lines, started(EVERY, {}):
        (line,) = lines
    assert "OTEL_EXPORTER_OTLP_HEADERS" in line["event"]
    assert "sesame" not in str(lines)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4096"),
        ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "-1"),
    ],
)
def test_a_wrong_variable_of_the_environment_is_an_error(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    pytest.importorskip("opentelemetry.sdk", reason=MISSING)
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError, match="check the environment variables OTEL_"):
        start(EVERY, {})


@pytest.mark.slow
def test_an_unknown_propagator_is_an_error() -> None:
    """In a process of its own, because the library reads the variable when it is imported."""
    pytest.importorskip("opentelemetry.sdk", reason=MISSING)
    code = (
        "from config import TracingConfiguration as T; "
        "from scheduler.framework import ConfigurationError\n"
        "from scheduler.tracing.start import start\n"
        "try: start(T(sampling_rate_per_million=1))\n"
        "except ConfigurationError as error: print(error)"
    )
    environ = {**os.environ, "OTEL_PROPAGATORS": "tracecontext,b5"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environ
    )
    assert "b5" in done.stdout
    assert "check the environment variables OTEL_" in done.stdout


def test_missing_libraries_are_an_error_only_where_they_are_required(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(otlp_receiver, "DISTRIBUTIONS", ("kubestow", "kubestow-no-such-library"))
    monkeypatch.setenv(REQUIRE_VARIABLE, "")
    require_opentelemetry()
    monkeypatch.setenv(REQUIRE_VARIABLE, "1")
    with pytest.raises(pytest.UsageError, match="needs the extra otel"):
        require_opentelemetry()
