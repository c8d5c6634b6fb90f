"""The format of bundles: gzip-compressed JSON lines; version, sections, limits.

Each line is `{"section": NAME, "data": {...}}`. The first line has the section `bundle` (`Header`),
the last line `manifest` (`Manifest`): a file without a manifest is truncated.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

API_VERSION: Final = "bundle.kubestow.io/v1"

HEADER: Final = "bundle"
MANIFEST: Final = "manifest"
CONFIGURATION: Final = "configuration"
STATE: Final = "state"
ROW: Final = "row"
OBJECT: Final = "object"
QUEUE: Final = "queue"
ASSUMED: Final = "assumed"
PLUGIN: Final = "plugin"
DECISION: Final = "decision"
LEDGER: Final = "ledger"
METRICS: Final = "metrics"
DELTA: Final = "delta"
DUE: Final = "due"
ATTEMPT: Final = "attempt"
GROUP: Final = "group"
BINDING: Final = "binding"
"""Sections; docs/bundles.md describes each. The last five are the stream of a recording."""

STREAM: Final = frozenset((DELTA, DUE, ATTEMPT, GROUP, BINDING))

COMPLETE: Final = "complete"
"""`Manifest.end` of a bundle; for a recording it is the reason why it ended."""

MAX_LINE_BYTES: Final = 16 << 20
"""Maximum length of a line, several times the largest object that etcd accepts."""
MAX_BYTES: Final = 4 << 30
"""Maximum size after decompression. 50,000 pods on 5,000 nodes take less than a tenth of it."""
MAX_LINES: Final = 20_000_000
MAX_SECTIONS: Final = 64
MAX_SECTION_NAME: Final = 64
"""Maximum characters of a section's name, in any version of the format."""


class BundleError(ValueError):
    """The file is not a usable bundle; the text names the file, the error, and what to do."""


class Header(msgspec.Struct, rename="camel", kw_only=True):
    """The first line."""

    api_version: str
    kind: str
    """`Bundle`, or `Recording` if a stream follows the state."""
    version: str
    """Version of the kubestow that wrote the file."""
    python: str = ""
    created: float = 0.0
    """Wall clock second at which the state was taken."""
    redacted: bool = False
    left_out: tuple[str, ...] = ()
    """Sentences about data that the scheduler reads and the file omits."""


class Manifest(msgspec.Struct, rename="camel", kw_only=True):
    """The last line: number, bytes and SHA-256 of all lines before it."""

    lines: int
    bytes: int
    sha256: str
    sections: dict[str, int]
    """Number of lines by section."""
    end: str = COMPLETE
    detail: str = ""


class Line(msgspec.Struct):
    """One line; the reader of a section decodes its `data`."""

    section: str
    data: msgspec.Raw


encode: Final = msgspec.json.Encoder(enc_hook=lambda value: plain_value(value)).encode  # noqa: PLW0108
decode_line: Final = msgspec.json.Decoder(Line).decode


def plain_value(value: Any) -> Any:
    """Convert a value of the scheduler to JSON values; anything unknown becomes a string."""
    return sorted(value) if isinstance(value, (set, frozenset)) else str(value)
