"""Limits of YAML text, checked before anything is made of it.

Three things make a short text expensive: nesting, on which libyaml's composer overflows the stack
of the process; aliases, each of which repeats what its anchor names, aliases included; and numbers
in base 60 (`1:30:00`), for which PyYAML needs time that is quadratic in their length. They are
found in the events of the parser, which needs memory for one event only. Does not check whether
the text is valid otherwise.
"""

from __future__ import annotations

import re
from typing import Any, Final

import yaml

MAX_DEPTH: Final = 200
"""Nesting: several times that of any object."""
MAX_REPEATED: Final = 16 << 20
"""Values and characters that all aliases of a file together may repeat."""
MAX_BASE_60: Final = 100
"""Characters of a number in base 60."""

_BASE_60: Final = re.compile(r"[-+0-9_:.]+")

Loader: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class YamlLimitError(ValueError):
    """A text beyond a limit; the message names the limit."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        #: From 1.
        self.line = line


def check_limits(data: bytes | str) -> None:
    """Check nesting, aliases and numbers in base 60.

    Raises:
        YamlLimitError: a limit is exceeded.
        yaml.YAMLError: the text is no YAML.
    """
    check = _Check()
    for event in yaml.parse(data, Loader=Loader):
        try:
            check.take(event)
        except ValueError as error:
            line = 0 if event.start_mark is None else event.start_mark.line
            raise YamlLimitError(str(error), line + 1) from error


class _Check:
    """The state of one pass over the events of a text."""

    def __init__(self) -> None:
        #: Of each collection that is open: its anchor, and values and characters before it.
        self._open: list[tuple[str | None, int]] = []
        #: Values and characters so far, aliases expanded.
        self._count = 0
        #: What each anchor of the document names, in values and characters; 0 while it is open.
        self._sizes: dict[str, int] = {}
        self._repeated = 0

    def take(self, event: Any) -> None:
        """Count an event. Raises ValueError."""
        if isinstance(event, yaml.ScalarEvent):
            size = 1 + len(event.value)
            # Quoted text is no number.
            if size > MAX_BASE_60 and event.implicit[0] and _is_base_60(event.value):
                raise ValueError(f"a number of more than {MAX_BASE_60} characters in base 60")
            self._count += size
            if event.anchor is not None:
                self._sizes[event.anchor] = size
        elif isinstance(event, yaml.CollectionStartEvent):
            if event.anchor is not None:
                self._sizes[event.anchor] = 0
            self._open.append((event.anchor, self._count))
            self._count += 1
            if len(self._open) > MAX_DEPTH:
                raise ValueError(f"nested too deeply: more than {MAX_DEPTH} levels")
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = self._open.pop()
            if anchor is not None:
                self._sizes[anchor] = self._count - before
        elif isinstance(event, yaml.AliasEvent):
            self._repeat(event.anchor or "")
        elif isinstance(event, yaml.DocumentEndEvent):
            self._sizes.clear()

    def _repeat(self, anchor: str) -> None:
        # An anchor that is not known is an error of the text, which the composer reports.
        size = self._sizes.get(anchor, 1)
        if not size:
            raise ValueError(f"the alias *{anchor:.40} contains itself")
        self._count += size
        self._repeated += size
        if self._repeated > MAX_REPEATED:
            raise ValueError(
                f"its aliases repeat more than {MAX_REPEATED >> 20} Mi values and characters"
            )


def located(error: Exception) -> tuple[int, str]:
    """Return the line of an error of reading YAML, 0 where it has none, and what is wrong.

    >>> try:
    ...     yaml.safe_load("a: [")
    ... except yaml.YAMLError as error:
    ...     located(error)
    (1, "expected the node content, but found '<stream end>'")
    """
    mark = getattr(error, "problem_mark", None)
    line = getattr(error, "line", 0) if mark is None else mark.line + 1
    return int(line), " ".join(str(getattr(error, "problem", None) or error).split())


def _is_base_60(text: str) -> bool:
    return ":" in text and _BASE_60.fullmatch(text) is not None
