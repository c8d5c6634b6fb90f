"""BasePlugin names every class attribute that the framework reads, with the default in effect."""

from __future__ import annotations

import ast
from collections import defaultdict
from typing import Any, get_type_hints

import pytest

from scheduler.engine.plugin_calls import DEFAULT_TIMEOUT
from scheduler.framework import BasePlugin, Metric, NoArgs, registry
from scheduler.framework import plugin as protocols
from scheduler.framework.plugin_class import class_problems, read_attributes
from tests.unit.repository.tree import ROOT


def test_it_has_the_attributes_that_are_checked_when_a_class_is_loaded() -> None:
    assert set(get_type_hints(BasePlugin)) == set(read_attributes())


@pytest.fixture(scope="module")
def defaults() -> dict[object, set[str]]:
    """Return the expressions that the framework gives `getattr` as defaults, by attribute."""
    found: defaultdict[object, set[str]] = defaultdict(set)
    for folder in ("engine", "framework", "queue", "service"):
        for path in (ROOT / "scheduler" / folder).rglob("*.py"):
            for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if (
                    isinstance(call, ast.Call)
                    and ast.unparse(call.func) == "getattr"
                    and len(call.args) == 3
                    and isinstance(call.args[1], ast.Constant)
                ):
                    found[call.args[1].value].add(ast.unparse(call.args[2]))
    return found


@pytest.mark.parametrize("name", sorted(set(read_attributes()) - {"name"}))
def test_its_defaults_are_those_of_a_class_without_the_attribute(
    defaults: dict[object, set[str]], name: str
) -> None:
    """The defaults stand in the `getattr` calls of the framework."""
    known = {"DEFAULT_TIMEOUT": DEFAULT_TIMEOUT, "NoArgs": NoArgs}
    for each in defaults[name]:
        value = known[each] if each in known else ast.literal_eval(each)
        assert (value or None) == (getattr(BasePlugin, name) or None)


def test_the_protocols_declare_the_same_defaults() -> None:
    for protocol in vars(protocols).values():
        if isinstance(protocol, type):
            for name in (set(read_attributes()) - {"name"}) & set(vars(protocol)):
                assert vars(protocol)[name] == getattr(BasePlugin, name)


def test_a_subclass_is_loaded_like_any_other_class() -> None:
    class Rack(BasePlugin):
        name = "example.com/Rack"
        metrics = (Metric("example_racks", "gauge", "Racks."),)

        def __init__(self, args: Any, handle: Any) -> None: ...

        def filter(self, state: Any, pod: Any, node: Any) -> None: ...

    assert list(class_problems(Rack)) == []
    assert registry.args_type(Rack) is NoArgs


def test_the_base_class_alone_takes_part_in_nothing() -> None:
    class Empty(BasePlugin):
        name = "example.com/Empty"

        def __init__(self, args: Any, handle: Any) -> None: ...

    (problem,) = class_problems(Empty)
    assert "no method of an extension point" in problem
