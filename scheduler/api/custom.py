"""CustomObject: an object of a kind that is not built in, with its fields as plain mappings."""

from __future__ import annotations

from typing import Any

import msgspec

from scheduler.api.meta import Named


class CustomObject(Named):
    """An object of a custom resource, or of an aggregated API.

    A plugin that declares a record of its own for the kind (`resource_types`) gets that instead; it
    should derive from this class or from `Named`, so that it has `metadata`. Treat the mappings as
    read-only: they are shared.
    """

    spec: dict[str, Any] = msgspec.field(default_factory=dict)
    status: dict[str, Any] = msgspec.field(default_factory=dict)
