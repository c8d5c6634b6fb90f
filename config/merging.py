"""Plugin sets: merging with the defaults, expansion to extension points, weights.

Follows `default_plugins.go: mergePlugins` and `framework.go: expandMultiPointPlugins`. Works on
names and classes; nothing is instantiated, and no default is built in: the caller passes the
registry and the default plugins.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from config import upstream
from config.feature_gates import FeatureGates
from config.go_plugins import COSCHEDULING, advice, point_advice
from config.types import MULTI_POINT, POINTS, PluginReference, Plugins, PluginSet
from scheduler.framework.extension_points import (
    BIND,
    EXTENSION_POINTS,
    QUEUE_SORT,
    SCORE,
    ExtensionPoint,
)
from scheduler.framework.field_errors import FieldErrors, invalid, item, parent
from scheduler.framework.plugin_names import UPSTREAM_NAMES
from scheduler.framework.registry import Registry
from scheduler.framework.status import ConfigurationError

EVERY: Final = "*"

#: Points that exist in the file format only: their gates are off and kubestow has no such plugins.
_PLACEMENT: Final = {
    "placementGenerate": "PlacementGeneratePlugin",
    "placementScore": "PlacementScorePlugin",
}

_INTERFACES: Final = {point.yaml: point.interface for point in EXTENSION_POINTS} | _PLACEMENT


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The known plugins: available and default ones."""

    registry: Registry
    #: Name and weight (0: none given), in order.
    defaults: tuple[tuple[str, int], ...]
    #: Skip plugins of kube-scheduler that are not in the registry, instead of rejecting them.
    tolerate_missing: bool = False

    def default_entries(self, gates: FeatureGates) -> tuple[Listed, ...]:
        """Return the default multiPoint list without plugins that are gated off."""
        return tuple(
            Listed(name, weight)
            for name, weight in self.defaults
            if name not in upstream.GATED_DEFAULTS or gates.enabled(upstream.GATED_DEFAULTS[name])
        )

    def names(self) -> set[str]:
        """Return every name that a configuration may use."""
        return {*self.registry, *UPSTREAM_NAMES}

    def absent(self, name: str) -> bool:
        """Whether `name` is a plugin of kube-scheduler that is not available."""
        return name not in self.registry and name in UPSTREAM_NAMES

    def qualified(self, name: str) -> str:
        """Return a hint at the plugin whose class, or declared name after its domain, this is."""
        for full, factory in self.registry.items():
            if name in {full.rpartition("/")[2], getattr(factory, "__name__", None)}:
                return f'; did you mean "{full}"?'
        return ""


@dataclass(frozen=True, slots=True)
class Listed:
    """A plugin in a list, and where the user wrote it (empty: a default)."""

    name: str
    weight: int = 0
    path: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class MergedSet:
    """The plugins of one extension point, or of multiPoint, as names."""

    enabled: tuple[Listed, ...] = ()
    disabled: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Expanded:
    """The plugins of every extension point."""

    #: By the point's name in YAML; every point has an entry.
    points: Mapping[str, tuple[str, ...]]
    #: Of the plugins at Score.
    weights: Mapping[str, int]

    @property
    def plugins(self) -> tuple[str, ...]:
        """Every plugin that runs at some point, once, in the order of its first point."""
        return tuple(dict.fromkeys(name for names in self.points.values() for name in names))


# -- names ----------------------------------------------------------------------------------------


class NameResolver:
    """Resolver of the names in `enabled`; loads `module:Class`."""

    def __init__(self, catalogue: Catalogue, errors: FieldErrors) -> None:
        self._catalogue = catalogue
        self._errors = errors
        self._aliases = {
            alias: name
            for name, factory in catalogue.registry.items()
            for alias in getattr(factory, "aliases", ())
        }
        #: Whether a reference could not be loaded.
        self.failed = False
        #: Declared name to the reference it was loaded by.
        self.references: dict[str, str] = {}

    def name(self, written: str, path: str) -> str | None:
        """Return the declared name; None when a reference could not be loaded (reported)."""
        if written in self._catalogue.registry or ":" not in written:
            return self._aliases.get(written, written)
        try:
            name = self._catalogue.registry.resolve(written)
        except ConfigurationError as error:
            for problem in error.problems:
                self._errors.add(path, problem)
            self.failed = True
            return None
        self.references[name] = written
        return name

    def listed(self, plugins: Plugins, path: str) -> dict[str, MergedSet]:
        """Resolve the names of the user's sets; entries that cannot be resolved are left out."""
        return {point: self._set(plugins.at(point), point, f"{path}.{point}") for point in POINTS}

    def _set(self, given: PluginSet, point: str, path: str) -> MergedSet:
        enabled = []
        for index, entry in enumerate(given.enabled):
            below = f"{item(f'{path}.enabled', index)}.name"
            if entry.name == COSCHEDULING and entry.name in self._aliases and point != MULTI_POINT:
                self._errors.add(below, point_advice(point))
                continue
            name = self.name(entry.name, below)
            if name is not None:
                enabled.append(Listed(name, entry.weight, below))
        disabled = [self._aliases.get(entry.name, entry.name) for entry in given.disabled]
        return MergedSet(tuple(enabled), tuple(disabled))


def check_names(
    sets: Mapping[str, MergedSet], path: str, catalogue: Catalogue, errors: FieldErrors
) -> None:
    """Report plugins that do not exist, are missing, or do not extend the point."""
    for point, merged in sets.items():
        for entry in merged.enabled:
            problem = _name_error(entry.name, point, catalogue)
            if problem and not errors.has(entry.path):
                errors.add(entry.path, problem)
            if entry.weight < 0:
                # Upstream runs into its overflow check with most of these.
                weight_path = f"{parent(entry.path)}.weight"
                errors.add(weight_path, invalid(entry.weight, "must not be negative"))
        known = {*catalogue.names(), *upstream.REMOVED_PLUGINS, EVERY}
        for index, name in enumerate(merged.disabled):
            below = f"{path}.{point}.disabled[{index}].name"
            if name not in known and not errors.has(below):
                hint = catalogue.qualified(name) or advice(name, catalogue.names())
                errors.add(below, f'plugin "{name}" does not exist{hint}')


def _name_error(name: str, point: str, catalogue: Catalogue) -> str | None:
    interface = _INTERFACES.get(point, "plugin")
    if not name:
        return "Required value: the name of a plugin"
    if name == EVERY:
        return f'{interface} "*" does not exist; "*" has a meaning in disabled only'
    if name in catalogue.registry:
        factory = catalogue.registry[name]
        if point == MULTI_POINT or any(
            one.yaml == point and one.implemented_by(factory) for one in EXTENSION_POINTS
        ):
            return None
        return f'plugin "{name}" does not extend {interface} plugin'
    if catalogue.absent(name):
        if catalogue.tolerate_missing:
            return None
        return (
            f'{interface} "{name}" does not exist: it is a plugin of kube-scheduler that this '
            "version of kubestow does not have; remove the entry"
        )
    hint = catalogue.qualified(name) or advice(name, set(catalogue.registry))
    return f'{interface} "{name}" does not exist{hint}'


# -- merging --------------------------------------------------------------------------------------


def merge_set(defaults: Sequence[Listed], user: MergedSet) -> MergedSet:
    """Merge the default and the user's set of one extension point."""
    if EVERY in user.disabled:
        return MergedSet(user.enabled, user.disabled)
    # Of several user entries for one default the last takes its place; the others are appended and
    # fail later as duplicates, as upstream.
    replacing = {entry.name: index for index, entry in enumerate(user.enabled)}
    merged: list[Listed] = []
    used: set[int] = set()
    for default in defaults:
        if default.name in user.disabled:
            continue
        index = replacing.get(default.name)
        if index is None:
            merged.append(default)
        else:
            merged.append(user.enabled[index])
            used.add(index)
    merged.extend(entry for index, entry in enumerate(user.enabled) if index not in used)
    return MergedSet(tuple(merged), user.disabled)


def merge(defaults: Sequence[Listed], user: Mapping[str, MergedSet]) -> dict[str, MergedSet]:
    """Merge all sets of a profile. The defaults are in multiPoint only."""
    return {
        point: merge_set(defaults if point == MULTI_POINT else (), merged)
        for point, merged in user.items()
    }


def as_plugins(merged: Mapping[str, MergedSet], references: Mapping[str, str]) -> Plugins:
    """Return the merged sets in the form of the file."""
    sets = {
        POINTS[point]: PluginSet(
            enabled=tuple(
                PluginReference(name=references.get(entry.name, entry.name), weight=entry.weight)
                for entry in one.enabled
            ),
            disabled=tuple(PluginReference(name=name) for name in one.disabled),
        )
        for point, one in merged.items()
    }
    return Plugins(**sets)


# -- expansion ------------------------------------------------------------------------------------


def expand(
    merged: Mapping[str, MergedSet], path: str, registry: Registry, errors: FieldErrors
) -> Expanded:
    """Return the plugins of every extension point, in order, with weights.

    Names that are not in the registry are skipped: `check_names` has reported them.
    """
    multi = _unique(merged[MULTI_POINT].enabled, None, path, registry, errors)
    points = {
        point.yaml: _at_point(point, merged[point.yaml], multi, path, registry, errors)
        for point in EXTENSION_POINTS
    }
    weights: dict[str, int] = {}
    for entry in (*merged[SCORE.yaml].enabled, *merged[MULTI_POINT].enabled):
        if entry.name in points[SCORE.yaml]:
            weights.setdefault(entry.name, entry.weight or 1)
    return Expanded(MappingProxyType(points), MappingProxyType(weights))


def _at_point(
    point: ExtensionPoint,
    own: MergedSet,
    multi: Sequence[str],
    path: str,
    registry: Registry,
    errors: FieldErrors,
) -> tuple[str, ...]:
    listed = [
        name
        for name in _unique(own.enabled, point, path, registry, errors)
        if point.implemented_by(registry[name])
    ]
    if EVERY in own.disabled or not multi:
        return tuple(listed)
    implementing = [name for name in multi if point.implemented_by(registry[name])]
    overriding = [name for name in listed if name in implementing and name not in own.disabled]
    expanded = [
        name for name in implementing if name not in own.disabled and name not in overriding
    ]
    rest = [name for name in listed if name not in overriding]
    return (*overriding, *expanded, *rest)


def _unique(
    entries: Sequence[Listed],
    point: ExtensionPoint | None,
    path: str,
    registry: Registry,
    errors: FieldErrors,
) -> list[str]:
    """Return the names that are in the registry, each once; report repetitions."""
    names: list[str] = []
    for entry in entries:
        if entry.name not in registry:
            continue
        if entry.name not in names:
            names.append(entry.name)
            continue
        where = point or _first_point(registry[entry.name])
        interface = where.interface if where else "plugin"
        errors.add(entry.path or path, f'plugin "{entry.name}" already registered as "{interface}"')
    return names


def _first_point(factory: Any) -> ExtensionPoint | None:
    return next((point for point in EXTENSION_POINTS if point.implemented_by(factory)), None)


def check_expanded(expanded: Expanded, scheduler_name: str, path: str, errors: FieldErrors) -> None:
    """Report a profile without bind plugin, or without exactly one queue sort plugin."""
    sorters = expanded.points[QUEUE_SORT.yaml]
    if len(sorters) != 1:
        errors.add(
            path,
            "only one queue sort plugin required for profile with scheduler name "
            f'"{scheduler_name}", but got {len(sorters)}{_named(sorters)}',
        )
    if not expanded.points[BIND.yaml]:
        errors.add(
            path,
            f'at least one bind plugin is needed for profile with scheduler name "{scheduler_name}"'
            "; enable DefaultBinder",
        )


def _named(names: Collection[str]) -> str:
    return f": {', '.join(names)}" if names else "; enable PrioritySort"
