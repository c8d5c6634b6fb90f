"""Comparison of messages of rejections, to recognise those that say the same again."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

# A separate word, so that the 2 in a name (`team-2`) counts as text; with a unit (`1500m`, `2.5Gi`,
# `1m30s`). Possessive quantifiers, because plugins write these texts: no input makes it slow.
_NUMBER: Final = re.compile(r"(?<![\w.\-])-?(?:\d++(?:\.\d++)?[A-Za-z]{0,2}+)++(?![\w\-])")
# The text around a rejection at PreFilter, before any node was filtered.
_OF_NODES: Final = re.compile(r"\A\d+/\d+ nodes are available: ")
_OF_PREEMPTION: Final = re.compile(
    r"\. preemption: \d+/\d+ nodes are available: "
    r"\d+ Preemption is not helpful for scheduling\.\Z"
)


@lru_cache(maxsize=1024)
def message_class(message: str) -> str:
    """Return a message with its numbers replaced, to recognise changes of numbers only.

    >>> message_class("quota team-2 exceeded, used: requests.cpu=10, limited: requests.cpu=1500m")
    'quota team-2 exceeded, used: requests.cpu=#, limited: requests.cpu=#'
    """
    return _NUMBER.sub("#", plugin_message(message))


def plugin_message(message: str) -> str:
    """Return a plugin's message without the text that a scheduling attempt puts around it.

    The same rejection by a gate and by an attempt thus counts as unchanged.

    >>> plugin_message("0/5 nodes are available: no. preemption: 0/5 nodes are available: "
    ...      "5 Preemption is not helpful for scheduling.")
    'no'
    """
    inner, found = _OF_PREEMPTION.subn("", message)
    return _OF_NODES.sub("", inner) if found else message
