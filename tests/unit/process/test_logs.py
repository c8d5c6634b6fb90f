"""One stream, two formats, a level that changes while running, and no credentials."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
import structlog

from scheduler.process import logs
from scheduler.service.options import LogFormat


class Stream(io.StringIO):
    def __init__(self, terminal: bool = False) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.getvalue().splitlines()]


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """Restore the log afterwards: it is the process's, which other tests share."""
    root = logging.root
    before, level = root.handlers[:], root.level
    yield
    logging.captureWarnings(capture=False)
    root.handlers[:] = before
    root.setLevel(level)
    structlog.reset_defaults()


def test_text_that_is_not_unicode_is_logged() -> None:
    """Half a surrogate pair, as JSON of an annotation, or a file name, may hold."""
    stream = Stream()
    logs.configure(stream=stream)
    structlog.get_logger("scheduler.here").info("odd", message="team \udcff", signature=frozenset)
    (line,) = stream.lines()
    assert line["message"] == "team \udcff"


def test_json_lines_carry_time_level_logger_and_message() -> None:
    stream = Stream()
    logs.configure(stream=stream)
    structlog.get_logger("scheduler.here").info(
        "bound", pod="ns/a", attempts=2, signature=frozenset
    )
    (line,) = stream.lines()
    assert list(line)[:4] == ["ts", "level", "logger", "msg"]
    assert line.pop("ts").endswith("Z")
    assert line == {
        "level": "info",
        "logger": "scheduler.here",
        "msg": "bound",
        "pod": "ns/a",
        "attempts": 2,
        "signature": "<class 'frozenset'>",
    }


@pytest.mark.parametrize(
    ("format_", "terminal", "is_json", "coloured"),
    [
        (None, False, True, False),
        (None, True, False, True),
        ("text", False, False, False),
        ("text", True, False, True),
        ("json", True, True, False),
    ],
)
def test_the_format_follows_the_terminal_unless_given(
    format_: LogFormat | None, terminal: bool, is_json: bool, coloured: bool
) -> None:
    stream = Stream(terminal)
    logs.configure(format_, stream=stream)
    structlog.get_logger("x").warning("careful")
    text = stream.getvalue()
    assert text.startswith("{") is is_json
    assert ("\x1b[" in text) is coloured
    assert "careful" in text


@pytest.mark.parametrize("is_ours", [True, False], ids=["structlog", "logging"])
def test_the_level_changes_while_running(is_ours: bool) -> None:
    stream = Stream()
    logs.configure(verbosity=3, stream=stream)
    logger: Any = structlog.get_logger("x") if is_ours else logging.getLogger("some.library")
    logger.debug("one")
    logs.set_verbosity(4)
    assert logging.root.level == logging.DEBUG
    logger.debug("two")
    logs.set_verbosity(2)
    logger.debug("three")
    assert [line["msg"] for line in stream.lines()] == ["two"]


def test_lines_of_libraries_look_like_ours() -> None:
    stream = Stream()
    logs.configure(stream=stream)
    logging.getLogger("aiohttp.server").error("%s of %d", "part", 2)
    (line,) = stream.lines()
    assert (line["logger"], line["level"], line["msg"]) == ("aiohttp.server", "error", "part of 2")


def test_a_library_may_have_a_level_of_its_own() -> None:
    stream = Stream()
    logs.configure(verbosity=2, stream=stream)
    library = logging.getLogger("some.chatty.library")
    library.setLevel(logging.DEBUG)
    try:
        library.debug("detail")
    finally:
        library.setLevel(logging.NOTSET)
    assert [(line["level"], line["msg"]) for line in stream.lines()] == [("debug", "detail")]


@pytest.mark.parametrize("format_", ["text", "json"])
@pytest.mark.parametrize("is_ours", [True, False], ids=["structlog", "logging"])
def test_an_exception_shows_where_it_was_raised_and_no_local_variable(
    format_: LogFormat, is_ours: bool
) -> None:
    stream = Stream()
    logs.configure(format_, stream=stream)
    logger: Any = structlog.get_logger("x") if is_ours else logging.getLogger("some.library")
    secret = "hunter" + str(2)
    try:
        int("x" + secret[:0])
    except ValueError:
        logger.exception("broken")
    text = stream.getvalue()
    assert "ValueError: invalid literal" in text
    assert "test_logs.py" in text
    assert "hunter2" not in text


def test_the_time_of_a_line_is_that_of_its_event_in_microseconds() -> None:
    stream = Stream()
    logs.configure(stream=stream)
    before = datetime.now(UTC)
    for _ in range(3):
        structlog.get_logger("x").info("now")
    times = [datetime.fromisoformat(line["ts"]) for line in stream.lines()]
    assert before <= times[0] <= times[1] <= times[2] <= datetime.now(UTC)


@pytest.mark.parametrize("is_ours", [True, False], ids=["structlog", "logging"])
def test_a_stack_is_written_where_it_was_wanted(is_ours: bool) -> None:
    stream = Stream()
    logs.configure(stream=stream)
    logger: Any = structlog.get_logger("x") if is_ours else logging.getLogger("some.library")
    logger.warning("here", stack_info=True)
    (line,) = stream.lines()
    assert "test_a_stack_is_written" in line["stack"]
    assert set(line) == {"ts", "level", "logger", "msg", "stack"}


@pytest.mark.parametrize("value", ["s3cret", 12345, b"s3cret", ["s3cret"]])
def test_a_credential_among_harmless_fields_is_found(value: object) -> None:
    stream = Stream()
    logs.configure(stream=stream)
    structlog.get_logger("x").info("a", pod="ns/a", attempts=1, score=None, password=value)
    (line,) = stream.lines()
    assert line["password"] == "[redacted]"


@pytest.mark.parametrize("format_", ["text", "json"])
def test_no_credential_is_written(format_: LogFormat) -> None:
    stream = Stream()
    logs.configure(format_, stream=stream)
    logger = structlog.get_logger("x")
    logger.info("a", token="s3cret-1", Authorization="s3cret-2", client_secret="s3cret-3")
    logger.info("sent Bearer s3cret-44444", header="basic s3cret-555555")
    logging.getLogger("y").warning("got bearer %s", "s3cret-66666")
    try:
        raise RuntimeError("Bearer s3cret-77777")
    except RuntimeError:
        logger.exception("failed")
    text = stream.getvalue()
    assert "s3cret" not in text
    assert text.count("[redacted]") == 8  # the traceback quotes its source line


def test_texts_that_only_mention_tokens_stay() -> None:
    fields = {"event": "token review failed", "tokens": 3, "key": "ns/pod"}
    assert logs.redact(None, "info", dict(fields)) == fields


def test_arguments_fill_the_message() -> None:
    stream = Stream()
    logs.configure(stream=stream)
    structlog.get_logger("x").error("%d of %d", 1, 2)
    structlog.get_logger("x").critical("100%")
    assert [line["msg"] for line in stream.lines()] == ["1 of 2", "100%"]


def test_a_text_without_end_is_cut() -> None:
    stream = Stream()
    logs.configure(stream=stream)
    structlog.get_logger("x").info("long", body="a" * (logs.MAX_TEXT + 7), nested={"token": "b"})
    (line,) = stream.lines()
    assert line["body"] == "a" * logs.MAX_TEXT + "... (7 more)"
    assert line["nested"] == {"token": "[redacted]"}


@pytest.mark.parametrize("format_", ["text", "json"])
def test_what_a_tenant_wrote_controls_no_terminal_and_forges_no_line(format_: LogFormat) -> None:
    hostile = "a\x1b]0;t\x07\x9b2J\x7f\u202eb\u2028\n2026-01-01 forged"
    stream = Stream()
    logs.configure(format_, stream=stream)
    ours = structlog.get_logger("scheduler.here")
    ours.info(f"event {hostile}", pod=hostile, many=[hostile], by_name={hostile: hostile})
    logging.getLogger("library").warning("got %s", hostile)
    try:
        raise ValueError(hostile)
    except ValueError:
        ours.exception("failed")
    text = stream.getvalue()
    assert [hex(ord(each)) for each in text if not each.isprintable() and each != "\n"] == []
    # Only the traceback has lines of its own; in JSON it has none either.
    forged = [line for line in text.splitlines() if line.startswith("2026-01-01 forged")]
    assert len(forged) == (1 if format_ == "text" else 0)
    if format_ == "json":
        assert stream.lines()[0]["pod"] == hostile
