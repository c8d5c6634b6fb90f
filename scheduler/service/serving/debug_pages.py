"""`/debug/<name>`: JSON pages that parts of the scheduler offer about themselves.

A page is a callable that gets the query and returns records; what it returns is encoded at once, on
the loop, so that it shows one moment. Pages that could be long limit themselves.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from scheduler.api.redaction import redact

Page = Callable[[Mapping[str, str]], object]
"""`page(query)` gives JSON data, Structs or dataclasses. LookupError is a 404, ValueError a 400."""

_NAME: Final = re.compile(r"[a-z][a-z0-9-]*(/[a-z0-9-]+)*\Z")


class DebugPages:
    """The pages by name. May grow while the server runs."""

    def __init__(self, pages: Mapping[str, Page] | None = None) -> None:
        self._pages: dict[str, Page] = {}
        for name, page in (pages or {}).items():
            self.add(name, page)

    def add(self, name: str, page: Page) -> None:
        """Offer `/debug/<name>`.

        Raises:
            ValueError: the name is taken, or no good in a path.
        """
        if not _NAME.match(name):
            msg = f"debug page {name!r}: use lower-case words, digits, - and /"
            raise ValueError(msg)
        if name in self._pages:
            msg = f"/debug/{name} exists already"
            raise ValueError(msg)
        self._pages[name] = page

    def names(self) -> tuple[str, ...]:
        """What there is, sorted."""
        return tuple(sorted(self._pages))

    def get(self, name: str) -> Page | None:
        """A page, or None."""
        return self._pages.get(name)


def finish(encoded: bytes) -> bytes:
    """JSON for readers: indented, without credentials, with a line end for terminals.

    Takes a while for long pages, and may be called in a thread.
    """
    shown = redact(msgspec.json.decode(encoded), max_values=len(encoded))
    return msgspec.json.format(msgspec.json.encode(shown), indent=2) + b"\n"


def compact(data: object) -> bytes:
    """JSON in one line."""
    return msgspec.json.encode(data, enc_hook=_plain)


def _plain(value: Any) -> object:
    """What msgspec does not know: NumPy scalars and arrays as numbers, the rest by its text."""
    for method in ("tolist", "item"):
        convert = getattr(value, method, None)
        if callable(convert):
            return convert()
    return str(value)
