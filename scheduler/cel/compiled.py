"""Compiled nodes: a function with what is known about its value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from scheduler.cel.evaluation import Code, Evaluation
from scheduler.cel.types import Type


@dataclass(frozen=True, slots=True)
class Compiled:
    """A compiled node."""

    type: Type
    code: Code
    #: Whether the value is known; `code` then ignores the evaluation and costs nothing.
    is_constant: bool = False
    #: Whether it is a variable followed by fields and indexes only, which matters for the cost.
    is_attribute: bool = False
    #: The position of a variable, and the constant keys that follow it: `device.attributes["x"]`.
    path: tuple[int, tuple[str, ...]] | None = None


def constant(kind: Type, value: Any) -> Compiled:
    """Return the compiled form of a known value."""
    return Compiled(kind, lambda evaluation: value, is_constant=True)


NOTHING: Final = Evaluation([])
"""The evaluation that is passed to constants."""
