"""docs/configuration.md explains the file, and leaves each key to the generated reference."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from config.schema import configuration_schema
from plugins import DEFAULT_PLUGINS, in_tree
from scheduler.cli.flags import FLAGS
from scheduler.framework import Registry

DOCUMENT: Final = (Path(__file__).parents[3] / "docs" / "configuration.md").read_text()


def section(heading: str) -> str:
    """The text below a heading, up to the next one."""
    found = re.search(
        rf"^#+ {re.escape(heading)}\n(.*?)(?=^#|\Z)", DOCUMENT, re.MULTILINE | re.DOTALL
    )
    assert found, heading
    return found[1]


def rows(text: str) -> Iterator[list[str]]:
    """The cells of each row of the tables in a text, heads included."""
    for line in text.splitlines():
        if line.startswith("| "):
            yield [cell.strip().strip("`") for cell in line.split("|")[1:-1]]


def test_no_table_describes_a_key_a_second_time() -> None:
    definitions = configuration_schema(Registry(in_tree()))["$defs"]
    keys = {key for each in definitions.values() for key in each.get("properties", {})}
    assert {"leaseDuration", "seed", "quotaMode"} <= keys
    heads = {"plugin"}  # Of the table of plugins, and a key of their isolation.
    assert [cells[0] for cells in rows(DOCUMENT) if cells[0] in keys - heads] == []


def test_every_option_of_the_process_is_listed_by_purpose() -> None:
    options = configuration_schema(Registry(in_tree()))["$defs"]["KubestowConfiguration"]
    listed = [key for cells in rows(section("kubestow")) for key in cells[1].split("`, `")]
    assert sorted(listed) == sorted(["keys", *options["properties"]])


def test_the_default_plugins_are_listed_in_order_with_weights() -> None:
    listed = [(cells[0], int(cells[1] or 0)) for cells in [*rows(section("Default plugins"))][1:]]
    assert listed == list(DEFAULT_PLUGINS)


def test_flags_in_the_document_exist_and_work() -> None:
    flags = {f"--{flag.name}": flag for flag in FLAGS}
    named = set(re.findall(r"`(--[a-z-]+)`", section("Flags")))
    assert named
    assert named <= set(flags)
    assert not [name for name in named if flags[name].no_effect]
