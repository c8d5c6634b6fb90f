"""Semantic versions (`library/semverlib.go` of Kubernetes)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Final

from scheduler.cel.declarations import OBJECT_BYTES, Library, first_traversal, shared
from scheduler.cel.errors import EvaluationError
from scheduler.cel.metering import Meter, pieces
from scheduler.cel.types import BOOL, INT, STRING, Type
from scheduler.cel.values import MAX_UINT, Opaque

SEMVER: Final = Type("kubernetes.Semver")

_IDENTIFIER: Final = re.compile(r"[0-9A-Za-z-]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Semver(Opaque):
    """A semantic version; build metadata takes no part in equality and order."""

    type_name: ClassVar[str] = "kubernetes.Semver"

    major: int
    minor: int
    patch: int
    #: Numbers and texts of the pre-release, each as (is text, number, text), in semver's order.
    pre_release: tuple[tuple[bool, int, str], ...] = ()
    build: str = field(default="", compare=False)

    @property
    def work(self) -> int:
        """Units of work to compare it with another."""
        return 1 + len(self.pre_release) // 2

    @property
    def order(self) -> tuple[object, ...]:
        """The version as a key to sort by: a release comes after its pre-releases."""
        return self.major, self.minor, self.patch, not self.pre_release, self.pre_release


def parse(text: str) -> Semver:
    """Parse a version as github.com/blang/semver does; raises `EvaluationError`."""
    if not text:
        raise EvaluationError("Version string empty")
    numbers = text.split(".", 2)
    if len(numbers) != 3:
        raise EvaluationError("No Major.Minor.Patch elements found")
    major, minor = (_number(each, name) for each, name in zip(numbers, _NAMES, strict=False))
    rest, _, build = numbers[2].partition("+")
    patch, dash, pre_release = rest.partition("-")
    if "+" in numbers[2]:
        for each in build.split("."):
            _check_identifier(each, "Build meta data")
    parts = tuple(map(_pre_release, pre_release.split("."))) if dash else ()
    return Semver(major, minor, _number(patch, "Patch"), parts, build)


_NAMES: Final = ("Major", "Minor")


def _number(text: str, name: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 20 or int(text) > MAX_UINT:
        raise EvaluationError(f"Invalid character(s) found in {name} number {text[:80]!r}")
    if len(text) > 1 and text[0] == "0":
        raise EvaluationError(f"{name} number must not contain leading zeroes {text[:80]!r}")
    return int(text)


def _check_identifier(text: str, name: str) -> None:
    if not text:
        raise EvaluationError(f"{name} is empty")
    if not _IDENTIFIER.fullmatch(text):
        raise EvaluationError(f"Invalid character(s) found in {name.lower()} {text[:80]!r}")


def _pre_release(text: str) -> tuple[bool, int, str]:
    _check_identifier(text, "Prerelease")
    if not text.isdigit():
        return True, 0, text
    if len(text) > 1 and text[0] == "0":
        raise EvaluationError(
            f"Numeric PreRelease version must not contain leading zeroes {text!r}"
        )
    if len(text) > 20 or int(text) > MAX_UINT:
        raise EvaluationError(f"PreRelease number out of range {text[:80]!r}")
    return False, int(text), ""


def semver(meter: Meter, text: str, normalize: bool = False) -> Semver:
    """Parse a version; `normalize` accepts a leading `v`, missing numbers and leading zeroes."""
    meter.spend(15 + pieces(len(text), 0.3))
    meter.hold(OBJECT_BYTES + _BYTES_PER_CHARACTER * len(text))
    return parse(_normalized(text) if normalize else text)


def _normalized(text: str) -> str:
    text = text.removeprefix("v")
    cut = min((text.index(each) for each in "-+" if each in text), default=len(text))
    numbers, rest = text[:cut], text[cut:]
    parts = numbers.split(".")
    if len(parts) > 3:
        return text
    stripped = [each.lstrip("0") or each[:1] for each in parts]
    stripped += ["0"] * (3 - len(stripped))
    return ".".join(stripped) + rest


_BYTES_PER_CHARACTER: Final = 90
"""Bytes of a version for each character of its text: an identifier may have one, and a dot."""


def is_semver(meter: Meter, text: str, normalize: bool = False) -> bool:
    """Whether a text is a version."""
    try:
        semver(meter, text, normalize)
    except EvaluationError:
        return False
    return True


def compare(one: Semver, other: Semver) -> int:
    """Return -1, 0 or 1."""
    return (one.order > other.order) - (one.order < other.order)


def _comparing(one: Semver, other: Semver) -> int:
    return one.work


def _field(name: str) -> Callable[[Semver], int]:
    return lambda version: int(getattr(version, name))


def _library() -> Library:
    library = Library()
    for parameters in ((STRING,), (STRING, BOOL)):
        library.function("semver", parameters, SEMVER, semver, first_traversal, is_metered=True)
        library.function("isSemver", parameters, BOOL, is_semver, first_traversal, is_metered=True)
    for name in ("major", "minor", "patch"):
        library.method(name, (SEMVER,), INT, _field(name), work=shared)
    two = (SEMVER, SEMVER)
    library.method(
        "isLessThan", two, BOOL, lambda one, other: compare(one, other) < 0, None, _comparing
    )
    library.method(
        "isGreaterThan", two, BOOL, lambda one, other: compare(one, other) > 0, None, _comparing
    )
    library.method("compareTo", two, INT, compare, work=_comparing)
    return library


FUNCTIONS: Final = _library().functions
