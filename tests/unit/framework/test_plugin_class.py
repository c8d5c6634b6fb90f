"""Faults of plugin classes: each is named with the right form, and correct classes have none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

import plugins
from scheduler.framework import NEVER, Permission
from scheduler.framework.plugin_class import class_problems


class Correct:
    """Everything that a class may have besides the methods of one point."""

    name = "example.com/Correct"
    required_resources = ("services",)
    optional_resources: ClassVar[dict[str, str]] = {"services": "nothing is spread"}
    permissions = (Permission(resource="nodes", verbs=("get",), purpose="x"),)
    score_reuse = NEVER
    timeout = 2
    #: Of its own, and like nothing that the framework calls.
    weights: ClassVar[dict[str, int]] = {}

    def __init__(self, args: object, handle: object) -> None: ...

    async def pre_filter(self, state: Any, pod: Any, table: Any) -> None: ...

    @staticmethod
    def filter(state: Any, pod: Any, node: Any, *, strict: bool = False) -> None: ...

    def events_to_register(self) -> Iterator[Any]:
        yield from ()

    def pre_filters(self) -> None: ...

    @property
    def used(self) -> int:
        return 0


def problems_with(**members: Any) -> list[str]:
    """Return the problems of `Correct` with other members; None removes one."""
    bases = {name: value for name, value in vars(Correct).items() if not name.startswith("__")}
    members = {"__init__": Correct.__init__, **bases, **members}
    kept = {name: value for name, value in members.items() if value is not None}
    return list(class_problems(type("Changed", (), kept)))


def test_a_correct_class_has_no_problems() -> None:
    assert list(class_problems(Correct)) == []


@pytest.mark.parametrize("factory", plugins.in_tree())
def test_in_tree_classes_have_no_problems(factory: Any) -> None:
    # Reserved for them: their metrics have the names of upstream, or of kubestow.
    reserved = re.compile(r"names that begin with (?:scheduler|kubestow)_ are reserved")
    assert [each for each in class_problems(factory) if not reserved.search(each)] == []


def test_factories_that_are_no_classes_are_not_read() -> None:
    assert list(class_problems(lambda args, handle: None)) == []


FILTER = "def filter(self, state, pod, node) -> Status | None"


def _misspelt(self: Any, state: Any, pod: Any, node: Any) -> None: ...


async def _awaited(self: Any, state: Any, pod: Any, node: Any) -> None: ...


def _generator(self: Any, state: Any, pod: Any, node: Any) -> Any:
    yield


def _too_few(self: Any, pod: Any) -> None: ...


def _initialised_wrongly(self: Any, args: Any) -> None: ...


@pytest.mark.parametrize(
    ("members", "parts"),
    [
        ({"filter": None, "fliter": _misspelt}, ("fliter", FILTER, "_fliter")),
        ({"filter": None, "Filter": _misspelt}, ("Filter", FILTER)),
        ({"NormalizeScore": _misspelt}, ("def normalize_scores(self, state, pod, table, rows,",)),
        ({"PreScore": staticmethod(_misspelt)}, ("def pre_score(self, state, pod, table,",)),
        ({"args_types": type("Args", (), {})}, ("args_types", "`args_type = ...`")),
        ({"required_resources": None, "required_resource": ()}, ("`required_resources = ...`",)),
        ({"filter": _awaited}, ("filter must not be async", FILTER)),
        ({"filter": _generator}, ("filter has a yield", FILTER)),
        ({"filter": _too_few}, ("filter(self, pod) cannot be called with (state, pod, node)",)),
        ({"filter": 5}, ("filter is 5", FILTER)),
        ({"__init__": _initialised_wrongly}, ("__init__(args)", "__init__(self, args, handle)")),
        ({"args_type": dict}, ("args_type is <class 'dict'>", "msgspec Struct")),
        ({"required_resources": "pods"}, ("required_resources is 'pods'", "a tuple of plurals")),
        ({"permissions": ["get"]}, ("a tuple of Permission",)),
        ({"timeout": "5s"}, ("timeout is '5s'", "seconds")),
        ({"name": None}, ("declares no name",)),
        ({"name": ""}, ("name is ''",)),
        ({"unreserve": _misspelt}, ("unreserve without reserve", "def reserve(")),
        ({"normalize_scores": lambda *_: None}, ("without score or score_rows",)),
        ({"filter_rows": lambda *_: None}, ("filter_rows without filter_status",)),
        (
            {
                "filter": None,
                "filter_rows": lambda *_: None,
                "filter_status": lambda *_: None,
            },
            ("filter_rows without filter: preemption", FILTER),
        ),
    ],
)
def test_a_fault_is_named_with_the_right_form(
    members: dict[str, Any], parts: tuple[str, ...]
) -> None:
    (problem,) = problems_with(**members)
    for part in parts:
        assert part in problem


def test_a_class_without_extension_point_would_never_be_called() -> None:
    (problem,) = problems_with(filter=None, pre_filter=None, pre_filters=None)
    assert problem.startswith("no method of an extension point")
