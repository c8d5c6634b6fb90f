"""Differences between two configurations in force, after defaults and merging."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from config.loading import Configuration, ResolvedProfile
from config.output import to_data
from scheduler.framework.field_errors import child, item
from scheduler.sanitizing.redaction import redact

ABSENT: Final = None
"""The value of a side that lacks a path; effective configurations have no nulls."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One path with its value, JSON data, on both sides."""

    path: str
    first: Any
    second: Any


def differences(first: Configuration, second: Configuration) -> list[Difference]:
    """Return what differs, by path. Profiles are compared by scheduler name.

    Plugins are compared as they run: for each extension point the names in order, and the weights.
    """
    return list(_compare("", comparable(first), comparable(second)))


def redacted_differences(found: Iterable[Difference]) -> list[Difference]:
    """Hide keys, passwords and tokens in the values, as `redact` does by their keys."""
    return [
        Difference(each.path, _redacted(each.path, each.first), _redacted(each.path, each.second))
        for each in found
    ]


def _redacted(path: str, value: Any) -> Any:
    # The key of a value decides, and it is the last part of the path.
    key = path.rpartition(".")[2]
    return None if value is None else redact({key: value})[key]


def comparable(configuration: Configuration) -> dict[str, Any]:
    """Return the effective configuration with profiles, plugins and arguments by name."""
    data = to_data(configuration)
    written = {profile["schedulerName"]: profile for profile in data["profiles"]}
    data["profiles"] = {
        profile.scheduler_name: _profile(profile, written[profile.scheduler_name])
        for profile in configuration.profiles
    }
    data.setdefault("extenders", [])
    return data


def _profile(profile: ResolvedProfile, written: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in written.items() if key != "schedulerName"}
    return kept | {
        "plugins": {point: list(names) for point, names in profile.points.items()},
        "weights": dict(profile.weights),
        "pluginConfig": {entry["name"]: entry["args"] for entry in written["pluginConfig"]},
    }


def _compare(path: str, first: Any, second: Any) -> Iterator[Difference]:
    if isinstance(first, dict) and isinstance(second, dict):
        for key in dict.fromkeys([*first, *second]):
            yield from _compare(child(path, key), first.get(key, ABSENT), second.get(key, ABSENT))
    elif _of_mappings(first) and _of_mappings(second):
        for index in range(max(len(first), len(second))):
            pair = [side[index] if index < len(side) else ABSENT for side in (first, second)]
            yield from _compare(item(path, index), *pair)
    elif first != second:
        yield Difference(path, first, second)


def _of_mappings(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, dict) for one in value)
