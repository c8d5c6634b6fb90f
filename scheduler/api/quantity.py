"""Kubernetes quantities as exact integers of nano-units.

Invariant: no float ever takes part, so sums and comparisons are exact at the precision of the API
(10^-9); anything finer was rounded away from zero when it was parsed. Totals are summed first and
rounded once, by `value()` and `milli_value()`.

`value()` and `milli_value()` saturate at the ends of int64, where upstream (`quantity.go:
ScaledValue`) returns 0 or wraps: a request that large must fit nowhere, not everywhere.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from functools import lru_cache, total_ordering
from typing import Final

from scheduler.api.meta import RawQuantity

NANO: Final = 1_000_000_000
"""Nano-units in one unit."""

MAX_INT64: Final = (1 << 63) - 1
_NANO_PER_MILLI: Final = 1_000_000

_MAX_TEXT: Final = 512
_MAX_EXPONENT: Final = 512
_MAX_WHOLE_DIGITS: Final = _MAX_TEXT - len("-.e-9") - 9
"""Most digits of whole units, so that the canonical text, in nano-units at worst, can be parsed."""
_TOO_LARGE: Final = NANO * 10**_MAX_WHOLE_DIGITS
_CACHE_SIZE: Final = 1 << 15

_SYNTAX: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?P<point>\.?)(?P<fraction>[0-9]*)"
    r"(?P<suffix>[KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+|)"
)
_DECIMAL_EXPONENTS: Final = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_DECIMAL_SUFFIXES: Final = {exponent: suffix for suffix, exponent in _DECIMAL_EXPONENTS.items()}
_BINARY_SUFFIXES: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_LARGEST_DECIMAL: Final = 18


class Format(enum.Enum):
    """Notation of a quantity; sums keep the format of their first non-zero operand."""

    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


class QuantityError(ValueError):
    """A text that is not a quantity: the `text`, and the `reason`.

    `path` names the field of the object, if known.
    """

    def __init__(self, text: RawQuantity, reason: str, path: str = "") -> None:
        self.text = text
        self.reason = reason
        self.path = path
        where = f"{path}: " if path else ""
        super().__init__(f"{where}invalid quantity {str(text)[:80]!r}: {reason}")


@total_ordering
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Quantity:
    """An immutable amount. Equality, order and hash ignore how it is spelt."""

    nano: int
    """Units of 10^-9."""
    format: Format = Format.DECIMAL_SI
    spelling: str = ""
    """The text to print back; empty for the canonical one."""

    def value(self) -> int:
        """Return whole units, rounded away from zero, within int64."""
        return _saturate(_away_from_zero(self.nano, NANO))

    def milli_value(self) -> int:
        """Return thousandths, rounded away from zero, within int64."""
        return _saturate(_away_from_zero(self.nano, _NANO_PER_MILLI))

    @property
    def sign(self) -> int:
        """-1, 0 or 1."""
        return (self.nano > 0) - (self.nano < 0)

    def __add__(self, other: Quantity) -> Quantity:
        return Quantity(self.nano + other.nano, self.format if self.nano else other.format)

    def __sub__(self, other: Quantity) -> Quantity:
        return Quantity(self.nano - other.nano, self.format if self.nano else other.format)

    def __neg__(self) -> Quantity:
        return Quantity(-self.nano, self.format)

    def __bool__(self) -> bool:
        return self.nano != 0

    def __eq__(self, other: object) -> bool:
        return self.nano == other.nano if isinstance(other, Quantity) else NotImplemented

    def __lt__(self, other: Quantity) -> bool:
        return self.nano < other.nano

    def __gt__(self, other: Quantity) -> bool:
        return self.nano > other.nano

    def __hash__(self) -> int:
        return hash(self.nano)

    def canonical(self) -> str:
        """Return the canonical spelling: no fraction digits, the largest suffix that loses nothing.

        >>> parse("1.5Gi").canonical(), parse("0.1").canonical(), parse("1024Ki").canonical()
        ('1536Mi', '100m', '1Mi')
        """
        number, suffix = _canonical_parts(self.nano, self.format)
        return f"{number}{suffix}"

    def __str__(self) -> str:
        return self.spelling or self.canonical()

    def __repr__(self) -> str:
        return f"Quantity({self!s})"


@lru_cache(maxsize=_CACHE_SIZE)
def parse(text: RawQuantity) -> Quantity:
    """Parse a quantity as the API accepts it; JSON numbers count as their text. Cached.

    Raises `QuantityError`. Quirks of upstream (`quantity.go: ParseQuantity`): a missing number is
    0 (`"m"`, `"."`), `"E"` is 10^18 while `"1E3"` is an exponent, binary amounts end at 2^63-1.
    """
    string = text if isinstance(text, str) else repr(text)
    if not string:
        raise QuantityError(text, "it is empty")
    if len(string) > _MAX_TEXT:
        raise QuantityError(text, f"it is longer than {_MAX_TEXT} characters")
    found = _SYNTAX.fullmatch(string)
    if found is None:
        raise QuantityError(
            text,
            "expected a number such as 1.5 with a suffix such as m, k, Mi or e3, and no blanks",
        )
    sign, whole, fraction = found["sign"], found["whole"].lstrip("0"), found["fraction"]
    suffix = found["suffix"]
    digits = int(f"0{whole}{fraction}")
    if suffix.endswith("i"):
        nano, form, simple = _read_binary(digits, whole, fraction, suffix)
    else:
        nano, form, simple = _read_decimal(text, digits, whole, fraction, suffix)
    if nano >= _TOO_LARGE:
        raise QuantityError(text, f"it is 1e{_MAX_WHOLE_DIGITS} or more")
    if sign == "-":
        nano, digits = -nano, -digits
    # Upstream prints some spellings back unchanged: those it holds in its compact form, with a
    # whole part, whose digits are already the canonical ones (`+1`, `5.`, `1E3`, but not `.5` or
    # `1000m`); with a binary suffix only those not divisible by 8 (`+7Gi`, but not `+8Gi`).
    keep = simple and bool(whole) and _canonical_parts(nano, form)[0] == digits
    keep = keep and (not suffix.endswith("i") or digits % 8 != 0)
    return Quantity(nano, form, spelling=string if keep else "")


@lru_cache(maxsize=_CACHE_SIZE)
def value(raw: RawQuantity) -> int:
    """Return `parse(raw).value()`; cached."""
    return parse(raw).value()


@lru_cache(maxsize=_CACHE_SIZE)
def milli_value(raw: RawQuantity) -> int:
    """Return `parse(raw).milli_value()`; cached."""
    return parse(raw).milli_value()


def _read_binary(digits: int, whole: str, fraction: str, suffix: str) -> tuple[int, Format, bool]:
    power = _BINARY_SUFFIXES.index(suffix)
    nano = _away_from_zero(digits * NANO << (10 * power), 10 ** len(fraction))
    nano = min(nano, MAX_INT64 * NANO)
    form = Format.DECIMAL_SI if 0 < nano < NANO else Format.BINARY_SI
    # Upstream's compact form has 15 digits, of which each binary suffix takes roughly three.
    simple = not fraction and len(whole) + 3 * power + 1 <= 15
    return nano, form, simple


def _read_decimal(
    text: RawQuantity, digits: int, whole: str, fraction: str, suffix: str
) -> tuple[int, Format, bool]:
    form = Format.DECIMAL_SI
    if suffix in _DECIMAL_EXPONENTS:
        exponent = _DECIMAL_EXPONENTS[suffix]
    else:
        form = Format.DECIMAL_EXPONENT
        exponent = _bounded_exponent(text, suffix[1:])
    scale = exponent - len(fraction)
    if scale >= -9:
        nano = digits * 10 ** (scale + 9)
    else:
        nano = _away_from_zero(digits, 10 ** (-9 - scale))
    return nano, form, scale >= -9 and len(whole) + len(fraction) <= 18


def _bounded_exponent(text: RawQuantity, digits: str) -> int:
    # The power is computed: a few bytes of text must not make a number of a gigabyte. Far below the
    # precision all exponents give the same amount.
    exponent = int(digits)
    if exponent > _MAX_EXPONENT:
        raise QuantityError(text, f"its exponent is above {_MAX_EXPONENT}")
    return max(exponent, -2 * _MAX_TEXT)


def _canonical_parts(nano: int, form: Format) -> tuple[int, str]:
    if nano == 0:
        return 0, ""
    if form is Format.BINARY_SI and nano % NANO == 0 and abs(nano) >= 1024 * NANO:
        return _canonical_binary(nano // NANO)
    number, exponent = nano, -9
    ceiling = _LARGEST_DECIMAL if form is not Format.DECIMAL_EXPONENT else 1 << 30
    while number % 1000 == 0 and exponent < ceiling:
        number //= 1000
        exponent += 3
    if form is Format.DECIMAL_EXPONENT:
        return number, f"e{exponent}" if exponent else ""
    return number, _DECIMAL_SUFFIXES[exponent]


def _canonical_binary(number: int) -> tuple[int, str]:
    power = 0
    while number % 1024 == 0 and power < len(_BINARY_SUFFIXES) - 1:
        number //= 1024
        power += 1
    return number, _BINARY_SUFFIXES[power]


def _away_from_zero(number: int, divisor: int) -> int:
    return -(-number // divisor) if number >= 0 else number // divisor


def _saturate(number: int) -> int:
    if -MAX_INT64 <= number <= MAX_INT64:
        return number
    return max(-MAX_INT64 - 1, min(MAX_INT64, number))
