"""The amounts that a node may state: which resources there are, and what is refused."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Final

from scheduler.api.quantity import NANO, QuantityError, parse
from scheduler.sanitizing.names import is_qualified_name

NATIVE: Final = ("cpu", "memory", "ephemeral-storage", "pods")
"""The resources without a domain that every node has."""
_PREFIXES: Final = ("hugepages-", "attachable-volumes-")
_FRACTIONS: Final = ("cpu", "memory", "ephemeral-storage")
"""Resources of which an API server takes parts of one."""


def name_fault(name: str) -> str:
    """Return what is wrong with the name of a node's resource, and what to do; empty: nothing.

    >>> name_fault("nvidia.com/gpu"), name_fault("memroy")
    ('', 'no node has a resource memroy; did you mean memory?')
    """
    if name in NATIVE:
        return ""
    if "/" in name:
        return "" if is_qualified_name(name) else f"{name!r:.80} is no name of a resource"
    if any(name.startswith(each) and name != each for each in _PREFIXES):
        return ""
    near = nearest(name)
    if near:
        return f"no node has a resource {name:.80}; did you mean {near}?"
    return (
        f"no node has a resource {name:.80}: there are {', '.join(NATIVE)} and hugepages-SIZE; "
        "others have a domain, such as nvidia.com/gpu"
    )


def nearest(name: str) -> str:
    """Return the native resource that a misspelt name means; empty: none.

    >>> nearest("cpus"), nearest("gpu")
    ('cpu', '')
    """
    return next(iter(get_close_matches(name.lower(), NATIVE, 1, 0.7)), "")


def amount_fault(name: str, amount: str) -> str:
    """Return what is wrong with an amount of a node's resource; empty: nothing.

    >>> amount_fault("cpu", "1500m"), amount_fault("pods", "1.5")
    ('', '1.5 pods: give a whole number')
    """
    try:
        nano = parse(amount).nano
    except QuantityError as error:
        return f"{name:.80}: {error}"
    if nano < 0:
        return f"{amount:.40} {name}: must not be negative"
    if name not in _FRACTIONS and nano % NANO:
        return f"{amount:.40} {name}: give a whole number"
    return ""
