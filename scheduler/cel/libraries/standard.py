"""Operators, conversions and functions of the CEL language definition."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any, Final

from scheduler.cel.declarations import (
    STRING_FACTOR,
    Library,
    Work,
    covered,
    first_traversal,
    matching,
    shared,
    traversal,
)
from scheduler.cel.errors import EvaluationError, no_such_overload
from scheduler.cel.libraries import regular_expressions, times
from scheduler.cel.metering import Meter, bounded, pieces
from scheduler.cel.types import (
    ANY,
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    A,
    B,
    Type,
    list_of,
    map_of,
    type_of,
)
from scheduler.cel.values import (
    LISTS,
    MAX_INT,
    MAX_UINT,
    MIN_INT,
    NUMBERS,
    SIZED,
    Duration,
    Timestamp,
    TypeValue,
    Uint,
    contains,
    equal,
    joined,
    less,
    map_key,
    size_for_cost,
    type_name,
)

ORDERED: Final = (BOOL, INT, UINT, DOUBLE, STRING, BYTES, TIMESTAMP, DURATION)
NUMERIC: Final = (INT, UINT, DOUBLE)


def checked_int(number: int) -> int:
    """Return an int, or raise if it needs more than 64 bits."""
    if MIN_INT <= number <= MAX_INT:
        return number
    raise EvaluationError("integer overflow")


def checked_uint(number: int) -> Uint:
    """Return an unsigned integer, or raise if it is negative or needs more than 64 bits."""
    if 0 <= number <= MAX_UINT:
        return Uint(number)
    raise EvaluationError("unsigned integer overflow")


def add(meter: Meter, left: Any, right: Any) -> Any:
    """Return the sum of numbers or times, or one string, list or bytes after another."""
    kind, other = type(left), type(right)
    if kind is int and other is int:
        return checked_int(left + right)
    if kind is other and kind in (str, bytes):
        bounded(len(left) + len(right))
        result = left + right
        meter.hold(sys.getsizeof(result))
        return result
    if kind is float and other is float:
        return left + right
    if kind is Uint and other is Uint:
        return checked_uint(left + right)
    if kind in LISTS and other in LISTS:
        return joined(meter, left, right)
    return times.add(left, right)


def subtract(left: Any, right: Any) -> Any:
    """Return the difference of numbers or times."""
    kind, other = type(left), type(right)
    if kind is other:
        if kind is int:
            return checked_int(left - right)
        if kind is float:
            return left - right
        if kind is Uint:
            return checked_uint(left - right)
    return times.subtract(left, right)


def multiply(left: Any, right: Any) -> Any:
    """Return the product of two numbers of one type."""
    kind = type(left)
    if kind is not type(right) or kind not in NUMBERS:
        raise no_such_overload()
    product = left * right
    if kind is float:
        return product
    return checked_int(product) if kind is int else checked_uint(product)


def divide(left: Any, right: Any) -> Any:
    """Return the quotient of two numbers of one type; that of integers is truncated."""
    kind = type(left)
    if kind is not type(right) or kind not in NUMBERS:
        raise no_such_overload()
    if kind is float:
        return _divide_floats(left, right)
    if right == 0:
        raise EvaluationError("division by zero")
    quotient = abs(left) // abs(right)
    if kind is Uint:
        return Uint(quotient)
    return checked_int(quotient if (left < 0) == (right < 0) else -quotient)


def _divide_floats(left: float, right: float) -> float:
    if right:
        return left / right
    if left == 0 or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def modulo(left: Any, right: Any) -> Any:
    """Return the remainder of two integers of one type, with the sign of the dividend."""
    kind = type(left)
    if kind is not type(right) or kind not in (int, Uint):
        raise no_such_overload()
    if right == 0:
        raise EvaluationError("modulus by zero")
    remainder = abs(left) % abs(right)
    return Uint(remainder) if kind is Uint else (-remainder if left < 0 else remainder)


def negate(value: Any) -> Any:
    """Return the negative of a number."""
    if type(value) is int:
        return checked_int(-value)
    if type(value) is float:
        return -value
    raise no_such_overload()


def invert(value: Any) -> bool:
    """Return the other boolean."""
    if type(value) is bool:
        return not value
    raise no_such_overload()


def is_in(meter: Meter, element: Any, container: Any) -> bool:
    """Whether a list has an element, or a map a key."""
    if type(container) in LISTS:
        return contains(meter, container, element)
    if isinstance(container, dict):
        return map_key(element) in container
    raise no_such_overload()


def size(value: Any) -> int:
    """Return the number of characters, bytes, elements or entries."""
    if isinstance(value, SIZED):
        return len(value)
    raise no_such_overload()


def to_int(value: Any) -> int:
    """Convert to int."""
    kind = type(value)
    if kind is float:
        if not math.isfinite(value) or not MIN_INT < value < MAX_INT:
            raise EvaluationError("integer overflow")
        return int(value)
    if kind is str:
        return checked_int(_parsed(value, "int"))
    if kind is Timestamp:
        return int(value // times.SECOND)
    if kind is Duration:
        return int(value)
    return checked_int(int(value))


def to_uint(value: Any) -> Uint:
    """Convert to uint."""
    if type(value) is float:
        if not math.isfinite(value) or not 0 <= value < MAX_UINT:
            raise EvaluationError("unsigned integer overflow")
        return Uint(value)
    return checked_uint(_parsed(value, "uint") if type(value) is str else int(value))


def _parsed(text: str, kind: str) -> int:
    digits = text[1:] if text[:1] in ("+", "-") and kind == "int" else text
    # Far more digits than 64 bits have; Python converts at most 4,300 of them.
    if not digits.isascii() or not digits.isdigit() or len(digits.lstrip("0")) > 30:
        raise EvaluationError(f"type conversion error from 'string' to '{kind}'")
    return int(text)


def to_double(value: Any) -> float:
    """Convert to double."""
    if type(value) is not str:
        return float(value)
    try:
        return _parsed_double(value)
    except (ValueError, OverflowError):
        raise EvaluationError("type conversion error from 'string' to 'double'") from None


def _parsed_double(text: str) -> float:
    """Parse as Go's `strconv.ParseFloat`; raises ValueError or OverflowError."""
    if not text.isascii() or text != text.strip():
        raise ValueError
    if text[:3].lstrip("+-").lower().startswith("0x"):
        if "p" not in text.lower():
            raise ValueError
        return float.fromhex(text.replace("_", ""))
    value = float(text)
    is_spelt_out = text[-1].isalpha()  # "inf" or "nan": no number ends with a letter.
    if math.isinf(value) and not is_spelt_out:
        raise OverflowError
    if math.isnan(value) and not text[0].isalpha():  # Go knows no sign of NaN.
        raise ValueError
    return value


def to_string(value: Any) -> str:
    """Convert to string, in the notation of Go."""
    kind = type(value)
    if kind is str:
        return str(value)
    if kind is bool:
        return "true" if value else "false"
    if kind is bytes:
        try:
            return str(value, "utf-8")
        except UnicodeDecodeError:
            raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None
    if kind is float:
        return float_text(value)
    if kind in (Duration, Timestamp):
        return times.text(value)
    return str(int(value))


def float_text(value: float) -> str:
    """Return a number as Go prints it (`strconv.FormatFloat` with 'g')."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value == 0:
        return "-0" if math.copysign(1, value) < 0 else "0"
    exponent = math.floor(math.log10(abs(value)))
    if -5 < exponent < 21:
        text = f"{value!r}"
        return str(int(value)) if value == int(value) else text
    mantissa, _, power = f"{value!r}".partition("e")
    return f"{mantissa.removesuffix('.0')}e{int(power or exponent):+03d}"


def to_bool(value: Any) -> bool:
    """Convert to bool, from the spellings that Go accepts."""
    if type(value) is bool:
        return value
    if value in ("1", "t", "T", "true", "TRUE", "True"):
        return True
    if value in ("0", "f", "F", "false", "FALSE", "False"):
        return False
    raise EvaluationError("type conversion error from 'string' to 'bool'")


def to_bytes(value: Any) -> bytes:
    """Convert to bytes."""
    return value if type(value) is bytes else str(value).encode(errors="surrogatepass")


def type_value(value: Any) -> TypeValue:
    """Return the type of a value."""
    return TypeValue(type_name(value))


def _smaller(arguments: Sequence[Any], result: Any) -> int:
    one, other = map(size_for_cost, arguments)
    return math.ceil(min(one, other) * STRING_FACTOR)


def _texts_smaller(arguments: Sequence[Any], result: Any) -> int:
    return _smaller(arguments, result) if type(arguments[0]) in (str, bytes) else 1


def _concatenation(arguments: Sequence[Any], result: Any) -> int:
    return traversal(result) if type(result) in (str, bytes) else 1


def _membership(arguments: Sequence[Any], result: Any) -> int:
    return len(arguments[1]) if type(arguments[1]) in LISTS else 1


def _substring(arguments: Sequence[Any], result: Any) -> int:
    return traversal(arguments[0]) * traversal(arguments[1])


def _prefix(arguments: Sequence[Any], result: Any) -> int:
    return traversal(arguments[1])


def _operators(library: Library) -> None:
    declare = library.function
    for name, body in (
        ("_==_", equal),
        ("_!=_", lambda meter, left, right: not equal(meter, left, right)),
    ):
        declare(name, (A, A), BOOL, body, _smaller, is_metered=True)
    comparisons = (
        ("_<_", less),
        ("_>_", lambda left, right: less(right, left)),
        ("_<=_", lambda left, right: less(left, right) or left == right),
        ("_>=_", lambda left, right: less(right, left) or left == right),
    )
    for name, compare in comparisons:
        for each in ORDERED:
            declare(name, (each, each), BOOL, compare, _texts_smaller, covered)
        for one in NUMERIC:
            for other in NUMERIC:
                if one != other:
                    declare(name, (one, other), BOOL, compare)
    for each in (*NUMERIC, STRING, BYTES, list_of(A), DURATION):
        declare("_+_", (each, each), each, add, _concatenation, is_metered=True)
    declare("_+_", (TIMESTAMP, DURATION), TIMESTAMP, add, is_metered=True)
    declare("_+_", (DURATION, TIMESTAMP), TIMESTAMP, add, is_metered=True)
    for each in (*NUMERIC, DURATION):
        declare("_-_", (each, each), each, subtract)
    declare("_-_", (TIMESTAMP, TIMESTAMP), DURATION, subtract)
    declare("_-_", (TIMESTAMP, DURATION), TIMESTAMP, subtract)
    for each in NUMERIC:
        declare("_*_", (each, each), each, multiply)
        declare("_/_", (each, each), each, divide)
    for each in (INT, UINT):
        declare("_%_", (each, each), each, modulo)
    for each in (INT, DOUBLE):
        declare("-_", (each,), each, negate)
    declare("!_", (BOOL,), BOOL, invert)
    declare("_in_", (A, list_of(A)), BOOL, is_in, _membership, is_metered=True)
    declare("_in_", (A, map_of(A, B)), BOOL, is_in, _membership, is_metered=True)


CONVERSIONS: Final = frozenset(
    {"int", "uint", "double", "string", "bool", "bytes", "dyn", "type", "duration", "timestamp"}
)
"""Functions that cel-go evaluates when it compiles, if the argument is a constant."""


_CONVERSION_WORK: Final[dict[tuple[str, Type], Work]] = {
    ("int", STRING): lambda text: pieces(len(text), 20),
    ("uint", STRING): lambda text: pieces(len(text), 20),
    ("double", STRING): lambda text: 10 + pieces(len(text), 50),
    ("duration", STRING): lambda text: 10 + pieces(len(text), 0.3),
    ("timestamp", STRING): lambda text: 30 + pieces(len(text), 100),
    # Before the call: one that fails is not charged.
    ("string", BYTES): lambda encoded: pieces(len(encoded), 20),
    ("string", TIMESTAMP): lambda moment: 25,
}
"""Work of conversions from one type, as measured for the worst of them."""


def _conversions(library: Library) -> None:
    declare = library.function
    from_types: tuple[tuple[str, Type, Any, tuple[Type, ...]], ...] = (
        ("int", INT, to_int, (INT, UINT, DOUBLE, STRING, TIMESTAMP, DURATION)),
        ("uint", UINT, to_uint, (INT, UINT, DOUBLE, STRING)),
        ("double", DOUBLE, to_double, (INT, UINT, DOUBLE, STRING)),
        ("bool", BOOL, to_bool, (BOOL, STRING)),
        ("duration", DURATION, times.to_duration, (DURATION, STRING, INT)),
        ("timestamp", TIMESTAMP, times.to_timestamp, (TIMESTAMP, STRING, INT)),
        (
            "string",
            STRING,
            to_string,
            (STRING, BOOL, INT, UINT, DOUBLE, BYTES, DURATION, TIMESTAMP),
        ),
    )
    for name, result, body, parameters in from_types:
        for each in parameters:
            cost = first_traversal if (name, each) == ("string", BYTES) else None
            work = _CONVERSION_WORK.get((name, each), shared if each == STRING else None)
            declare(name, (each,), result, body, cost, work)
    declare("bytes", (BYTES,), BYTES, to_bytes, work=shared)
    declare("bytes", (STRING,), BYTES, to_bytes, first_traversal, covered)
    declare("dyn", (A,), DYN, lambda value: value, work=shared)
    declare("type", (A,), type_of(A), type_value, work=shared)


def _has_part(text: str, part: str) -> bool:
    return part in text


def _functions(library: Library) -> None:
    for each in (STRING, BYTES, list_of(A), map_of(A, B)):
        library.function("size", (each,), INT, size, work=shared)
        library.method("size", (each,), INT, size, work=shared)
    two_texts = (STRING, STRING)
    library.method("contains", two_texts, BOOL, _has_part, _substring, covered)
    library.method("startsWith", two_texts, BOOL, str.startswith, _prefix, covered)
    library.method("endsWith", two_texts, BOOL, str.endswith, _prefix, covered)
    matches = regular_expressions.matches
    library.method("matches", two_texts, BOOL, matches, matching, is_metered=True)
    library.function("matches", two_texts, BOOL, matches, matching, is_metered=True)


def _library() -> Library:
    library = Library()
    _operators(library)
    _conversions(library)
    _functions(library)
    times.declare(library)
    return library


FUNCTIONS: Final = _library().functions

TYPES: Final = {
    each.name: each for each in (BOOL, INT, UINT, DOUBLE, STRING, BYTES, DYN, DURATION, TIMESTAMP)
} | {
    "list": list_of(DYN),
    "map": map_of(DYN, DYN),
    "null_type": Type("null_type"),
    "type": type_of(ANY),
    "optional_type": Type("optional_type", (DYN,)),
}
"""Names of types, which expressions can use as values."""
