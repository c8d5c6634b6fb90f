"""A world whose profile enables plugin classes that a test or a check hands in.

The configuration is read as `kubestow run` reads a file, so that arguments are checked as there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from config import API_VERSION, KIND
from scheduler.framework import ConfigurationError
from scheduler.framework.plugin_class import class_problems
from scheduler.offline.world import World
from scheduler.service.options import RunOptions, available_plugins, read_configuration

Arguments = Mapping[str, Any] | msgspec.Struct
"""Arguments of a plugin: as in a configuration file, or its `args_type`."""

_QUEUE_SORT: Final = "PrioritySort"
_BIND: Final = "DefaultBinder"


@dataclass(frozen=True, slots=True)
class EnabledPlugin:
    """A plugin class of the profile."""

    factory: Any
    args: Arguments | None = None
    #: Weight of its scores; 0: as in a file that names none.
    weight: int = 0


def world_with(
    plugins: Iterable[EnabledPlugin],
    *,
    plugin_dirs: Sequence[str | Path] = (),
    seed: int = 0,
    alone: bool = False,
) -> World:
    """Build a world whose only profile has the default plugins and these.

    With `alone`, of the default plugins it has only the order of the queue and the binding, so that
    nothing but these plugins decides.

    Raises:
        ConfigurationError: lists every fault of a class and of its arguments.
    """
    chosen = list(plugins)
    faults = [fault for each in chosen for fault in _faults(each.factory)]
    if faults:
        raise ConfigurationError(faults)
    registry = available_plugins()
    for each in chosen:
        if registry.get(each.factory.name) is not each.factory:
            registry.register(each.factory)
    options = RunOptions(
        replace_default_scheduler=True, plugin_dirs=tuple(str(each) for each in plugin_dirs)
    )
    text = msgspec.json.encode(_configuration(chosen, alone=alone)).decode()
    configuration = read_configuration(options, registry, text=text)
    return World(configuration=configuration, registry=registry, seed=seed)


def _faults(factory: Any) -> Iterable[str]:
    shown = getattr(factory, "__qualname__", repr(factory))
    return (f"plugin class {shown}: {fault}" for fault in class_problems(factory))


def _configuration(plugins: Sequence[EnabledPlugin], *, alone: bool) -> dict[str, Any]:
    enabled: list[dict[str, Any]] = [
        {"name": each.factory.name, **({"weight": each.weight} if each.weight else {})}
        for each in plugins
    ]
    multi_point: dict[str, Any] = {"enabled": enabled}
    if alone:
        multi_point["disabled"] = [{"name": "*"}]
        names = {each["name"] for each in enabled}
        enabled += [{"name": name} for name in (_QUEUE_SORT, _BIND) if name not in names]
    arguments = [
        {"name": each.factory.name, "args": msgspec.to_builtins(each.args)}
        for each in plugins
        if each.args is not None
    ]
    profile = {"plugins": {"multiPoint": multi_point}, "pluginConfig": arguments}
    return {"apiVersion": API_VERSION, "kind": KIND, "profiles": [profile]}
