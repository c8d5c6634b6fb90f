"""Encodings of text files: UTF-8, and what Windows writes instead.

PowerShell 5 writes UTF-16 with `>`, and other tools begin a file with the byte order mark of UTF-8.
"""

from __future__ import annotations

from typing import Final

_MARKS: Final = (
    (b"\xef\xbb\xbf", "utf-8-sig"),
    (b"\xff\xfe\0\0", "utf-32"),
    (b"\0\0\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)
"""Byte order marks; that of UTF-16 is the beginning of that of UTF-32."""


def as_utf8(data: bytes) -> bytes:
    r"""Return a text in UTF-8 and without byte order mark; of other encodings only Unicode's.

    A text that has no mark is UTF-16 if one of its first two bytes is zero, as in JSON (RFC 4627,
    section 3).

    >>> as_utf8("{}".encode("utf-16")), as_utf8("{}".encode("utf-16-le")), as_utf8(b"{}")
    (b'{}', b'{}', b'{}')

    Raises:
        UnicodeDecodeError: it has the mark of an encoding, and is none of it.
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data.decode(encoding).encode()
    match [bool(each) for each in data[:2]]:
        case [True, False]:
            return data.decode("utf-16-le").encode()
        case [False, True]:
            return data.decode("utf-16-be").encode()
    return data
