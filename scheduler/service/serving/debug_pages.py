"""`/debug/<name>`: JSON pages about parts of the scheduler.

A page is a callable from the query to records, which are encoded at once, on the loop, so that they
show one moment. Pages that could be long limit themselves.
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
            ValueError: the name is taken, or invalid in a path.
        """
        if not _NAME.match(name):
            msg = f"debug page {name!r}: use lower-case words, digits, - and /"
            raise ValueError(msg)
        if name in self._pages:
            msg = f"/debug/{name} exists already"
            raise ValueError(msg)
        self._pages[name] = page

    def names(self) -> tuple[str, ...]:
        """Return the names of all pages, sorted."""
        return tuple(sorted(self._pages))

    def get(self, name: str) -> Page | None:
        """Return a page, or None."""
        return self._pages.get(name)


def finish(encoded: bytes) -> bytes:
    """Return indented JSON without credentials, with a final newline.

    Takes a while for long pages, and may be called in a thread.
    """
    shown = redact(msgspec.json.decode(encoded), max_values=len(encoded))
    return msgspec.json.format(msgspec.json.encode(shown), indent=2) + b"\n"


def compact(data: object) -> bytes:
    """Return JSON in one line."""
    return msgspec.json.encode(data, enc_hook=_plain)


def _plain(value: Any) -> object:
    """Convert what msgspec cannot: NumPy scalars and arrays to numbers, the rest to text."""
    for method in ("tolist", "item"):
        convert = getattr(value, method, None)
        if callable(convert):
            return convert()
    return str(value)
