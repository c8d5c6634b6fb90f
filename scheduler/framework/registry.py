"""Registry of plugin classes by name, and the loading of third-party plugins.

A plugin comes from one of three places: in-tree (`plugins.in_tree()`), an entry point of group
`kubestow.plugins`, or a reference `module:Class` in a profile, importable from `sys.path`, to which
`--plugin-dir` appends. Everything else knows the plugin by the `name` that its class declares.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import entry_points
from typing import Any

import msgspec

from scheduler.framework.status import ConfigurationError

ENTRY_POINT_GROUP = "kubestow.plugins"


class NoArgs(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of a plugin that has none."""


class Registry(Mapping[str, Any]):
    """Plugin classes by their declared name."""

    def __init__(self, factories: Iterable[Any] = ()) -> None:
        self._factories: dict[str, Any] = {}
        for factory in factories:
            self.register(factory)

    def __getitem__(self, name: str) -> Any:
        return self._factories[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._factories)

    def __len__(self) -> int:
        return len(self._factories)

    def register(self, factory: Any) -> str:
        """Add a plugin class and return its name; ConfigurationError if another has the name."""
        name = declared_name(factory)
        if self._factories.setdefault(name, factory) is not factory:
            raise ConfigurationError(f"a plugin named {name} already exists")
        return name

    def resolve(self, reference: str) -> str:
        """Return the plugin name of a profile's reference; load `module:Class` on first use."""
        if ":" not in reference or reference in self._factories:
            return reference
        return self.register(load(reference))


def declared_name(factory: Any) -> str:
    """Return the `name` that a plugin class declares. Raises ConfigurationError without one."""
    name = getattr(factory, "name", None)
    if not isinstance(name, str) or not name:
        shown = getattr(factory, "__qualname__", repr(factory))
        raise ConfigurationError(
            f'plugin class {shown} declares no name: add `name = "..."` to the class'
        )
    return name


def args_type(factory: Any) -> type[msgspec.Struct]:
    """Return the msgspec Struct of a plugin's arguments: its `args_type`, or NoArgs."""
    declared: type[msgspec.Struct] = getattr(factory, "args_type", NoArgs)
    return declared


def load(reference: str) -> Any:
    """Import `module:Class`.

    Raises:
        ConfigurationError: there is no such module or attribute.
        ImportError: raised by an import inside the module; passed on unchanged.
    """
    module_name, _, attribute = reference.partition(":")
    if not module_name or not attribute:
        raise ConfigurationError(f'plugin "{reference}" is not of the form "module:Class"')
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as missing:
        if missing.name is None or not module_name.startswith(missing.name):
            raise
        raise ConfigurationError(
            f'plugin "{reference}": no module named "{missing.name}"; '
            "put its directory on the path with --plugin-dir"
        ) from missing
    try:
        return getattr(module, attribute)
    except AttributeError as missing_attribute:
        raise ConfigurationError(
            f'plugin "{reference}": module "{module_name}" has no attribute "{attribute}"'
        ) from missing_attribute


def entry_point_plugins() -> Iterator[Any]:
    """Yield the plugin classes that installed distributions advertise."""
    for point in entry_points(group=ENTRY_POINT_GROUP):
        yield point.load()
