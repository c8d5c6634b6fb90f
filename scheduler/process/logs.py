"""Logs: structlog as JSON lines or coloured text, with a level that can be changed while running.

Everything goes to one stream: our own lines and those of libraries that use `logging`. Invariant:
no line carries a character that controls a terminal, or what `scheduler.sanitizing.redaction`
recognises as a credential, at any level, and tracebacks never show local variables.

A process has one log: its level is that of the root logger of `logging`. Call `configure` once,
before the first line.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Sequence
from typing import Any, Final, TextIO

import msgspec
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from scheduler.sanitizing.escaping import escaped, escaped_json
from scheduler.sanitizing.redaction import is_secret_name, may_hold_credential, redact_field
from scheduler.service.options import LogFormat

DEBUG_VERBOSITY: Final = 4
"""`-v` from which on debug lines are written; kube-scheduler's own lines about single pods begin
there too."""

WARNINGS: Final = -1
"""Verbosity of commands that are no service: warnings and errors only."""
_LOW_LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO}

MAX_TEXT: Final = 64 * 1024
"""Characters of one text in a line; the rest is cut off."""
_LINES: Final = frozenset({"exception", "stack"})
_SINGLE: Final = frozenset({str, int, float, bool, type(None)})
"""Types of values without parts."""
_STACK: Final = structlog.processors.StackInfoRenderer()


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
    processors: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        _write_traceback,
        # After exceptions became text, which may quote a header.
        redact,
        _Stamp(),
        *(_text_renderer(colours=terminal) if text else [_to_json]),
    ]
    structlog.configure(
        processors=[drop_below_level, *processors],
        # Passes every level: loggers are cached, and the level may change (`drop_below_level`).
        wrapper_class=structlog.make_filtering_bound_logger(logging.NOTSET),
        logger_factory=lambda *names: _StreamLogger(names[0] if names else "", stream),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_Formatter(processors))
    logging.root.handlers[:] = [handler]
    logging.captureWarnings(capture=True)
    set_verbosity(verbosity)


def set_verbosity(verbosity: int) -> None:
    """Set the verbosity: below 0 logs warnings and above, below 4 info, from 4 on debug as well."""
    level = logging.DEBUG if verbosity >= DEBUG_VERBOSITY else logging.INFO
    logging.root.setLevel(logging.WARNING if verbosity <= WARNINGS else level)


class _StreamLogger(structlog.PrintLogger):
    """Writer of lines with a name, which `_Stamp` reads."""

    def __init__(self, name: str, stream: TextIO) -> None:
        super().__init__(stream)
        self.name = name


class _Formatter(logging.Formatter):
    """Writes a line of a library as one of ours."""

    def __init__(self, processors: Sequence[Processor]) -> None:
        super().__init__()
        self._processors = processors

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: Any = {"event": record.getMessage()}
        if record.exc_info:
            line["exc_info"] = record.exc_info
        if record.stack_info:
            line["stack"] = record.stack_info
        for process in self._processors:
            line = process(record, record.levelname.lower(), line)
        return str(line)


class _Stamp:
    """Adds time, level and name of the logger."""

    def __init__(self) -> None:
        #: Of one second to the next only the microseconds differ.
        self._second = 0
        self._text = ""

    def __call__(self, logger: WrappedLogger, method: str, fields: EventDict) -> EventDict:
        second, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
        if second != self._second:
            self._text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
            self._second = second
        fields["ts"] = f"{self._text}.{nanoseconds // 1000:06d}Z"
        fields["level"] = "error" if method == "exception" else method
        fields["logger"] = logger.name
        return fields


def drop_below_level(_: WrappedLogger, method: str, fields: EventDict) -> EventDict:
    """Drop a line below the level in force. Raises structlog.DropEvent."""
    level = _LOW_LEVELS.get(method)
    if level is not None and not logging.root.isEnabledFor(level):
        raise structlog.DropEvent
    return fields


def _write_traceback(logger: WrappedLogger, method: str, fields: EventDict) -> EventDict:
    """Replace `exc_info` and `stack_info` by text."""
    if "stack_info" in fields:
        fields = _STACK(logger, method, fields)
    if "exc_info" in fields:
        fields = structlog.processors.format_exc_info(logger, method, fields)
    return fields


def _text_renderer(*, colours: bool) -> list[Processor]:
    return [
        _escape,
        structlog.dev.ConsoleRenderer(
            colors=colours,
            timestamp_key="ts",
            exception_formatter=structlog.dev.plain_traceback,
        ),
    ]


def _to_json(_: WrappedLogger, __: str, fields: EventDict) -> str:
    # What every line has comes first: people read JSON logs too.
    take = fields.pop
    line = {
        "ts": take("ts"),
        "level": take("level"),
        "logger": take("logger"),
        "msg": take("event"),
    }
    take("msg", None)
    line |= fields
    try:
        return escaped_json(msgspec.json.encode(line, enc_hook=str)).decode()
    except UnicodeEncodeError:
        # Half a surrogate pair in a plugin's words; the standard library escapes it.
        return json.dumps(line, default=str)


def redact(_: WrappedLogger, __: str, fields: EventDict) -> EventDict:
    """Replace credentials, and truncate very long texts.

    >>> redact(None, "info", {"token": "x", "error": "sent Bearer abcdefgh.ijk to y"})
    {'token': '[redacted]', 'error': 'sent Bearer [redacted] to y'}
    """
    if _is_harmless(fields):
        return fields
    for name, value in fields.items():
        fields[name] = redact_field(name, _cut(value))
    return fields


def _is_harmless(fields: EventDict) -> bool:
    """Whether nothing is to be replaced; looks at all texts at once, as most lines are harmless."""
    if not _SINGLE.issuperset(map(type, fields.values())) or any(map(is_secret_name, fields)):
        return False
    text = "\n".join(map(str, fields.values()))
    return len(text) <= MAX_TEXT and not may_hold_credential(text)


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
