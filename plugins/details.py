"""Amounts, names and conditions in the details of rejections (`explain_rejection`).

Details are for people. Everything that a pod or a node can make long is bounded.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

from scheduler.api import selectors
from scheduler.api.selectors import CompiledLabelSelector, Requirement

MAX_ITEMS: Final = 5
_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_SYMBOLS: Final = {selectors.GREATER: ">", selectors.LESS: "<"}


def amount(resource: str, value: int) -> str:
    """Return an amount of a resource of a node, with three significant digits.

    >>> amount("cpu", 3500), amount("memory", 7 * 2**30 + 2**29), amount("example.com/gpu", 2)
    ('3.5', '7.5Gi', '2')
    """
    if resource == "cpu":
        return f"{value / 1000:g}"
    if resource not in {"memory", "ephemeral-storage"} and not resource.startswith("hugepages-"):
        return str(value)
    scaled, power = float(value), 0
    while abs(scaled) >= 1024 and power < len(_BINARY) - 1:
        scaled, power = scaled / 1024, power + 1
    return f"{scaled:.3g}{_BINARY[power]}" if scaled < 999.5 else f"{scaled:.0f}{_BINARY[power]}"


def listed(texts: Iterable[str], count: int, separator: str = ", ") -> str:
    """Join at most `MAX_ITEMS` of `count` texts, and say how many more there are.

    >>> listed(["a", "b"], 2), listed("abcdefgh", 8)
    ('a, b', 'a, b, c, d, e and 3 more')
    """
    shown = separator.join(islice(texts, MAX_ITEMS))
    return shown if count <= MAX_ITEMS else f"{shown} and {count - MAX_ITEMS} more"


def condition(requirement: Requirement) -> str:
    """Return one condition on a label as people write it.

    >>> condition(Requirement("zone", "In", ["b", "a"])), condition(Requirement("gpu", "Exists"))
    ('zone in (a, b)', 'gpu exists')
    """
    key, operator, values = requirement.key, requirement.operator, requirement.values
    if operator == selectors.EXISTS:
        return f"{key} exists"
    if operator == selectors.DOES_NOT_EXIST:
        return f"{key} does not exist"
    if operator in {selectors.IN, selectors.NOT_IN}:
        if len(values) == 1:
            return f"{key}{'=' if operator == selectors.IN else '!='}{values[0]}"
        word = "in" if operator == selectors.IN else "not in"
        return f"{key} {word} ({listed(values, len(values))})"
    return f"{key} {_SYMBOLS.get(operator, operator)} {listed(values, len(values))}"


def label_selector(selector: CompiledLabelSelector) -> str:
    """Return a label selector as people write it."""
    if selector.nothing:
        return "no pod"
    if selector.empty:
        return "every pod"
    return listed(map(condition, selector.requirements), len(selector.requirements))
