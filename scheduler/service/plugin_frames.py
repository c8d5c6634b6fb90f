"""Determines from a thread's stack which plugin the thread executes.

Calls of plugins need no bookkeeping: a stack is examined only when the event loop is blocked. A
frame belongs to a plugin if it executes a method of the plugin's class or code of the file that
defines the class. The innermost such frame counts, because a plugin may call others: preemption
runs the filters of all plugins.
"""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any, Final

from scheduler.framework.extension_points import EXTENSION_POINTS

_POINTS: Final = {method: each.label for each in EXTENSION_POINTS for method in each.methods}
_FRAMEWORK: Final = ("builtins", "typing", "abc", "scheduler.framework")
"""Modules whose base classes many plugins share."""


@dataclass(frozen=True, slots=True)
class PluginCall:
    """A call of a plugin that is under way."""

    plugin: str
    #: Label of the extension point, or the name of another method; empty if it is not known.
    point: str
    #: `file:line in function`.
    where: str

    def __str__(self) -> str:
        at = f" at {self.point}" if self.point else ""
        return f"plugin {self.plugin}{at} ({self.where})"


def find_call(frame: FrameType | None, plugins: Iterable[Any]) -> PluginCall | None:
    """Return the innermost call of one of `plugins` in the stack that ends with `frame`.

    Plugins that share the code, such as that of a base class, are named together. No local variable
    is looked at.
    """
    methods, files = _code_of(plugins)
    names: list[str] = []
    where = method = ""
    for each, line in traceback.walk_stack(frame):
        code = each.f_code
        found = methods.get(code)
        if not where and (found or code.co_filename in files):
            where = f"{code.co_filename}:{line} in {code.co_name}"
            names = found[0] if found else files[code.co_filename]
        if found:
            if method and found[0] != names:
                break
            # The outermost method, unless one is an extension point.
            names, method = found
            if method in _POINTS:
                break
    return PluginCall(", ".join(names), _POINTS.get(method, method), where) if where else None


def outermost_call(frame: FrameType | None, plugins: Iterable[Any]) -> FrameType | None:
    """Return the frame in which code of one of `plugins` was called from elsewhere."""
    methods, files = _code_of(plugins)
    outermost = None
    for each, _ in traceback.walk_stack(frame):
        if each.f_code in methods or each.f_code.co_filename in files:
            outermost = each
    return outermost


def frame_of(thread: int | None) -> FrameType | None:
    """Return the innermost frame of a thread; None if it has ended."""
    # Documented, despite its name.
    return None if thread is None else sys._current_frames().get(thread)  # noqa: SLF001


_Methods = dict[CodeType, tuple[list[str], str]]


def _code_of(plugins: Iterable[Any]) -> tuple[_Methods, dict[str, list[str]]]:
    """Return the methods of plugins by their code, and names of plugins by file."""
    methods: _Methods = {}
    files: dict[str, list[str]] = {}
    for plugin in plugins:
        name = plugin.name
        for method, code in _methods(type(plugin)):
            names, _ = methods.setdefault(code, ([], method))
            if name not in names:
                names.append(name)
        module = sys.modules.get(type(plugin).__module__)
        path = getattr(module, "__dict__", {}).get("__file__")
        names = files.setdefault(path, []) if isinstance(path, str) else []
        if name not in names:
            names.append(name)
    return methods, files


def _methods(plugin_class: type) -> Iterator[tuple[str, CodeType]]:
    for each in plugin_class.__mro__:
        if each.__module__.startswith(_FRAMEWORK):
            continue
        for name, value in vars(each).items():
            function = inspect.unwrap(getattr(value, "__func__", value))
            code = getattr(function, "__code__", None)
            if isinstance(code, CodeType):
                yield name, code
