"""The generated files of docs/ are current, and say what the code says."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from types import ModuleType

import click
import pytest

from config.schema import Schema, configuration_schema
from devtools.references import FILES, commands, configuration, plugin_api
from devtools.references.markdown import cell
from plugins import in_tree
from scheduler import api, framework, testing
from scheduler.cli.flags import FLAGS
from scheduler.framework import Registry
from tests.unit.repository.tree import ROOT


@pytest.mark.parametrize("name", FILES)
def test_a_generated_file_is_current(name: str) -> None:
    path = ROOT / "docs" / name
    assert path.read_text(encoding="utf-8") == FILES[name](), "run `make references`"


def test_every_command_has_a_section() -> None:
    def paths(context: click.Context) -> list[str]:
        command = context.command
        found = [context.command_path]
        if isinstance(command, click.Group):
            for name in command.list_commands(context):
                below = command.get_command(context, name)
                assert below is not None
                found += paths(click.Context(below, parent=context, info_name=name))
        return found

    text = "".join(page() for page in commands.FILES.values())
    headings = re.findall(r"^##+ (.+)$", text, re.MULTILINE)
    assert headings == paths(commands.root())


def test_the_page_leaves_the_program_as_it_is() -> None:
    """In a process of its own, where nothing has called the program before."""
    code = (
        "from devtools.references import commands; commands.index(); commands.page('Use')\n"
        "from scheduler.cli.main import program; program(['-h'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_flag_has_its_row() -> None:
    rows = [line for line in commands.page("Use").splitlines() if line.startswith("| `")]
    assert [flag.name for flag in FLAGS if not any(f"--{flag.name}" in row for row in rows)] == []


def rows_of(page: str, heading: str) -> dict[str, list[str]]:
    """Return the cells of the table below a heading by its first one."""
    section = re.split(r"^##+ ", page.partition(f"# {heading}\n")[2], flags=re.MULTILINE)[0]
    lines = [
        re.split(r" (?<!\\)\| ", line[2:-2]) for line in section.splitlines() if line[:1] == "|"
    ]
    return {cells[0].strip("`"): cells[1:] for cells in lines[1:]}


def test_every_key_has_its_type_and_meaning() -> None:
    page = configuration.page()
    definitions: Mapping[str, Schema] = configuration_schema(Registry(in_tree()))["$defs"]
    for name, definition in definitions.items():
        keys = set(definition.get("properties", {})) - {"apiVersion", "kind"}
        rows = rows_of(page, name)
        assert keys <= set(rows), name
        assert not [key for key in keys if rows[key][2] == "-"], f"{name}: say what they mean"


def test_types_and_defaults_read_as_in_yaml() -> None:
    rows = rows_of(configuration.page(), "LeaderElectionConfiguration")
    assert rows["leaseDuration"][:2] == ["duration", "`15s`"]
    assert rows["leaderElect"][:2] == ["boolean", "`true`"]
    rows = rows_of(configuration.page(), "KubestowConfiguration")
    assert rows["bindConcurrency"][:2] == ["integer, 1 to 10000", "`100`"]


@pytest.mark.parametrize("package", [framework, api, testing])
def test_every_public_name_of_a_package_for_plugins_is_on_the_page(package: ModuleType) -> None:
    page = "".join(map(plugin_api.page, plugin_api.PAGES))
    missing = [name for name in package.__all__ if not re.search(rf"\b{name}\b", page)]
    assert not missing


def test_a_function_has_the_name_by_which_it_is_imported() -> None:
    section = plugin_api.page("objects").partition("### parse_quantity\n")[2].partition("\n### ")[0]
    assert "def parse_quantity(text: RawQuantity) -> Quantity" in section


def test_a_method_has_signature_text_and_sections() -> None:
    page = plugin_api.page("plugins")
    section = page.partition("### PreFilterPlugin\n")[2].partition("\n### ")[0]
    assert "def pre_filter(" in section
    assert "Returns: None to go on with all nodes" in section
    assert "pre_filter_reusable: ClassVar[bool] = False" in section
    assert "Whether the result and all state that the plugin writes" in section


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\n b", "a b"),
        ("x | `a|b`", "x \\| `a\\|b`"),
        ("<error> but `<code>`", "&lt;error> but `<code>`"),
        ("a trailing *", "a trailing \\*"),
        ("", "-"),
    ],
)
def test_a_cell_is_one_line_without_markup(text: str, expected: str) -> None:
    assert cell(text) == expected
