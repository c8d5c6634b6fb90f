"""The format of bundles: gzip, inside it one JSON object in each line; version, sections, limits.

Each line is `{"section": NAME, "data": {...}}`. The first has the section `bundle` (`Header`), the
last one `manifest` (`Manifest`): a file without a manifest was cut.
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
"""`Manifest.end` of a bundle; that of a recording says why it ended."""

MAX_LINE_BYTES: Final = 16 << 20
"""Several times the largest object that etcd takes."""
MAX_BYTES: Final = 4 << 30
"""Of a file after decompression. 50,000 pods on 5,000 nodes take less than a tenth of it."""
MAX_LINES: Final = 20_000_000
MAX_SECTIONS: Final = 64
MAX_SECTION_NAME: Final = 64
"""Characters. A later version may add sections, but not many."""


class BundleError(ValueError):
    """A file that is no usable bundle; the text names the file, what is wrong, and what to do."""


class Header(msgspec.Struct, rename="camel", kw_only=True):
    """The first line."""

    api_version: str
    kind: str
    """`Bundle`, or `Recording` if a stream follows the state."""
    version: str
    """Of the kubestow that wrote it."""
    python: str = ""
    created: float = 0.0
    """Wall clock seconds of the moment that the state is of."""
    redacted: bool = False
    left_out: tuple[str, ...] = ()
    """What the scheduler reads and the file does not have, one sentence each."""


class Manifest(msgspec.Struct, rename="camel", kw_only=True):
    """The last line: of all lines before it the count, the bytes, and their SHA-256."""

    lines: int
    bytes: int
    sha256: str
    sections: dict[str, int]
    """Lines by section."""
    end: str = COMPLETE
    detail: str = ""


class Line(msgspec.Struct):
    """One line; `data` is decoded by whoever knows the section."""

    section: str
    data: msgspec.Raw


encode: Final = msgspec.json.Encoder(enc_hook=lambda value: plain_value(value)).encode  # noqa: PLW0108
decode_line: Final = msgspec.json.Decoder(Line).decode


def plain_value(value: Any) -> Any:
    """Return what JSON can express for a value of the scheduler; text for anything unknown."""
    return sorted(value) if isinstance(value, (set, frozenset)) else str(value)
