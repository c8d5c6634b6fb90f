"""The annotation of shared reservations: what is read, what is written, what is let go."""

from __future__ import annotations

import pytest

from scheduler.api.meta import second_time
from scheduler.controllers.quota_usage.inflight import (
    ANNOTATION,
    EXPIRY_SECONDS,
    read,
    reservation,
    text,
)

NOW = 1_700_000_000.0
KEY = "deferred.kubestow.io/requests.cpu-millis"


def test_what_is_written_can_be_read() -> None:
    entries = {uid: reservation({KEY: "1500"}, "me", NOW) for uid in ("b", "a")}
    written = text(entries)
    assert written is not None
    assert read({ANNOTATION: written}, NOW) == entries
    assert written.index('"a"') < written.index('"b"'), "one text for one set"


def test_no_entry_removes_the_annotation() -> None:
    assert text({}) is None
    assert read({}, NOW) == {}


def test_an_entry_expires() -> None:
    made = reservation({KEY: "1"}, "dead", NOW)
    assert not made.expired(NOW + EXPIRY_SECONDS - 1)
    assert made.expired(NOW + EXPIRY_SECONDS)
    written = text({"u": made})
    assert written is not None
    assert read({ANNOTATION: written}, NOW + EXPIRY_SECONDS) == {}


@pytest.mark.parametrize(
    "damaged",
    ["", "{", "[]", "3", '{"u": null}', '{"u": {"holder": "x"}}',
     '{"u": {"amounts": {}, "holder": "x", "time": "yesterday"}}',
     f'{{"u": {"[" * 100_000}{"]" * 100_000}}}',
     f'{{"u": {{"x": {"[" * 100_000}{"]" * 100_000}}}}}'],
)  # fmt: skip
def test_what_cannot_be_read_counts_as_nothing(damaged: str) -> None:
    assert read({ANNOTATION: damaged}, NOW) == {}


def test_a_damaged_entry_takes_no_other_with_it() -> None:
    good = f'{{"amounts": {{"{KEY}": "1"}}, "holder": "x", "time": "{second_time(NOW)}"}}'
    assert read({ANNOTATION: f'{{"bad": 7, "good": {good}}}'}, NOW).keys() == {"good"}
