"""Printing a configuration: `config show`, its form for kube-scheduler, and `/configz`.

The printed file loads again and means the same. `upstream_form` leaves out the `kubestow` sections,
plugins kube-scheduler does not have, and arguments it does not know.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from datetime import timedelta
from typing import Any

import msgspec
import yaml

from config import upstream
from config.document import EXPONENT
from config.feature_gates import FeatureGates
from config.loading import Configuration
from config.types import API_VERSION
from scheduler.framework.plugin_names import UPSTREAM_NAMES
from scheduler.sanitizing.go_values import format_duration
from scheduler.sanitizing.redaction import redact


def to_data(configuration: Configuration) -> dict[str, Any]:
    """Return the effective configuration as JSON data: defaults filled in, sets merged."""
    data = _plain(configuration.effective)
    assert isinstance(data, dict)
    data = {key: value for key, value in data.items() if key == "kubestow" or value != []}
    gates = configuration.feature_gates
    for profile in data["profiles"]:
        profile["plugins"] = _plugins(profile["plugins"])
        profile["pluginConfig"] = [
            {"name": entry["name"], "args": _arguments(entry["name"], entry["args"], gates)}
            for entry in profile["pluginConfig"]
        ]
    return data


def upstream_form(configuration: Configuration) -> dict[str, Any]:
    """Return the part of the effective configuration that kube-scheduler knows, as JSON data."""
    data = to_data(configuration)
    data.pop("kubestow", None)
    for profile in data["profiles"]:
        profile.pop("kubestow")
        profile["plugins"] = {
            point: {
                side: kept
                for side, entries in sets.items()
                if (kept := [entry for entry in entries if _is_upstream(entry["name"])])
            }
            for point, sets in profile["plugins"].items()
        }
        profile["pluginConfig"] = [
            {
                "name": entry["name"],
                "args": _restricted(entry["args"], {"apiVersion": None, "kind": None, **fields}),
            }
            for entry in profile["pluginConfig"]
            if (fields := upstream.ARGS_FIELDS.get(entry["name"])) is not None
        ]
    return data


def to_yaml(data: Mapping[str, Any]) -> str:
    """Write JSON data as YAML in its own order, ASCII only: else PyYAML loses some line breaks."""
    return yaml.dump(dict(data), Dumper=_Dumper, sort_keys=False, default_flow_style=False)


class _Dumper(yaml.SafeDumper):
    """A dumper that also quotes texts which only the YAML readers of Kubernetes' tools convert."""


_Dumper.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"[yYnN]\Z"), list("yYnN"))
_Dumper.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"0o[0-7]+\Z"), ["0"])
_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", EXPONENT, list("-+0123456789"))


def configz(configuration: Configuration) -> dict[str, Any]:
    """Return the content of `/configz`: the configuration without keys, passwords and tokens."""
    return {"componentconfig": redact(to_data(configuration))}


def _arguments(plugin: str, args: Mapping[str, Any], gates: FeatureGates) -> dict[str, Any]:
    """Add the type to arguments, and leave out those whose feature gate is off."""
    shown = {
        key: value
        for key, value in args.items()
        if all(gates.enabled(gate) for gate in upstream.GATED_ARGS.get((plugin, key), ()))
    }
    if plugin not in UPSTREAM_NAMES:
        return shown
    return {"apiVersion": API_VERSION, "kind": f"{plugin}Args"} | shown


def _is_upstream(name: str) -> bool:
    return name == "*" or name in UPSTREAM_NAMES


def _restricted(value: Any, fields: upstream.Fields | None) -> Any:
    """Keep only `fields` of mappings, at any depth."""
    if fields is None:
        return value
    if isinstance(value, list):
        return [_restricted(one, fields) for one in value]
    if not isinstance(value, dict):
        return value
    return {key: _restricted(one, fields[key]) for key, one in value.items() if key in fields}


def _plugins(sets: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out points without entries, and weights that are not set."""
    return {
        point: {
            side: [
                {key: value for key, value in entry.items() if key != "weight" or value}
                for entry in entries
            ]
            for side, entries in one.items()
            if entries
        }
        for point, one in sets.items()
        if one["enabled"] or one["disabled"]
    }


def _plain(value: Any) -> Any:
    """Convert Structs to JSON data, with Go durations and without nulls."""
    if isinstance(value, timedelta):
        return format_duration(value)
    if isinstance(value, msgspec.Struct):
        pairs = zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True)
        value = {name: getattr(value, attribute) for name, attribute in pairs}
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items() if one is not None}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, AbstractSet):
        return sorted(_plain(one) for one in value)
    return msgspec.to_builtins(value)
