"""Instantiation of the plugins of a profile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from config import ResolvedProfile
from scheduler.framework import ConfigurationError, Handle
from scheduler.sanitizing.exceptions import frames, typed_text


def instantiate_plugins(
    profile: ResolvedProfile,
    factories: Mapping[str, Any],
    handle: Handle,
    last_filters: Sequence[Any],
) -> dict[str, Any]:
    """Instantiate each plugin of a profile once; return them with `last_filters`, by name.

    Raises ConfigurationError if a constructor raises, or if a name is reserved.
    """
    plugins: dict[str, Any] = {}
    for name in profile.plugins:
        try:
            plugins[name] = factories[name](profile.args.get(name), handle)
        except Exception as error:
            texts = error.problems if isinstance(error, ConfigurationError) else (_raised(error),)
            raise ConfigurationError(
                [f'initializing plugin "{name}": {text}' for text in texts]
            ) from error
    for each in last_filters:
        if each.name in plugins:
            raise ConfigurationError(f'plugin name "{each.name}" is kubestow\'s own')
        plugins[each.name] = each
    return plugins


def _raised(error: Exception) -> str:
    """Return the text of a constructor's exception, with the line where it was raised."""
    # The first frame is `instantiate_plugins`.
    *_, place = frames(error)
    own = error.__traceback__ is not None and error.__traceback__.tb_next is not None
    return f"{typed_text(error)} ({place})" if own else typed_text(error)
