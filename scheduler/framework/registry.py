"""Registry of plugin classes by name, and the loading of third-party plugins.

A plugin comes from one of three places: in-tree (`plugins.in_tree()`), an entry point of group
`kubestow.plugins`, or a reference `module:Class` in a profile, importable from `sys.path`, to which
`--plugin-dir` appends. Elsewhere a plugin is identified by the `name` that its class declares.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any

import msgspec

from scheduler.framework.field_errors import did_you_mean
from scheduler.framework.plugin_class import class_problems
from scheduler.framework.status import ConfigurationError

ENTRY_POINT_GROUP = "kubestow.plugins"


class NoArgs(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of a plugin that takes none."""


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
        """Add a plugin class; return its name. Raises ConfigurationError if the name is taken."""
        name = declared_name(factory)
        if self._factories.setdefault(name, factory) is not factory:
            raise ConfigurationError(f"a plugin named {name} already exists")
        return name

    def resolve(self, reference: str) -> str:
        """Return the plugin name for a reference in a profile; load `module:Class` on first use."""
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
    """Import `module:Class` and check the class.

    Raises:
        ConfigurationError: there is no such module or class, the import raised, or the class is
            invalid (`class_problems`). Each problem names file and line.
    """
    module_name, _, attribute = reference.partition(":")
    if not module_name or not attribute:
        raise ConfigurationError(f'plugin "{reference}" is not of the form "module:Class"')
    module = _imported(reference, module_name)
    try:
        factory = getattr(module, attribute)
    except AttributeError as missing:
        raise ConfigurationError(_without(reference, module, attribute)) from missing
    _raise_problems(f'plugin "{reference}"', factory)
    return factory


def entry_point_plugins() -> Iterator[Any]:
    """Yield the plugin classes of the entry points of installed distributions.

    Raises:
        ConfigurationError: a class cannot be imported, or is invalid.
    """
    for point in _entry_points(tuple(sys.path)):
        distribution = point.dist.name if point.dist is not None else "an installed distribution"
        title = f'plugin "{point.value}" of {distribution}'
        try:
            factory = point.load()
        except (Exception, SystemExit) as error:
            raise ConfigurationError(f"{title}: {_raised(error)}") from error
        _raise_problems(title, factory)
        yield factory


@lru_cache(maxsize=1)
def _entry_points(_path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """Return those of our group; kept, since each look reads the metadata of all distributions.

    What is installed later counts in the next process, as its modules do.
    """
    return tuple(entry_points(group=ENTRY_POINT_GROUP))


def _imported(reference: str, name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as missing:
        if missing.name is not None and f"{name}.".startswith(f"{missing.name}."):
            raise ConfigurationError(
                f'plugin "{reference}": no module named "{missing.name}"; '
                "put its directory on the path with --plugin-dir"
            ) from missing
        raise ConfigurationError(f'plugin "{reference}": {_raised(missing)}') from missing
    except (Exception, SystemExit) as error:
        # Module-level code may raise anything; SystemExit would end the program silently.
        raise ConfigurationError(f'plugin "{reference}": {_raised(error)}') from error


def _raise_problems(title: str, factory: Any) -> None:
    where = _definition(factory)
    problems = [f"{title} ({where}): {each}" for each in class_problems(factory)]
    if problems:
        raise ConfigurationError(problems)


def _definition(factory: Any) -> str:
    """Return the file and line of a class definition, for messages."""
    try:
        return f"{inspect.getsourcefile(factory)}:{inspect.getsourcelines(factory)[1]}"
    except (OSError, TypeError):
        return str(getattr(factory, "__module__", "no source"))


def _raised(error: BaseException) -> str:
    """Describe an exception of an import, with the file and line in the plugin's own code."""
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, SyntaxError):
        if error.filename is None:
            return text
        text = f"{type(error).__name__}: {error.msg}"
        source = (error.text or "").strip()
        return f"{error.filename}:{error.lineno}: {text}" + (f": {source:.80}" if source else "")
    frames = traceback.extract_tb(error.__traceback__)
    own = [each for each in frames if not _is_pythons(each.filename)]
    if not own:
        return text
    source = f": {own[-1].line:.80}" if own[-1].line else ""
    return f"{own[-1].filename}:{own[-1].lineno}: {text}{source}"


def _is_pythons(file: str) -> bool:
    """Whether a file belongs to Python or to an installed library, or is this module."""
    return file == __file__ or file.startswith(("<", *libraries()))


@cache
def libraries() -> tuple[str, ...]:
    """Return the directories of the standard library and of installed packages."""
    # 0.7 MiB of settings of Python's build, needed for errors and reloads only.
    import sysconfig  # noqa: PLC0415

    return tuple(f"{sysconfig.get_path(each)}{os.sep}" for each in ("stdlib", "purelib", "platlib"))


def _without(reference: str, module: ModuleType, attribute: str) -> str:
    """Word the error for a missing attribute; another file may hide the module that was meant."""
    file = getattr(module, "__file__", None) or "built into Python"
    classes = [name for name, value in vars(module).items() if inspect.isclass(value)]
    text = (
        f'plugin "{reference}": module "{module.__name__}" ({file}) has no attribute '
        f'"{attribute}"{did_you_mean(attribute, classes)}'
    )
    shadowed = [each for each in _files_of(module.__name__) if each != file]
    if shadowed:
        text += (
            f"; {', '.join(shadowed)} has the same name and is not imported, since "
            f"{file} comes first on the path: rename it"
        )
    return text


def _files_of(name: str) -> Iterator[str]:
    """Yield every file on `sys.path` from which the module could have been imported."""
    relative = name.replace(".", os.sep)
    for folder in sys.path:
        for end in (".py", f"{os.sep}__init__.py"):
            file = os.path.join(folder, relative + end)  # noqa: PTH118 - as `__file__` is spelt
            if os.path.isfile(file):  # noqa: PTH113
                yield file
