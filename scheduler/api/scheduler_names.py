"""Names of schedulers that are nearly those of others."""

from __future__ import annotations

import re
from collections.abc import Collection
from difflib import SequenceMatcher
from typing import Final

SIMILAR: Final = 0.8
"""Ratio of `difflib` from which on a name is taken for a slip: about one letter in five."""

MAX_LENGTH: Final = 253
"""Characters of a name that is looked at: to compare a megabyte, which may be stored, takes 1 s."""

_OTHERS: Final = re.compile(r"[^a-z0-9]+")


def nearest(name: str, ours: Collection[str]) -> str:
    """Return the name of ours that another one seems to mean, or nothing.

    A name that continues one of ours, or is its beginning, is likely another instance. One of more
    than `MAX_LENGTH` characters means none.

    >>> [nearest(each, ["kubestow"]) for each in ("kube-stow", "Kubestow", "kubstow")]
    ['kubestow', 'kubestow', 'kubestow']
    >>> [nearest(each, ["kubestow"]) for each in ("kubestow-canary", "default-scheduler", "kube")]
    ['', '', '']
    """
    if len(name) > MAX_LENGTH:
        return ""
    plain = _OTHERS.sub("", name.lower())
    for each in sorted(ours):
        own = _OTHERS.sub("", each.lower())
        if plain == own:
            return each
        continues = plain.startswith(own) or own.startswith(plain)
        if not continues and SequenceMatcher(None, plain, own).ratio() >= SIMILAR:
            return each
    return ""
