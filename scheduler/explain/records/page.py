"""DebugPage: what every answer under `/debug/` has in common, `apiVersion` and `kind`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

API_VERSION: Final = "debug.kubestow.io/v1"
"""Changes when a field is renamed, removed or changes its meaning; new fields do not change it."""


class DebugPage(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """Base of all pages; the tag of a subclass is its `kind`.

    Decoding rejects another `kind` or `apiVersion`, and ignores fields that are not known.
    """

    api_version: Literal["debug.kubestow.io/v1"] = msgspec.field(
        default=API_VERSION, name="apiVersion"
    )


class IndexPage(DebugPage, frozen=True, tag="PageList"):
    """`/debug`."""

    pages: list[str]
    """Paths."""


def internals(kind: str, data: Mapping[str, object]) -> dict[str, object]:
    """Return a page about the inside of the scheduler, whose fields differ between versions."""
    return {"kind": kind, "apiVersion": API_VERSION, **data}
