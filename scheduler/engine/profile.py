"""Makes the plugins of a profile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from config import ResolvedProfile
from scheduler.framework import ConfigurationError, Handle


def instantiate_plugins(
    profile: ResolvedProfile,
    factories: Mapping[str, Any],
    handle: Handle,
    last_filters: Sequence[Any],
) -> dict[str, Any]:
    """Make each plugin of a profile once, and add `last_filters`, which are made already.

    Raises ConfigurationError.
    """
    plugins = {
        name: _instantiate(name, factories, profile.args.get(name), handle)
        for name in profile.plugins
    }
    for each in last_filters:
        if each.name in plugins:
            raise ConfigurationError(f'plugin name "{each.name}" is kubestow\'s own')
        plugins[each.name] = each
    return plugins


def _instantiate(name: str, factories: Mapping[str, Any], args: Any, handle: Handle) -> Any:
    try:
        return factories[name](args, handle)
    except ConfigurationError as error:
        raise ConfigurationError(
            [f'initializing plugin "{name}": {text}' for text in error.problems]
        ) from error
    except Exception as error:
        raise ConfigurationError(f'initializing plugin "{name}": {error}') from error
