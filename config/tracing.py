"""The address to which traces are sent, from `kubestow.tracing.endpoint`."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

MILLION: Final = 1_000_000
"""Unit of `samplingRatePerMillion`."""

TRACES_PATH: Final = "/v1/traces"
"""Where a collector receives spans over HTTP (OTLP specification, "OTLP/HTTP Request")."""


def tracing_url(endpoint: str) -> str:
    """Return the whole URL for an endpoint: a URL with or without a path, or `host:port`.

    Raises:
        ValueError: it is neither; the text says what to write and shows no credentials.

    >>> tracing_url("collector.monitoring:4318")
    'http://collector.monitoring:4318/v1/traces'
    """
    if "@" in endpoint:
        # Before it is parsed: with a slash in the password, the error of the parser shows a part.
        raise ValueError(
            "it holds a user name or a password; put credentials into the environment variable "
            "OTEL_EXPORTER_OTLP_HEADERS, as for other OpenTelemetry exporters"
        )
    text = endpoint if "://" in endpoint else f"http://{endpoint}"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"{error}; {_EXPECTED}") from None
    if parts.scheme not in {"http", "https"}:
        raise ValueError(f'the scheme "{parts.scheme}" is not supported; {_EXPECTED}')
    if not parts.hostname or port == 0 or any(character.isspace() for character in endpoint):
        raise ValueError(f"it names no host; {_EXPECTED}")
    if parts.query or parts.fragment:
        raise ValueError(f"it has a query or a fragment; {_EXPECTED}")
    return text if parts.path.strip("/") else f"{parts.scheme}://{parts.netloc}{TRACES_PATH}"


_EXPECTED: Final = "write a URL such as http://collector:4318 (OTLP over HTTP, not gRPC)"
