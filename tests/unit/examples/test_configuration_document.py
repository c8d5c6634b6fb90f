"""docs/configuration.md names every option with its default, every default plugin, every flag."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from config import (
    ClientConnectionConfiguration,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    KubestowConfiguration,
    LeaderElectionConfiguration,
    NodeProvisioningBridgeConfiguration,
    TracingConfiguration,
    format_duration,
    load_configuration,
)
from plugins import DEFAULT_PLUGINS, in_tree
from scheduler.cli.flags import FLAGS
from scheduler.framework import Registry

DOCUMENT: Final = (Path(__file__).parents[3] / "docs" / "configuration.md").read_text()

SECTIONS: Final[dict[str, type[msgspec.Struct]]] = {
    "Top level": KubeSchedulerConfiguration,
    "leaderElection": LeaderElectionConfiguration,
    "clientConnection": ClientConnectionConfiguration,
    "profiles": KubeSchedulerProfile,
    "kubestow": KubestowConfiguration,
    "nodeProvisioningBridge": NodeProvisioningBridgeConfiguration,
    "tracing": TracingConfiguration,
}

#: Cells that describe a default which is no plain value.
DESCRIBED: Final = {
    *("", "none", "own", "one", "top level", "default plugins", "random", "protobuf", "as qps"),
    "by autoscaler",
}


def section(heading: str) -> str:
    """The text below a heading, up to the next one."""
    found = re.search(
        rf"^#+ {re.escape(heading)}\n(.*?)(?=^#|\Z)", DOCUMENT, re.MULTILINE | re.DOTALL
    )
    assert found, heading
    return found[1]


def rows(heading: str) -> Iterator[tuple[str, str]]:
    """(first cell, second cell) of the table in a section, without its head."""
    lines = [line for line in section(heading).splitlines() if line.startswith("|")]
    for line in lines[2:]:
        cells = [cell.strip() for cell in line.split("|")]
        yield cells[1].strip("`"), cells[2].strip("`")


def effective() -> Any:
    return load_configuration(
        None, registry=Registry(in_tree()), default_plugins=DEFAULT_PLUGINS
    ).effective


def shown(value: object) -> str:
    if isinstance(value, timedelta):
        return format_duration(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)


@pytest.mark.parametrize("heading", SECTIONS)
def test_every_option_is_named_and_no_other(heading: str) -> None:
    fields = set(SECTIONS[heading].__struct_encode_fields__) - {"apiVersion", "kind"}
    assert {name for name, _ in rows(heading)} == fields


@pytest.mark.parametrize("heading", SECTIONS)
def test_defaults_are_those_in_force(heading: str) -> None:
    whole = effective()
    owner = {
        "Top level": whole,
        "leaderElection": whole.leader_election,
        "clientConnection": whole.client_connection,
        "profiles": whole.profiles[0],
        "kubestow": whole.kubestow,
        "nodeProvisioningBridge": whole.kubestow.node_provisioning_bridge,
        "tracing": TracingConfiguration(),
    }[heading]
    struct = SECTIONS[heading]
    names = dict(zip(struct.__struct_encode_fields__, struct.__struct_fields__, strict=True))
    wrong = {
        name: (default, shown(getattr(owner, names[name])))
        for name, default in rows(heading)
        if default not in DESCRIBED and default != shown(getattr(owner, names[name]))
    }
    assert not wrong


def test_the_default_plugins_are_listed_in_order_with_weights() -> None:
    listed = [(name, int(weight or 0)) for name, weight in rows("Default plugins")]
    assert listed == list(DEFAULT_PLUGINS)


def test_flags_in_the_document_exist_and_work() -> None:
    flags = {f"--{flag.name}": flag for flag in FLAGS}
    named = set(re.findall(r"`(--[a-z-]+)`", section("Flags")))
    assert named <= set(flags)
    assert not [name for name in named if flags[name].no_effect]
    silent = {name for name, flag in flags.items() if not flag.no_effect} - named
    assert silent <= {"--leader-elect-resource-lock", "--profiling", "--permit-port-sharing", "--v"}
