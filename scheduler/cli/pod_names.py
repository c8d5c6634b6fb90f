"""Names of pods and groups as people write them on command lines."""

from __future__ import annotations

from typing import Final

_KINDS: Final = ("pod/", "pods/", "po/", "podgroup/", "podgroups/", "pg/")
"""Beginnings of a name as kubectl takes and prints it."""


def without_kind(name: str) -> str:
    """Return a name without its kind, which kubectl writes in front.

    >>> without_kind("pod/web-0"), without_kind("shop/web-0")
    ('web-0', 'shop/web-0')
    """
    kind = next((each for each in _KINDS if name.startswith(each)), "")
    return name.removeprefix(kind)
