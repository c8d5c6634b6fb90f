"""Logs: structlog as JSON lines or coloured text, with a level that can be changed while running.

Everything goes to one stream: our own lines and those of libraries that use `logging`. Invariant:
no line carries a character that controls a terminal, or what `scheduler.text.redaction` recognises
as a credential, at any level, and tracebacks never show local variables.

A process has one log: its level is that of the root logger of `logging`. Call `configure` once,
before the first line.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import Any, Final, TextIO

import msgspec
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from scheduler.service.options import LogFormat
from scheduler.text.escaping import escaped, escaped_json
from scheduler.text.redaction import redact_field

DEBUG_VERBOSITY: Final = 4
"""`-v` from which on debug lines are written; kube-scheduler's own lines about single pods begin
there too."""

MAX_TEXT: Final = 64 * 1024
"""Characters of one text in a line; the rest is cut off."""
_OURS: Final = frozenset({"ts", "level", "logger"})
_LINES: Final = frozenset({"exception", "stack"})
_FIRST: Final = ("ts", "level", "logger", "msg")


def configure(
    format: LogFormat | None = None,  # noqa: A002  (the flag's name)
    verbosity: int = 0,
    stream: TextIO | None = None,
) -> None:
    """Set up the log.

    Args:
        format: `text` or `json`; None is text on a terminal and JSON elsewhere.
        verbosity: as `set_verbosity`.
        stream: where lines go; standard error by default, as kube-scheduler.
    """
    stream = sys.stderr if stream is None else stream
    terminal = stream.isatty()
    text = format == "text" or (format is None and terminal)
    before: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
        structlog.processors.StackInfoRenderer(),
    ]
    after: list[Processor] = _text_renderer(colours=terminal) if text else _json_renderer()
    structlog.configure(
        processors=[drop_below_level, *before, *after],
        # Passes every level: loggers are cached, and the level may change (`drop_below_level`).
        wrapper_class=structlog.make_filtering_bound_logger(logging.NOTSET),
        logger_factory=lambda *names: _StreamLogger(names[0] if names else "", stream),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*before, structlog.stdlib.PositionalArgumentsFormatter()],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *after],
        )
    )
    logging.root.handlers[:] = [handler]
    logging.captureWarnings(capture=True)
    set_verbosity(verbosity)


def set_verbosity(verbosity: int) -> None:
    """Set the verbosity: below 4 logs info and above, from 4 on debug as well."""
    logging.root.setLevel(logging.DEBUG if verbosity >= DEBUG_VERBOSITY else logging.INFO)


class _StreamLogger(structlog.PrintLogger):
    """Writer of lines with a name, which `add_logger_name` reads."""

    def __init__(self, name: str, stream: TextIO) -> None:
        super().__init__(stream)
        self.name = name


def drop_below_level(_: WrappedLogger, method: str, fields: EventDict) -> EventDict:
    """Drop a debug line unless the level in force has them. Raises structlog.DropEvent."""
    if method == "debug" and not logging.root.isEnabledFor(logging.DEBUG):
        raise structlog.DropEvent
    return fields


def _text_renderer(*, colours: bool) -> list[Processor]:
    return [
        structlog.processors.format_exc_info,
        redact,
        _escape,
        structlog.dev.ConsoleRenderer(
            colors=colours,
            timestamp_key="ts",
            exception_formatter=structlog.dev.plain_traceback,
        ),
    ]


def _json_renderer() -> list[Processor]:
    return [
        structlog.processors.format_exc_info,
        structlog.processors.EventRenamer("msg"),
        # After exceptions became text, which may quote a header.
        redact,
        structlog.processors.JSONRenderer(serializer=_to_json),
    ]


def _to_json(fields: dict[str, Any], **_: Any) -> str:
    # What every line has comes first: people read JSON logs too.
    first = {name: fields.pop(name) for name in _FIRST if name in fields}
    try:
        return escaped_json(msgspec.json.encode(first | fields, enc_hook=str)).decode()
    except UnicodeEncodeError:
        # Half a surrogate pair in a plugin's words; the standard library escapes it.
        return json.dumps(first | fields, default=str)


def redact(_: WrappedLogger, __: str, fields: EventDict) -> EventDict:
    """Replace credentials, and truncate very long texts.

    >>> redact(None, "info", {"token": "x", "error": "sent Bearer abcdefgh.ijk to y"})
    {'token': '[redacted]', 'error': 'sent Bearer [redacted] to y'}
    """
    for name, value in fields.items():
        if name in _OURS:
            continue
        fields[name] = redact_field(name, _cut(value))
    return fields


def _escape(_: WrappedLogger, __: str, fields: EventDict) -> EventDict:
    r"""Escape what could control a terminal; a line end remains in tracebacks only.

    >>> _escape(None, "info", {"event": "a\nb", "pod": "\x9b2J"})
    {'event': 'a\\nb', 'pod': '\\x9b2J'}
    """
    for name, value in fields.items():
        # The renderer writes the repr() of anything else.
        if isinstance(value, str) and not value.isprintable():
            text = escaped(value)
            fields[name] = text if name in _LINES else text.replace("\n", "\\n")
    return fields


def _cut(value: object) -> object:
    if isinstance(value, str) and len(value) > MAX_TEXT:
        return f"{value[:MAX_TEXT]}... ({len(value) - MAX_TEXT} more)"
    return value
