"""docs/coming-from-go.md names what exists: every method, member and plugin in its tables."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from config.go_plugins import GO_PLUGINS
from scheduler import framework, testing
from scheduler.framework import (
    BasePlugin,
    CycleState,
    Handle,
    NodeTableView,
    extension_points,
    plugin,
)
from scheduler.framework.plugin_class import class_problems

PAGE: Final = (Path(__file__).parents[3] / "docs" / "coming-from-go.md").read_text("utf-8")
MEMBERS: Final = {"handle": Handle, "state": CycleState, "table": NodeTableView}
OTHER_WORDS: Final = {
    "async", "args", "ctx", "args_type", "validate_args", "__init__", "clone", "None", "name",
    "scoringStrategy", "preemptionPolicy",
}  # fmt: skip
"""Of Python, of kube-scheduler's configuration, and of what a plugin may define."""


def cells(heading: str) -> list[list[str]]:
    """Return the rows of the table below a heading, without its head."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in rows[1:]]


def methods() -> dict[str, Any]:
    """Return what the Protocols declare, by name."""
    protocols = [each for _, each in inspect.getmembers(plugin, inspect.isclass)]
    protocols = [each for each in protocols if each.__module__ == plugin.__name__]
    return {name: value for each in protocols for name, value in vars(each).items()}


def words(*headings: str) -> Iterator[str]:
    """Yield the code in the columns that say what is here."""
    for heading in headings:
        for row in cells(heading):
            for cell in row[1:]:
                yield from re.findall(r"`([^`]+)`", cell)


WORDS: Final = sorted(set(words("Interfaces", "Statuses", "The framework's helpers")))


@pytest.mark.parametrize("word", WORDS)
def test_what_the_tables_name_exists(word: str) -> None:
    if word.startswith(("kubestow ", "kubestow.", "scheduler.")):
        return
    called = re.fullmatch(r"(\w+)\.(\w+)(?:\(.*\))?", word)
    if called and called[1] in MEMBERS:
        assert hasattr(MEMBERS[called[1]], called[2])
        return
    name = word.partition("(")[0]
    known = {*methods(), *vars(BasePlugin), *framework.__all__, *testing.__all__, *OTHER_WORDS}
    fields = {"requeue_after"}
    assert name in known | fields


@pytest.mark.parametrize(
    "word", [each for each in WORDS if re.fullmatch(r"\w+\((?:\w+, )*\w+\)", each)]
)
def test_the_parameters_of_methods_are_those_of_the_protocols(word: str) -> None:
    name, _, parameters = word.rstrip(")").partition("(")
    if name == "__init__":
        return
    declared = list(inspect.signature(methods()[name]).parameters)
    assert parameters.split(", ") == declared[1:]


def test_every_extension_point_is_in_the_table() -> None:
    text = " ".join(cell for row in cells("Interfaces") for cell in row)
    missing = [
        point.label
        for point in extension_points.EXTENSION_POINTS
        if not any(f"`{method}(" in text for method in point.methods)
    ]
    assert not missing


def test_every_plugin_of_scheduler_plugins_that_messages_name_is_in_the_table() -> None:
    text = " ".join(row[0] for row in cells("scheduler-plugins"))
    assert set(re.findall(r"`(\w+)`", text)) == set(GO_PLUGINS)


def test_the_plugin_of_the_page_loads() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, Any] = {"__name__": __name__}
    exec(compile(code, "docs/coming-from-go.md", "exec"), names)
    assert list(class_problems(names["AvoidRacks"])) == []
