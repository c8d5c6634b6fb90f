"""The named formats of Kubernetes (`library/format.go`): `format.dns1123Label().validate(s)`."""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from scheduler.cel.declarations import REGEX_FACTOR, STRING_FACTOR, Library, covered, shared
from scheduler.cel.errors import EvaluationError
from scheduler.cel.libraries import networks, times
from scheduler.cel.types import STRING, Type, list_of, optional_of
from scheduler.cel.values import NONE, Opaque, Optional
from scheduler.sanitizing.names import is_qualified_name

FORMAT: Final = Type("kubernetes.NamedFormat")


@dataclass(frozen=True, slots=True)
class NamedFormat(Opaque):
    """A check of texts, with the length of the regular expression that upstream counts."""

    type_name: ClassVar[str] = "kubernetes.NamedFormat"
    name: str
    is_valid: Callable[[str], bool]
    pattern_length: int


_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"


def _pattern(pattern: str, max_length: int) -> Callable[[str], bool]:
    compiled = re.compile(pattern, re.ASCII)
    return lambda text: len(text) <= max_length and bool(compiled.fullmatch(text))


def _prefix(check: Callable[[str], bool]) -> Callable[[str], bool]:
    """A prefix may end with a dash, which stands for the characters to come."""
    return lambda text: check(f"{text[:-1]}a" if len(text) > 1 and text[-1] == "-" else text)


def _is_uri(text: str) -> bool:
    try:
        networks.url(text)
    except EvaluationError:
        return False
    return True


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return bool(text)


def _is_date(text: str) -> bool:
    try:
        return len(text) == 10 and bool(dt.date.fromisoformat(text))
    except ValueError:
        return False


def _is_datetime(text: str) -> bool:
    try:
        return bool(times.to_timestamp(text.upper())) or True
    except EvaluationError:
        return False


_IS_LABEL: Final = _pattern(_LABEL, 63)
_IS_SUBDOMAIN: Final = _pattern(rf"{_LABEL}(\.{_LABEL})*", 253)
_IS_1035: Final = _pattern(r"[a-z]([-a-z0-9]*[a-z0-9])?", 63)
_UUID: Final = r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}"

FORMATS: Final = {
    each.name: each
    for each in (
        NamedFormat("dns1123Label", _IS_LABEL, 30),
        NamedFormat("dns1123Subdomain", _IS_SUBDOMAIN, 60),
        NamedFormat("dns1035Label", _IS_1035, 30),
        NamedFormat("qualifiedName", is_qualified_name, 60),
        NamedFormat("dns1123LabelPrefix", _prefix(_IS_LABEL), 30),
        NamedFormat("dns1123SubdomainPrefix", _prefix(_IS_SUBDOMAIN), 60),
        NamedFormat("dns1035LabelPrefix", _prefix(_IS_1035), 30),
        NamedFormat("labelValue", _pattern(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?", 63), 40),
        NamedFormat("uri", _is_uri, 1350),
        NamedFormat("uuid", _pattern(_UUID, 100), 80),
        NamedFormat("byte", _is_base64, 80),
        NamedFormat("date", _is_date, 120),
        NamedFormat("datetime", _is_datetime, 120),
    )
}


def validate(named: NamedFormat, text: str) -> Optional:
    """Return the reasons why a text does not have the format, none if it has."""
    return NONE if named.is_valid(text) else Optional([f"not a valid {named.name}"])


def _cost(arguments: Sequence[Any], result: Any) -> int:
    named, text = arguments
    walk = math.ceil((len(text) + 1) * STRING_FACTOR)
    return int(walk * math.ceil(named.pattern_length * REGEX_FACTOR))


def _constant(named: NamedFormat) -> Callable[[], NamedFormat]:
    return lambda: named


def _named(name: str) -> Optional:
    return Optional(FORMATS[name]) if name in FORMATS else NONE


def _library() -> Library:
    library = Library()
    for name, each in FORMATS.items():
        library.function(f"format.{name}", (), FORMAT, _constant(each))
    library.function("format.named", (STRING,), optional_of(FORMAT), _named, work=shared)
    library.method(
        "validate", (FORMAT, STRING), optional_of(list_of(STRING)), validate, _cost, covered
    )
    return library


FUNCTIONS: Final = _library().functions
