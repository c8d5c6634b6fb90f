"""Static checks of a plugin class.

Plugins have no common base class, so a misspelt method would never be called, and one with other
parameters would fail for every pod. `class_problems` compares a class with the Protocols of
`plugin` when the class is loaded.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from scheduler.api.meta import Named
from scheduler.framework import plugin as protocols
from scheduler.framework.extension_points import EXTENSION_POINTS
from scheduler.framework.metric import metric_problems
from scheduler.framework.permissions import Permission
from scheduler.framework.reuse import ReuseRule

SIMILAR: Final = 0.8
"""Ratio of `difflib` from which on a name is taken for a misspelling: about one letter in five."""

_NEEDS: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    "filter_rows": (
        ("filter",),
        "preemption filters hypothetical nodes, of which the table has no rows",
    ),
    "filter_status": (("filter_rows",), "it translates the codes of that method"),
    "filter_without_victims": (("filter_rows",), "it stands in for that method in preemption"),
    "normalize_scores": (("score", "score_rows"), "there are no scores to normalize"),
    "unreserve": (("reserve",), "there is nothing to undo"),
    "pre_bind_pre_flight": (("pre_bind",), "there is no work to announce"),
    "add_pod": (("pre_filter",), "there is no state to update"),
    "remove_pod": (("pre_filter",), "there is no state to update"),
    "relax": (("pre_filter",), "there is nothing to repeat"),
    "held": (("pre_enqueue",), "no pod is gated"),
}
"""Methods that the framework calls only if the class also has one of these others, and why."""


@dataclass(frozen=True, slots=True)
class _Method:
    """A method that the framework calls."""

    name: str
    #: Parameter names as in the Protocol, without `self`.
    parameters: tuple[str, ...]
    returns: str
    may_be_async: bool

    def form(self) -> str:
        """Return the first line of a correct definition."""
        return f"def {self.name}({', '.join(('self', *self.parameters))}) -> {self.returns}"


def _methods() -> dict[str, _Method]:
    """Return the methods that the Protocols of `plugin` declare, by name."""
    found: dict[str, _Method] = {}
    asynchronous = set()
    for protocol in vars(protocols).values():
        if not inspect.isclass(protocol) or protocols.Plugin not in protocol.__mro__:
            continue
        for name, function in vars(protocol).items():
            if name.startswith("_") or not inspect.isfunction(function):
                continue
            returns = str(function.__annotations__["return"])
            if inspect.iscoroutinefunction(function) or "Awaitable" in returns:
                asynchronous.add(name)
            parameters = tuple(inspect.signature(function).parameters)[1:]
            found[name] = _Method(name, parameters, returns, name in asynchronous)
    return found


_METHODS: Final = _methods()

_HELPERS: Final = frozenset(("validate_args",))
"""Functions of a plugin class that the configuration calls instead of the framework."""


def _is_strings(value: object) -> bool:
    return isinstance(value, tuple | list | frozenset) and all(
        isinstance(each, str) for each in value
    )


def _is_permissions(value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(each, Permission) for each in value)


def _is_texts(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(each, str) for each in value.values())


def _is_types(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        inspect.isclass(each) and issubclass(each, Named) for each in value.values()
    )


def _is_rule(value: object) -> bool:
    return value is None or isinstance(value, ReuseRule)


def _is_bool(value: object) -> bool:
    return isinstance(value, bool)


_ATTRIBUTES: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = {
    "name": (lambda value: isinstance(value, str) and bool(value), "a text"),
    "args_type": (
        lambda value: inspect.isclass(value) and issubclass(value, msgspec.Struct),
        "a msgspec Struct class",
    ),
    "required_resources": (_is_strings, 'a tuple of plurals, such as ("services",)'),
    "optional_resources": (_is_texts, "a mapping of plurals to what does not happen without them"),
    "resource_types": (_is_types, "a mapping of references, group/version/plural, to struct types"),
    "permissions": (_is_permissions, "a tuple of Permission"),
    "metrics": (lambda value: isinstance(value, tuple), "a tuple of Metric"),
    "restart_on_change": (_is_bool, "True or False"),
    "timeout": (
        lambda value: isinstance(value, int | float) and value > 0,
        "a positive number of seconds",
    ),
    "filter_reuse": (_is_rule, "a ReuseRule, or NEVER"),
    "score_reuse": (_is_rule, "a ReuseRule, or NEVER"),
    "filter_depends_only_on_table": (_is_bool, "True or False"),
    "normalizes_by_highest": (_is_bool, "True or False"),
    "permit_on_events": (_is_bool, "True or False"),
    "pre_filter_reusable": (_is_bool, "True or False"),
    "pre_score_reusable": (_is_bool, "True or False"),
}
"""Class attributes that the framework reads; for each a check, and the expected type in words."""


def read_attributes() -> tuple[str, ...]:
    """Return the names of the class attributes that the framework reads."""
    return tuple(_ATTRIBUTES)


def framework_methods() -> tuple[str, ...]:
    """Return the names of the methods that the framework calls."""
    return tuple(_METHODS)


def class_problems(factory: Any) -> Iterator[str]:
    """Yield a sentence for each error in a plugin class; nothing for other callables.

    Methods that the framework does not know are taken for the plugin's own, unless their name is a
    likely misspelling of one that it calls.
    """
    if not inspect.isclass(factory):
        return
    members = _members(factory)
    if "name" not in members:
        yield 'it declares no name: add `name = "..."`, with a prefix of your own'
    yield from _constructor_problems(factory)
    for name, value in members.items():
        if name in _METHODS:
            yield from _method_problems(factory, _METHODS[name])
        elif name in _ATTRIBUTES:
            yield from _attribute_problems(name, value)
        elif right := _meant(name, value, members):
            yield (
                f"the framework does not know {name}: did you mean `{right}`? "
                f"If it is the plugin's own, call it _{name}"
            )
    for name, (others, why) in _NEEDS.items():
        if name in members and not any(each in members for each in others):
            wanted = " or ".join(_METHODS[each].form() for each in others)
            yield f"{name} without {' or '.join(others)}: {why}; add {wanted}"
    if "filter_rows" in members and "filter_status" not in members:
        form = _METHODS["filter_status"].form()
        yield f"filter_rows without filter_status, which words the rejections; add {form}"
    spelt_wrong = any(_meant(name, value, members) for name, value in members.items())
    if not (spelt_wrong or any(point.implemented_by(factory) for point in EXTENSION_POINTS)):
        known = ", ".join(each for point in EXTENSION_POINTS for each in point.methods)
        yield f"no method of an extension point, so it would never be called; write one of {known}"


def _members(factory: type) -> dict[str, Any]:
    """Return the public members of the class and its bases, by name."""
    return {
        name: value
        for each in reversed(factory.__mro__)
        if each is not object
        for name, value in vars(each).items()
        if not name.startswith("_")
    }


def _attribute_problems(name: str, value: Any) -> Iterator[str]:
    fits, wanted = _ATTRIBUTES[name]
    if isinstance(value, property) or _is_slot(value):
        return
    if not fits(value):
        yield f"{name} is {value!r:.60}: give {wanted}"
    elif name == "metrics":
        yield from metric_problems(value)


def _is_slot(value: object) -> bool:
    return inspect.ismemberdescriptor(value) or inspect.isgetsetdescriptor(value)


def _constructor_problems(factory: type) -> Iterator[str]:
    try:
        inspect.signature(factory).bind(None, None)
    except TypeError:
        written = _shown("__init__", inspect.signature(factory))
        form = "def __init__(self, args, handle) -> None"
        yield f"{written} cannot be called with arguments and Handle; write {form}"
    except ValueError:
        # A class implemented in C has no signature.
        return


def _method_problems(factory: type, method: _Method) -> Iterator[str]:
    function = getattr(factory, method.name)
    if not callable(function):
        yield f"{method.name} is {function!r:.60}; write {method.form()}"
        return
    if inspect.iscoroutinefunction(function) and not method.may_be_async:
        yield f"{method.name} must not be async: its result is used at once; write {method.form()}"
    elif inspect.isasyncgenfunction(function) or (
        inspect.isgeneratorfunction(function) and "Sequence" not in method.returns
    ):
        yield f"{method.name} has a yield, so it returns a generator; write {method.form()}"
    static = inspect.getattr_static(factory, method.name)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    count = len(method.parameters) + (0 if isinstance(static, staticmethod | classmethod) else 1)
    try:
        signature.bind(*[None] * count)
    except TypeError:
        given = ", ".join(method.parameters)
        written = _shown(method.name, signature)
        yield f"{written} cannot be called with ({given}); write {method.form()}"


def _shown(name: str, signature: inspect.Signature) -> str:
    parameters = [
        str(each.replace(annotation=each.empty)) for each in signature.parameters.values()
    ]
    return f"{name}({', '.join(parameters)})"


def _meant(name: str, value: object, members: Mapping[str, Any]) -> str | None:
    """Return the correct form of a member that seems misspelt; None if it is the plugin's own."""
    if name in _METHODS or name in _ATTRIBUTES or name in _HELPERS:
        return None
    function = not inspect.isclass(value) and (
        callable(value) or isinstance(value, staticmethod | classmethod)
    )
    meant = _nearest(name, _METHODS if function else _ATTRIBUTES)
    if meant is None or meant in members:
        return None
    return _METHODS[meant].form() if function else f"{meant} = ..."


def _nearest(name: str, known: Mapping[str, Any]) -> str | None:
    """Return the known name that `name` probably misspells; None if there is none.

    >>> _nearest("PreFilter", _METHODS), _nearest("fliter", _METHODS), _nearest("fits", _METHODS)
    ('pre_filter', 'filter', None)
    """
    plain = {each.replace("_", ""): each for each in known}
    found = difflib.get_close_matches(
        name.replace("_", "").lower(), list(plain), n=1, cutoff=SIMILAR
    )
    return plain[found[0]] if found else None
