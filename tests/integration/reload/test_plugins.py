"""Changes of a plugin folder."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import weakref
from pathlib import Path
from typing import Any

import pytest

from tests.integration.reload.running import PROFILE, Running, running, until

#: Cleared: a module that waits for it is never imported.
ENDLESS = threading.Event()
ENDLESS.set()

CONFIG = (
    PROFILE
    + """\
  plugins:
    multiPoint:
      enabled:
      - name: reloaded_choice:Choice
"""
)
SAMPLED = "percentageOfNodesToScore: 7\n"
PLUGIN = """\
from reloaded_parts.chosen import NODE
from scheduler.framework import unschedulable


class Choice:
    name = "Choice"

    def __init__(self, args, handle):
        handle.subscriptions.on_object("nodes", self.node)
        self.nodes = set()

    def node(self, old, new):
        if new is not None:
            self.nodes.add(new.metadata.name)

    def filter(self, state, pod, node):
        if node.name not in self.nodes:
            return unschedulable("the plugin has not heard of the node")
        return None if node.name == NODE else unschedulable("another node is chosen")
"""


def write(folder: Path, node: str) -> None:
    parts = folder / "plugins" / "reloaded_parts"
    parts.mkdir(parents=True, exist_ok=True)
    (parts / "__init__.py").touch()
    (folder / "plugins" / "reloaded_choice.py").write_text(PLUGIN)
    (parts / "chosen.py").write_text(f"NODE = {node!r}\n")


async def placed(world: Running, name: str) -> str:
    world.pod(name)
    await until(lambda: world.node_of(name))
    return world.node_of(name)


async def test_changed_plugin_is_imported_afresh_and_hears_of_known_objects(tmp_path: Path) -> None:
    write(tmp_path, "a")
    async with running(tmp_path, CONFIG) as world:
        for name in "ab":
            world.node(name)
        assert await placed(world, "before") == "a"
        # The same size, and perhaps the same second: a compiled file would count as current.
        write(tmp_path, "b")
        assert await world.reloader.reload() == "success"
        assert await placed(world, "after") == "b"


async def test_replaced_plugin_hears_of_nothing_any_more(tmp_path: Path) -> None:
    write(tmp_path, "a")
    async with running(tmp_path, CONFIG) as world:
        world.node("a")
        await placed(world, "before")
        plugins = world.reloader.wiring.profiles.frameworks["kubestow"].plugins
        old = plugins["Choice"]
        write(tmp_path, "b")
        assert await world.reloader.reload() == "success"
        world.node("b")
        assert await placed(world, "after") == "b"
        assert old.nodes == {"a"}


@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        ("def Choice(:\n", "SyntaxError"),
        ("import nothing_of_this_name\n", "nothing_of_this_name"),
        ("class Other: ...\n", 'no attribute "Choice"'),
        (f"{PLUGIN}\n    required = 1 / 0\n", "division by zero"),
        (PLUGIN.replace("self.nodes = set()", "raise OSError('no disk')"), "no disk"),
        (f"{PLUGIN}\nraise SystemExit(3)\n", "choice.py:21: SystemExit: 3"),
        (f"{PLUGIN}\nimport asyncio\nraise asyncio.CancelledError\n", "CancelledError"),
        (PLUGIN.replace("self.nodes = set()", "raise SystemExit(3)"), "choice.py, line "),
    ],
)
async def test_broken_folder_does_not_stop_the_old_plugin(
    tmp_path: Path, broken: str, problem: str
) -> None:
    write(tmp_path, "a")
    async with running(tmp_path, CONFIG) as world:
        for name in "ab":
            world.node(name)
        assert await placed(world, "before") == "a"
        (tmp_path / "plugins" / "reloaded_choice.py").write_text(broken)
        assert await world.reloader.reload() == "invalid"
        assert problem in world.problems()
        assert await placed(world, "meanwhile") == "a"
        write(tmp_path, "b")
        assert await world.reloader.reload() == "success"
        assert await placed(world, "after") == "b"


async def test_plugin_that_cannot_be_built_leaves_no_module_of_its_own_behind(
    tmp_path: Path,
) -> None:
    write(tmp_path, "a")
    async with running(tmp_path, CONFIG) as world:
        module = sys.modules["reloaded_choice"]
        file = tmp_path / "plugins" / "reloaded_choice.py"
        (tmp_path / "aside").hardlink_to(file)
        file.unlink()
        file.write_text(PLUGIN.replace("self.nodes = set()", "raise OSError('no disk')"))
        assert await world.reloader.reload() == "invalid"
        assert sys.modules["reloaded_choice"] is module
        # The same file as at the start, so that nothing is imported afresh.
        (tmp_path / "aside").replace(file)
        assert await world.reloader.reload() == "unchanged"
        assert world.reloader.generation == 1


async def test_files_that_change_while_they_are_read_are_read_again_later(tmp_path: Path) -> None:
    write(tmp_path, "a")
    async with running(tmp_path, CONFIG) as world:
        module = sys.modules["reloaded_choice"]
        # Importing it changes the configuration file.
        world.write_plugin(
            f"{PLUGIN}\nwith open({str(world.config)!r}, 'a') as file: file.write('# more')\n",
            "reloaded_choice",
        )
        assert await world.reloader.reload() == "changing"
        assert sys.modules["reloaded_choice"] is module
        write(tmp_path, "b")
        assert await world.reloader.reload() == "success"
        assert world.sample("kubestow_config_reloads_total") == 1


async def test_change_during_the_start_is_taken_over(tmp_path: Path) -> None:
    write(tmp_path, "a")
    # Plugins are imported, which may take seconds, after the configuration was read.
    line = f"with open({str(tmp_path / 'config.yaml')!r}, 'a') as file: file.write({SAMPLED!r})"
    (tmp_path / "plugins" / "reloaded_choice.py").write_text(f"{PLUGIN}\n{line}\n")
    async with running(tmp_path, CONFIG) as world:
        for _ in range(2):
            await world.reloader.check()
        assert world.reloader.configuration.effective.percentage_of_nodes_to_score == 7


async def test_import_that_does_not_end_stops_neither_pods_nor_the_process(tmp_path: Path) -> None:
    write(tmp_path, "a")
    async with running(tmp_path, CONFIG) as world:
        world.node("a")
        world.reloader.import_timeout = 0.1
        world.write_plugin(
            f"from {__name__} import ENDLESS; ENDLESS.wait()\n{PLUGIN}", "reloaded_choice"
        )
        ENDLESS.clear()
        module = sys.modules["reloaded_choice"]
        assert await world.reloader.reload() == "invalid"
        assert "have not been imported in 0.1 s" in world.problems()
        assert await placed(world, "meanwhile") == "a"
        write(tmp_path, "b")
        assert await world.reloader.reload() == "restart_required"
        assert "has not ended yet" in world.problems()
        ENDLESS.set()
        for thread in threading.enumerate():
            if thread.name == "configuration reload":
                await asyncio.to_thread(thread.join)
        assert sys.modules["reloaded_choice"] is module
        world.reloader.import_timeout = 60.0
        world.node("b")
        assert await world.reloader.reload() == "success"
        assert await placed(world, "after") == "b"


async def test_shared_object_of_a_changed_module_is_made_anew(tmp_path: Path) -> None:
    sharing = PLUGIN.replace(
        "self.nodes = set()", "self.nodes = handle.shared('names', Names)"
    ).replace("class Choice", "class Names(set):\n    pass\n\n\nclass Choice")
    write(tmp_path, "a")
    (tmp_path / "plugins" / "reloaded_choice.py").write_text(sharing)
    async with running(tmp_path, CONFIG) as world:
        for name in "ab":
            world.node(name)
        assert await placed(world, "before") == "a"
        before = world.plugin("Choice").nodes
        (tmp_path / "plugins" / "reloaded_parts" / "chosen.py").write_text("NODE = 'b'\n")
        assert await world.reloader.reload() == "success"
        assert await placed(world, "after") == "b"
        assert world.plugin("Choice").nodes is not before
        assert world.plugin("Choice").nodes == {"a", "b"}


@pytest.mark.slow
async def test_old_generations_of_a_plugin_are_freed(tmp_path: Path) -> None:
    write(tmp_path, "a")
    async with running(tmp_path, CONFIG) as world:
        world.node("a")
        kept = weakref.WeakSet[Any]()
        for number in range(25):
            framework = world.reloader.wiring.profiles.frameworks["kubestow"]
            algorithm = world.reloader.wiring.scheduling.engine.algorithms["kubestow"]
            kept.update((world.plugin("Choice"), framework, algorithm))
            kept.add(sys.modules["reloaded_choice"])
            (tmp_path / "plugins" / "reloaded_choice.py").write_text(f"{PLUGIN}\n# {number}\n")
            assert await world.reloader.reload() == "success"
        del framework, algorithm
        await placed(world, "last")
        gc.collect()
        assert list(kept) == []


async def test_removed_folder_does_not_stop_the_old_plugin(tmp_path: Path) -> None:
    write(tmp_path, "a")
    async with running(tmp_path, CONFIG) as world:
        world.node("a")
        (tmp_path / "plugins").rename(tmp_path / "elsewhere")
        await world.reloader.check()
        await world.reloader.check()
        assert "is not a directory" in world.problems()
        assert await placed(world, "meanwhile") == "a"


async def test_plugin_whose_state_is_its_own_needs_a_restart(tmp_path: Path) -> None:
    write(tmp_path, "a")
    plugin = tmp_path / "plugins" / "reloaded_choice.py"
    plugin.write_text(
        PLUGIN.replace('name = "Choice"', 'name = "Choice"; restart_on_change = True')
    )
    async with running(tmp_path, CONFIG) as world:
        plugin.write_text(PLUGIN)
        assert await world.reloader.reload() == "restart_required"
        assert world.problems() == (
            "profiles[kubestow]: another version of plugin Choice needs a restart"
        )


async def test_plugin_that_reads_what_nobody_watched_needs_a_restart(tmp_path: Path) -> None:
    write(tmp_path, "a")
    async with running(tmp_path, CONFIG) as world:
        plugin = tmp_path / "plugins" / "reloaded_choice.py"
        plugin.write_text(f"{PLUGIN}\n    required_resources = ('leases',)\n")
        assert await world.reloader.reload() == "restart_required"
        assert world.problems() == ("no plugin read leases so far: watching it needs a restart")


RACK = """
from scheduler.api import Named


class Rack(Named):
    spec: dict[str, bool] = {}
"""
READS = """
    required_resources = ("example.com/v1/racks",)
    resource_types = {"example.com/v1/racks": Rack}
"""


@pytest.mark.parametrize(
    ("rack", "outcome"),
    [
        (f"{RACK}\n    def open(self):\n        return True\n", "success"),
        (f"{RACK}    units: int = 0\n", "restart_required"),
        (RACK.replace("dict[str, bool]", "dict[str, int]"), "restart_required"),
        (RACK.replace("spec", "specification"), "restart_required"),
    ],
)
async def test_other_fields_of_a_custom_resource_need_a_restart(
    tmp_path: Path, rack: str, outcome: str
) -> None:
    write(tmp_path, "a")
    plugin = tmp_path / "plugins" / "reloaded_choice.py"
    plugin.write_text(f"{RACK}{PLUGIN}{READS}")
    async with running(tmp_path, CONFIG) as world:
        world.node("a")
        plugin.write_text(f"{rack}{PLUGIN}{READS}")
        assert await world.reloader.reload() == outcome
        problem = "other fields in the type of example.com/v1/racks need a restart"
        assert world.problems() == ("" if outcome == "success" else problem)
        assert await placed(world, "p") == "a"
