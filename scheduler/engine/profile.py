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
    plugins: dict[str, Any] = {}
    for name in profile.plugins:
        try:
            plugins[name] = factories[name](profile.args.get(name), handle)
        except Exception as error:
            texts = error.problems if isinstance(error, ConfigurationError) else (str(error),)
            raise ConfigurationError(
                [f'initializing plugin "{name}": {text}' for text in texts]
            ) from error
    for each in last_filters:
        if each.name in plugins:
            raise ConfigurationError(f'plugin name "{each.name}" is kubestow\'s own')
        plugins[each.name] = each
    return plugins
