"""Checks of `profiles[].kubestow.isolation`."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any, Final

from config.types import PluginIsolation
from scheduler.api.quantity import QuantityError, value
from scheduler.framework.field_errors import FieldErrors, duplicate, invalid, item, required
from scheduler.framework.plugin_class import framework_methods
from scheduler.framework.plugin_names import RESOURCE_QUOTA, UPSTREAM_NAMES

UNSUPPORTED: Final = (
    "pre_score",
    "normalize_scores",
    "add_pod",
    "remove_pod",
)
"""Methods that need the feasible nodes, or hypothetical ones: they cannot run beforehand."""

PROCESS: Final = "Process"
DEFAULT_MEMORY: Final = "2Gi"
MIN_MEMORY: Final = 64 << 20
"""Bytes; with less no plugin can be loaded."""

_HANDLE_ATTRIBUTES: Final = ("required_resources", "optional_resources", "permissions", "metrics")
"""Attributes that declare what a plugin uses of its Handle."""

_ISOLATED: Final = ("pre_filter", "filter", "filter_rows", "score", "score_rows")


_IN_PROCESS: Final = (*_ISOLATED, "filter_status", "filter_without_victims", "events_to_register")


def check_isolation(
    entries: Collection[PluginIsolation],
    path: str,
    enabled: Collection[str],
    registry: Mapping[str, Any],
    errors: FieldErrors,
) -> None:
    """Report every entry that cannot work; `enabled` are the plugins of the profile."""
    seen: set[str] = set()
    for index, entry in enumerate(entries):
        below = item(path, index)
        name = entry.plugin
        if not name:
            errors.add(f"{below}.plugin", required("the plugin to isolate"))
        elif name in seen:
            errors.add(f"{below}.plugin", duplicate(name))
        elif name in UPSTREAM_NAMES or name == RESOURCE_QUOTA:
            errors.add(f"{below}.plugin", invalid(name, "in-tree plugins cannot be isolated"))
        elif name not in enabled:
            errors.add(f"{below}.plugin", invalid(name, "the profile does not enable this plugin"))
        elif problem := _problem(registry.get(name), entry.mode):
            errors.add(f"{below}.plugin", invalid(name, problem))
        if entry.mode == PROCESS and sys.platform != "linux":
            errors.add(f"{below}.mode", invalid(entry.mode, "only Linux has what it needs"))
        if problem := _memory_problem(entry):
            errors.add(f"{below}.memoryLimit", invalid(str(entry.memory_limit), problem))
        if entry.timeout <= timedelta():
            errors.add(f"{below}.timeout", invalid(str(entry.timeout), "must be greater than zero"))
        seen.add(name)


def memory_bytes(entry: PluginIsolation) -> int:
    """Return the memory limit of a process. Raises QuantityError."""
    return value(entry.memory_limit or DEFAULT_MEMORY)


def _memory_problem(entry: PluginIsolation) -> str:
    if entry.memory_limit is None:
        return ""
    if entry.mode != PROCESS:
        return f"only a plugin with mode: {PROCESS} has a memory limit"
    try:
        given = memory_bytes(entry)
    except QuantityError as error:
        return str(error)
    return "" if given >= MIN_MEMORY else "must be at least 64Mi"


def _problem(plugin_class: Any, mode: str) -> str:
    """Return why a plugin cannot be isolated; empty if it can."""
    methods = [each for each in UNSUPPORTED if callable(getattr(plugin_class, each, None))]
    if methods:
        return f"isolation is not possible for a plugin with {', '.join(methods)}"
    isolated = [getattr(plugin_class, each, None) for each in _ISOLATED]
    if not any(callable(each) for each in isolated):
        return "it has neither PreFilter, Filter nor Score, which are what is isolated"
    if inspect.iscoroutinefunction(getattr(plugin_class, "pre_filter", None)):
        return "its pre_filter is async, so that it does not block"
    return _process_problem(plugin_class) if mode == PROCESS else ""


def _process_problem(plugin_class: Any) -> str:
    """Return why a plugin cannot run in a process of its own, of which no instance is in ours."""
    name = getattr(plugin_class, "__qualname__", "")
    if not inspect.isclass(plugin_class) or "<locals>" in name:
        return "another process can import only a class at the top of a module"
    others = [
        each
        for each in framework_methods()
        if each not in _IN_PROCESS and callable(getattr(plugin_class, each, None))
    ]
    if others:
        return f"in mode {PROCESS} it can have no {', '.join(others)}: that runs in the scheduler"
    used = [each for each in _HANDLE_ATTRIBUTES if getattr(plugin_class, each, None)]
    if used:
        return f"in mode {PROCESS} it can have no {', '.join(used)}: its Handle has only the nodes"
    events = inspect.getattr_static(plugin_class, "events_to_register", None)
    if events is not None and not isinstance(events, staticmethod | classmethod):
        return (
            f"in mode {PROCESS} the scheduler has no instance to ask for events: make "
            "events_to_register and its hints static methods"
        )
    return ""
