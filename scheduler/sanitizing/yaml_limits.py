"""Limits of YAML text, and repeated keys, checked before anything is made of it.

Three things make a short text expensive: nesting, on which libyaml's composer overflows the stack
of the process; aliases, each of which repeats what its anchor names, aliases included; and numbers
in base 60 (`1:30:00`), for which PyYAML needs time that is quadratic in their length. They are
found in the events of the parser, which needs memory for one event and the keys of the mappings
that are open. Does not check whether the text is valid otherwise.

A key that is there twice in one mapping is an error (YAML 1.2, section 3.2.1.1), but PyYAML takes
the last value: two outputs of `kubectl get -o yaml` in one file would lose the first one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
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


_MERGE: Final = "<<"


class YamlLimitError(ValueError):
    """A text beyond a limit, or with a repeated key; the message names it."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        #: From 1.
        self.line = line


def check_limits(data: bytes | str, *, unique_keys: bool = True) -> None:
    """Check nesting, aliases and numbers in base 60, and that no mapping has a key twice.

    Raises:
        YamlLimitError: a limit is exceeded, or a key repeated.
        yaml.YAMLError: the text is no YAML.
    """
    check = _Check(unique_keys=unique_keys)
    for event in yaml.parse(data, Loader=Loader):
        try:
            check.take(event)
        except ValueError as error:
            line = 0 if event.start_mark is None else event.start_mark.line
            raise YamlLimitError(str(error), line + 1) from error


@dataclass(slots=True)
class _Open:
    """A collection whose end was not seen yet."""

    anchor: str | None
    before: int
    """Values and characters before it."""
    keys: set[str] | None
    """Of a mapping."""
    at_key: bool = True
    """Whether a key comes next in the mapping."""


class _Check:
    """The state of one pass over the events of a text."""

    def __init__(self, *, unique_keys: bool) -> None:
        self._unique_keys = unique_keys
        self._open: list[_Open] = []
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
            self._note_node(event.value)
            self._count += size
            if event.anchor is not None:
                self._sizes[event.anchor] = size
        elif isinstance(event, yaml.CollectionStartEvent):
            if event.anchor is not None:
                self._sizes[event.anchor] = 0
            self._note_node(None)
            is_mapping = self._unique_keys and isinstance(event, yaml.MappingStartEvent)
            self._open.append(_Open(event.anchor, self._count, set() if is_mapping else None))
            self._count += 1
            if len(self._open) > MAX_DEPTH:
                raise ValueError(f"nested too deeply: more than {MAX_DEPTH} levels")
        elif isinstance(event, yaml.CollectionEndEvent):
            ended = self._open.pop()
            if ended.anchor is not None:
                self._sizes[ended.anchor] = self._count - ended.before
        elif isinstance(event, yaml.AliasEvent):
            self._note_node(None)
            self._repeat(event.anchor or "")
        elif isinstance(event, yaml.DocumentEndEvent):
            self._sizes.clear()

    def _note_node(self, scalar: str | None) -> None:
        """Note a key, an item or a value of the innermost collection."""
        if not self._open or (keys := (within := self._open[-1]).keys) is None:
            return
        if within.at_key and scalar is not None and scalar != _MERGE:
            if scalar in keys:
                raise ValueError(
                    f'the key "{scalar:.60}" is repeated, so that its first value would be lost; '
                    'put "---" between objects, and each key into its object once'
                )
            keys.add(scalar)
        within.at_key = not within.at_key

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
