"""A profile as the configuration resolves it, and the plugins that it is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from scheduler.framework import EXTENSION_POINTS, ConfigurationError, Handle


class ProfileSpec(Protocol):
    """A profile, as the configuration layer resolves it."""

    @property
    def scheduler_name(self) -> str:
        """`spec.schedulerName` of its pods."""
        ...

    @property
    def points(self) -> Mapping[str, Sequence[str]]:
        """Ordered plugin names by the extension point's YAML name."""
        ...

    @property
    def weights(self) -> Mapping[str, int]:
        """Score weight by plugin name."""
        ...

    @property
    def args(self) -> Mapping[str, Any]:
        """Decoded and validated arguments by plugin name."""
        ...

    @property
    def percentage_of_nodes_to_score(self) -> int | None:
        """None: the value of the whole configuration."""
        ...


def instantiate_plugins(
    profile: ProfileSpec, factories: Mapping[str, Any], handle: Handle, last_filters: Sequence[Any]
) -> dict[str, Any]:
    """Make each plugin of a profile once, and add `last_filters`, which are made already.

    Raises ConfigurationError.
    """
    names: dict[str, None] = {}
    for point in EXTENSION_POINTS:
        names.update(dict.fromkeys(profile.points.get(point.yaml, ())))
    plugins = {
        name: _instantiate(name, factories, profile.args.get(name), handle) for name in names
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
