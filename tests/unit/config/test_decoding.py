"""Decoding trees into Structs: every mistake is reported with its path; nothing is converted."""

from __future__ import annotations

import datetime as dt
from enum import Enum
from typing import Annotated, Any, Literal

import msgspec
import pytest

from config.decoding import Decoder
from config.document import parse
from scheduler.api.meta import LabelSelector


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Inner(msgspec.Struct, rename="camel"):
    needed: str
    some_number: int = 7


class Left(msgspec.Struct, tag="left"):
    x: int = 0


class Right(msgspec.Struct, tag="right"):
    y: int = 0


class Sample(msgspec.Struct, rename="camel", kw_only=True):
    flag: bool = False
    count: Annotated[int, msgspec.Meta(ge=0, le=10)] = 1
    even: Annotated[int, msgspec.Meta(multiple_of=2)] = 2
    share: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 0.5
    label: Annotated[str, msgspec.Meta(min_length=1, max_length=5, pattern="^[a-z]*$")] = "a"
    wait_for: dt.timedelta = dt.timedelta(seconds=1)
    maybe_wait: dt.timedelta | None = dt.timedelta(seconds=2)
    colour: Colour = Colour.RED
    mode: Literal["fast", "slow"] = "fast"
    names: tuple[str, ...] = ()
    few: Annotated[list[int], msgspec.Meta(max_length=2)] = []
    unique: frozenset[str] = frozenset()
    pair: tuple[int, str] = (0, "")
    weights: dict[str, int] = {}
    inner: Inner | None = None
    inners: list[Inner] = []
    either: int | str = 0
    side: Left | Right | None = None
    selector: LabelSelector | None = None
    anything: Any = None
    day: dt.date | None = None


def decode(text: str) -> tuple[Sample | None, list[str]]:
    document = parse(text)
    sample = Decoder(document.errors).struct(Sample, document.root, "")
    return sample, [line.removesuffix(" (line 1)") for line in document.errors.lines()]


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("flag: true", "flag", True),
        ("count: 10", "count", 10),
        ("count: 2.0", "count", 2),
        ("share: 0.25", "share", 0.25),
        ("label: abc", "label", "abc"),
        ("waitFor: 1m30s", "wait_for", dt.timedelta(seconds=90)),
        ("maybeWait: 10ms", "maybe_wait", dt.timedelta(milliseconds=10)),
        ("maybeWait: null", "maybe_wait", dt.timedelta(seconds=2)),
        ("colour: blue", "colour", Colour.BLUE),
        ("mode: slow", "mode", "slow"),
        ("names: [a, b]", "names", ("a", "b")),
        ("unique: [a, a]", "unique", frozenset({"a"})),
        ("pair: [1, x]", "pair", (1, "x")),
        ("weights: {cpu: 2}", "weights", {"cpu": 2}),
        ("inner: {needed: x}", "inner", Inner("x")),
        ("inners: [{needed: x, someNumber: 1}]", "inners", [Inner("x", 1)]),
        ("either: 5", "either", 5),
        ("either: five", "either", "five"),
        ("side: {type: right, y: 2}", "side", Right(2)),
        ("anything: {a: [1]}", "anything", {"a": [1]}),
        ("day: '2024-02-03'", "day", dt.date(2024, 2, 3)),
        ("flag: null", "flag", False),
    ],
)
def test_good_values(text: str, field: str, value: object) -> None:
    sample, problems = decode(text)
    assert problems == []
    assert getattr(sample, field) == value


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("flag: 1", "flag: must be true or false, not 1"),
        ("flag: 'true'", 'flag: must be true or false, not the text "true"'),
        ("count: '5'", 'count: must be a whole number, not the text "5"'),
        ("count: true", "count: must be a whole number, not true"),
        ("count: 1.5", "count: must be a whole number, not 1.5"),
        ("count: 11", "count: Invalid value: 11: must be at most 10"),
        ("count: -1", "count: Invalid value: -1: must be at least 0"),
        ("even: 3", "even: Invalid value: 3: must be a multiple of 2"),
        ("share: 0", "share: Invalid value: 0: must be greater than 0"),
        ("share: 1", "share: Invalid value: 1: must be less than 1"),
        ("label: yes", "label: must be text, not true; put quotes around it"),
        ("label: ''", "label: Required value"),
        ("label: abcdef", 'label: Invalid value: "abcdef": must have at most 5 characters'),
        ("label: A", 'label: Invalid value: "A": must match ^[a-z]*$'),
        ("waitFor: 15", 'waitFor: must be a duration such as "1m30s", not 15; add a unit'),
        ("waitFor: 1x", 'waitFor: "1x" is not a duration'),
        ("colour: green", 'colour: Unsupported value: "green": supported values: "red", "blue"'),
        ("mode: slov", 'supported values: "fast", "slow"; did you mean "slow"?'),
        ("names: a", 'names: must be a list, not the text "a"'),
        ("names: [a, 1]", "names[1]: must be text, not 1"),
        ("few: [1, 2, 3]", "few: must have at most 2 entries"),
        ("pair: [1]", "pair: must have exactly 2 entries"),
        ("weights: {cpu: x}", 'weights.cpu: must be a whole number, not the text "x"'),
        ("weights: {a.b/c: x}", 'weights["a.b/c"]: must be a whole number'),
        ("inner: {someNumber: 1}", "inner.needed: Required value"),
        ("inners: [null]", "inners[0]: must be a mapping, not null"),
        ("either: true", "either: must be a whole number or text, not true"),
        ("selector: {matchLabel: {}}", 'unknown field "matchLabel"; did you mean "matchLabels"?'),
        ("day: 5", "day: "),
        ("Flag: true", 'Flag: unknown field "Flag"; did you mean "flag"?'),
        ("zzz: 1", 'zzz: unknown field "zzz"'),
    ],
)
def test_bad_values(text: str, problem: str) -> None:
    sample, problems = decode(text)
    assert len(problems) == 1
    assert problem in problems[0]
    assert sample is not None, "the rest can still be checked"


def test_all_mistakes_are_reported_at_once() -> None:
    text = "{flag: 1, names: [1, 2], inner: {x: 1}, count: 99, wait: 1s}"
    _, problems = decode(text)
    assert [line.partition(":")[0] for line in problems] == [
        "wait",
        "flag",
        "count",
        "names[0]",
        "names[1]",
        "inner.x",
        "inner.needed",
    ]


def test_a_struct_may_refuse_in_post_init() -> None:
    class Picky(msgspec.Struct):
        low: int = 0
        high: int = 0

        def __post_init__(self) -> None:
            if self.low > self.high:
                raise ValueError("low must not be above high")

    document = parse("low: 2")
    assert Decoder(document.errors).struct(Picky, document.root, "args") is None
    assert document.errors.lines() == ["args: low must not be above high"]
