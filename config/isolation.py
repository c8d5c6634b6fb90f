"""Checks of `profiles[].kubestow.isolation`."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any, Final

from config.types import PluginIsolation
from scheduler.framework.field_errors import FieldErrors, duplicate, invalid, item, required
from scheduler.framework.plugin_names import RESOURCE_QUOTA, UPSTREAM_NAMES

UNSUPPORTED: Final = (
    "pre_score",
    "normalize_scores",
    "add_pod",
    "remove_pod",
)
"""Methods that need the feasible nodes, or hypothetical ones: they cannot run beforehand."""

_ISOLATED: Final = ("pre_filter", "filter", "filter_rows", "score", "score_rows")


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
        elif problem := _problem(registry.get(name)):
            errors.add(f"{below}.plugin", invalid(name, problem))
        if entry.timeout <= timedelta():
            errors.add(f"{below}.timeout", invalid(str(entry.timeout), "must be greater than zero"))
        seen.add(name)


def _problem(plugin_class: Any) -> str:
    """Return why a plugin cannot be isolated; empty if it can."""
    methods = [each for each in UNSUPPORTED if callable(getattr(plugin_class, each, None))]
    if methods:
        return f"isolation is not possible for a plugin with {', '.join(methods)}"
    isolated = [getattr(plugin_class, each, None) for each in _ISOLATED]
    if not any(callable(each) for each in isolated):
        return "it has neither PreFilter, Filter nor Score, which are what is isolated"
    if inspect.iscoroutinefunction(getattr(plugin_class, "pre_filter", None)):
        return "its pre_filter is async, so that it does not block"
    return ""
