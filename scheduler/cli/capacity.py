"""The questions of `kubestow simulate` about capacity, and how their answers are printed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from scheduler.cli.manifests import STDIN, documents, named, shown
from scheduler.cli.pod_format import first_sentence, one_line
from scheduler.cli.tables import FOLDED, NUMBER, listing, put, say, wide_console
from scheduler.cli.whatif import pod_manifest
from scheduler.explain.records.wording import counted

if TYPE_CHECKING:
    from rich.console import Console

    from scheduler.offline import Capacity, Consolidation, NodeKind, NodesNeeded, World
    from scheduler.offline.documents import Kind

QUESTIONS: Final = ("how_many_fit", "nodes_needed", "consolidate")
"""The options that ask, in the order of the help."""

_KINDS: Final[Mapping[str, Kind]] = {
    "how_many_fit": "Capacity",
    "nodes_needed": "NodesNeeded",
    "consolidate": "Consolidation",
}

MAX_SHOWN: Final = 1000
"""Rows of one table; JSON has all."""
MAX_MOVES: Final = 3
"""Moves of one node that a table shows."""


def answer(question: str, world: World, asked: dict[str, Any], *, as_json: bool) -> bool:
    """Answer one question and print the answer; return whether it is yes.

    Raises:
        WorldError: a manifest is malformed, or there is no such node.
        click.BadParameter: a file cannot be read as a manifest.
    """
    from scheduler import offline
    from scheduler.offline.documents import document

    found: Capacity | NodesNeeded | Consolidation
    console = wide_console()
    if question == "how_many_fit":
        pod = _pod(asked["how_many_fit"])
        world.schedule()
        found = world.how_many_fit(pod)
        if not as_json:
            show_capacity(found, console)
        good = found.total > 0
    elif question == "nodes_needed":
        kind = _kind(world, asked["nodes_needed"])
        found = offline.nodes_needed(world, kind, limit=asked["max_nodes"])
        if not as_json:
            show_needed(found, console)
        good = not found.hopeless
    else:
        found = offline.consolidate(
            world, force=asked["force"], delete_emptydir_data=asked["delete_emptydir_data"]
        )
        if not as_json:
            show_consolidation(found, console)
        good = bool(found.emptied)
    if as_json:
        click.echo(document(_KINDS[question], found))
    return good


# -- input ---------------------------------------------------------------------------------------


def _pod(file: str) -> dict[str, Any]:
    option = "--how-many-fit"
    return pod_manifest(_manifest(file, option), "default", named(file), option)


def _kind(world: World, node: str) -> NodeKind:
    from scheduler.offline import NodeKind, node_like

    if node != STDIN and ("\0" in node or not Path(node).is_file()):
        if Path(node).suffix in (".yaml", ".yml", ".json"):
            raise click.BadParameter(f"{node}: no such file", param_hint="'--nodes-needed'")
        return node_like(world, node)
    manifest = _manifest(node, "--nodes-needed")
    if not isinstance(manifest, dict) or manifest.get("kind") != "Node":
        raise click.BadParameter(
            f"{shown(node)} has no manifest of a Node", param_hint="'--nodes-needed'"
        )
    if fault := _fault_of_node(manifest):
        raise click.BadParameter(f"{shown(node)}: {fault}", param_hint="'--nodes-needed'")
    return NodeKind(manifest)


def _fault_of_node(manifest: dict[str, Any]) -> str:
    """Return what keeps every pod from such a node, or makes it none; empty: nothing does."""
    from scheduler.api.quantity import QuantityError, milli_value

    metadata, status = manifest.get("metadata"), manifest.get("status")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        return "metadata.name is missing"
    amounts = None
    if isinstance(status, dict):
        # All is allocatable unless a node says otherwise.
        amounts = status.get("allocatable", status.get("capacity"))
    if not isinstance(amounts, dict):
        return "status.allocatable is missing; give the cpu, memory and pods of a node"
    for resource in {"cpu": 0, "memory": 0, "pods": 0, **amounts}:
        where = f"status.allocatable.{one_line(str(resource))[:60]}"
        try:
            if milli_value(str(amounts[resource])) < 0:
                return f"{where} is negative"
        except KeyError:
            return f"{where} is missing, so that no pod would fit"
        except QuantityError as error:
            return f"{where}: {error}"
    return ""


def _manifest(file: str, option: str) -> Any:
    found = documents(file, option)
    if len(found) != 1:
        raise click.BadParameter(
            f"{shown(file)} has {counted(len(found), 'object')}, and the question is about one: "
            "give it in a file of its own",
            param_hint=f"'{option}'",
        )
    return found[0]


# -- output --------------------------------------------------------------------------------------


def show_capacity(found: Capacity, console: Console) -> None:
    """Print how many copies fit, and where."""
    if found.by_node:
        rows = [(node, str(count)) for node, count in found.by_node.items()]
        _table(console, {"NODE": FOLDED, "COPIES": NUMBER}, rows)
    copies = "1 copy fits" if found.total == 1 else f"{found.total} copies fit"
    text = copies if found.total else "no copy fits"
    say(console, text, "bold")
    if found.reason:
        say(console, f"the next one does not: {first_sentence(found.reason)}")


def show_needed(found: NodesNeeded, console: Console) -> None:
    """Print how many nodes are needed, and whom no number helps."""
    rest = counted(len(found.placed), "pod")
    if found.nodes:
        say(
            console,
            f"{counted(found.nodes, 'more node')}: {rest} placed, {found.on_added} on added nodes",
            "bold",
        )
        _show_one_less(found, console)
    elif not found.hopeless:
        say(console, f"no node is needed: {rest} placed", "bold")
    elif found.placed:
        say(console, f"{rest} placed without more nodes", "bold")
    if found.hopeless:
        pods = counted(len(found.hopeless), "pod")
        hopeless = f"no number of such nodes helps {pods}:"
        if found.limited:
            hopeless = f"the most nodes allowed (--max-nodes) do not help {pods}:"
        say(console, hopeless, "bold")
        rows = [(each.pod, first_sentence(each.reason)) for each in found.hopeless]
        _table(console, {"POD": FOLDED, "REASON": FOLDED}, rows)
    if found.gated:
        say(console, f"{counted(len(found.gated), 'gated pod')} left out")


def _show_one_less(found: NodesNeeded, console: Console) -> None:
    waiting, evicted = found.with_one_less, found.evicted_with_one_less
    if waiting:
        say(
            console,
            f"with one less {counted(len(waiting), 'pod')} would wait, such as {waiting[0].pod}: "
            f"{first_sentence(waiting[0].reason)}",
        )
    elif evicted:
        say(
            console,
            f"with one less {counted(len(evicted), 'pod')} would be evicted, such as {evicted[0]}",
        )


def show_consolidation(found: Consolidation, console: Console) -> None:
    """Print which nodes could be emptied, and why the others are kept."""
    total = len(found.emptied) + len(found.kept)
    if found.emptied:
        rows = [
            (each.node, f"{each.used:.0%}", str(len(each.moves)), _moves(each.moves))
            for each in found.emptied
        ]
        columns = {"EMPTIED": FOLDED, "USED": NUMBER, "MOVES": NUMBER, "SUCH AS": FOLDED}
        _table(console, columns, rows)
    if found.kept:
        kept = [(each.node, f"{each.used:.0%}", one_line(each.reason)) for each in found.kept]
        _table(console, {"KEPT": FOLDED, "USED": NUMBER, "REASON": FOLDED}, kept)
    say(
        console,
        f"{len(found.emptied)} of {counted(total, 'node')} could be emptied in this order, with "
        f"{counted(found.moves, 'move')}",
        "bold",
    )


def _moves(moves: dict[str, str]) -> str:
    shown = [f"{pod} to {node}" for pod, node in list(moves.items())[:MAX_MOVES]]
    return ", ".join(shown) + (", …" if len(moves) > MAX_MOVES else "")


def _table(console: Console, columns: dict[str, Any], rows: list[Any]) -> None:
    put(console, listing(columns, rows[:MAX_SHOWN]))
    if len(rows) > MAX_SHOWN:
        say(console, f"and {len(rows) - MAX_SHOWN} more; -o json has all")
