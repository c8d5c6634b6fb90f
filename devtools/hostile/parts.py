"""Pieces that hostile objects are made of: names, nesting, odd texts and odd numbers."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

PREFIX: Final = "hostile.example/"


def keys(count: int, prefix: str = PREFIX, offset: int = 0) -> list[str]:
    """Distinct names that are qualified names, label keys and resource names alike."""
    return [f"{prefix}{number:06d}" for number in range(offset, offset + count)]


def words(count: int, offset: int = 0) -> list[str]:
    """Distinct label values."""
    return [f"v{number:06d}" for number in range(offset, offset + count)]


def labels(count: int, prefix: str = PREFIX, offset: int = 0) -> dict[str, str]:
    """Distinct labels."""
    return dict(zip(keys(count, prefix, offset), words(count, offset), strict=True))


def nested_objects(depth: int) -> msgspec.Raw:
    """`{"f:a":{"f:a": ... {} }}`: what managed fields may look like."""
    return msgspec.Raw(b'{"f:a":' * depth + b"{}" + b"}" * depth)


def nested_lists(depth: int) -> msgspec.Raw:
    """`[[[ ... ]]]`."""
    return msgspec.Raw(b"[" * depth + b"]" * depth)


def text(json_text: str) -> msgspec.Raw:
    """A string given as JSON text, quotes left out: for escapes Python cannot encode."""
    return msgspec.Raw(f'"{json_text}"'.encode())


ODD_TEXTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "nul": r"a\u0000b",
        "lone-surrogate": r"a\ud800b",
        "reversed-surrogates": r"a\udc00\ud800b",
        "not-a-character": r"a\uffffb",
        "right-to-left": r"a\u202etxt.exe",
        "terminal-escape": r"a\u001b[2J\u001b[31mred\u001b]0;title\u0007b",
        "newlines": r"a\r\n{\"level\":\"error\",\"event\":\"forged\"}\nb",
        "line-separators": r"a\u2028b\u0085c\u000bd",
        "templates": r"{} {0} {pod} {pod.spec} %s %d %(name)s $(cmd) ${x} `id`",
        "markup": r"[bold red]a[/] [link=file:///etc/passwd]b[/link] [/nothing]",
        "html": r"<script>alert(1)</script>&amp;",
        "astral": r"\ud83d\ude00\ud83c\udff4",
        "combining": r"a" + r"\u0301" * 50,
        "other-digits": r"\u0661\u0662\u0663",
        "blank": r" \t ",
    }
)
"""Texts by name, as JSON escapes."""

QUANTITIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "zero": "0",
        "one-nano": "0.000000001",
        "below-nano": "0.0000000000000000000001",
        "one-e18": "1e18",
        "e-minus-300": "1e-300",
        "max-int64": "9223372036854775807",
        "beyond-int64": "9223372036854775808",
        "eight-exbi": "8Ei",
        "fraction-exbi": "7.999999999999999999Ei",
        "one-e400": "1e400",
        "digits-400": "9" * 400,
        "decimals-400": "0." + "1" * 400,
        "leading-zeros": "0" * 400 + "1",
        "plus": "+1",
        "blank": " 1 ",
    }
)
"""Quantities that Kubernetes can parse, by name."""

BAD_QUANTITIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "negative": "-1",
        "negative-min-int64": "-9223372036854775808",
        "words": "many",
        "other-digits": "\u0661",
        "underscore": "1_000",
        "empty": "",
        "not-a-number": "NaN",
        "infinite": "inf",
        "hexadecimal": "0x10",
    }
)
"""Quantities that the API server refuses in requests."""

INTEGERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "max-int64": "9223372036854775807",
        "beyond-int64": "9223372036854775808",
        "min-int64": "-9223372036854775808",
        "digits-60": "9" * 60,
        "leading-zeros": "0" * 50 + "7",
        "minus-zero": "-0",
        "plus": "+7",
        "underscore": "1_000",
        "other-digits": "\u0661\u0662",
        "float": "1.5",
        "exponent": "1e3",
        "hexadecimal": "0x10",
        "blank": " 7 ",
        "empty": "",
    }
)
"""Values for the operators Gt and Lt."""

TIMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "year-1": "0001-01-01T00:00:00Z",
        "year-0": "0000-01-01T00:00:00Z",
        "year-9999": "9999-12-31T23:59:59Z",
        "offset": "2026-01-01T00:00:00+23:59",
        "nanoseconds": "2026-01-01T00:00:00.123456789Z",
        "leap-day": "2024-02-29T23:59:59Z",
    }
)
"""RFC 3339 times by name."""
