"""Plugin arguments: from `pluginConfig` to the args Structs that the plugins are built with.

Every enabled plugin of the registry gets a Struct, decoded from its entry or from nothing at all,
and checked by the plugin's own `validate_args(args)`, which yields (path below args, message).
Arguments of plugins that are known and not available stay JSON data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from config import upstream
from config.decoding import Decoder, described
from config.document import Document, Entries, Node, Scalar, plain
from config.feature_gates import FeatureGates
from config.go_plugins import (
    COSCHEDULING,
    COSCHEDULING_ARGS,
    MISSPELT,
    advice,
    argument_advice,
)
from config.merging import Catalogue, NameResolver
from config.types import API_VERSION, KubeSchedulerProfile, PluginConfig
from scheduler.framework.field_errors import (
    FieldErrors,
    below,
    child,
    forbidden,
    invalid,
    item,
    nearest,
)
from scheduler.framework.plugin_names import UPSTREAM_NAMES
from scheduler.framework.registry import NoArgs, args_type

GROUP: Final = API_VERSION.partition("/")[0]

Arguments = msgspec.Struct | dict[str, Any]
"""A plugin's args Struct; JSON data for a plugin that is not available."""


class ArgumentsReader:
    """Reader of the arguments of one profile after the other."""

    def __init__(
        self,
        document: Document,
        catalogue: Catalogue,
        gates: FeatureGates,
        errors: FieldErrors,
        names: NameResolver,
    ) -> None:
        self._document = document
        self._catalogue = catalogue
        self._names = names
        self._gates = gates
        self._errors = errors

    def read(
        self, index: int, profile: KubeSchedulerProfile, enabled: Sequence[str]
    ) -> dict[str, Arguments]:
        """Return arguments by plugin name: those configured, then defaults of `enabled` plugins."""
        path = f"profiles[{index}].pluginConfig"
        arguments: dict[str, Arguments] = {}
        for position, entry in enumerate(profile.plugin_config):
            if not entry.name or entry.name in arguments:
                continue  # reported by validation
            node = self._document.find(("profiles", index, "pluginConfig", position, "args"))
            decoded = self._configured(entry, node or Entries(), item(path, position))
            if decoded is not None:
                arguments[entry.name] = decoded
        configured = {entry.name for entry in profile.plugin_config}
        for name in enabled:
            if name not in configured:
                default = self._default(name, path)
                if default is not None:
                    arguments[name] = default
        return arguments

    def _configured(self, entry: PluginConfig, node: Node, path: str) -> Arguments | None:
        name, args_path = entry.name, child(path, "args")
        if name not in self._catalogue.registry:
            return self._unavailable(entry, node, path)
        if isinstance(node, Scalar) and node.value is None:
            node = Entries()
        factory = self._catalogue.registry[name]
        declared = args_type(factory)
        if isinstance(node, Entries):
            self._check_gates(name, node, args_path)
            if COSCHEDULING in getattr(factory, "aliases", ()):
                node = self._without_former(node, args_path)
            node = self._without_type(name, declared, node, args_path)
        args = Decoder(self._errors).struct(declared, node, args_path)
        if args is not None:
            self._validate(name, factory, args, args_path)
        return args

    def _unavailable(self, entry: PluginConfig, node: Node, path: str) -> Arguments | None:
        name = entry.name
        if self._catalogue.absent(name):
            if isinstance(node, Entries):
                node = self._without_type(name, NoArgs, node, child(path, "args"))
            data = plain(node)
            return data if isinstance(data, dict) else {}
        name_path = child(path, "name")
        if not self._errors.has(name_path):
            hint = self._catalogue.qualified(name) or advice(
                name, self._catalogue.names(), unloaded=self._names.failed
            )
            self._errors.add(name_path, f'plugin "{name}" does not exist{hint}')
        if meant := nearest(name, self._catalogue.registry, cutoff=MISSPELT):
            # So that its faults are reported in the same run.
            self._configured(msgspec.structs.replace(entry, name=meant), node, path)
        return None

    def _without_former(self, node: Entries, path: str) -> Entries:
        """Return the arguments without those of Coscheduling, which are reported."""
        left = {}
        for argument, value in node.nodes.items():
            if argument in COSCHEDULING_ARGS:
                self._errors.add(child(path, argument), argument_advice(argument))
            elif argument != "kind" or plain(value) != f"{COSCHEDULING}Args":
                left[argument] = value
        return Entries(left)

    def _without_type(
        self, name: str, declared: type[msgspec.Struct], node: Entries, path: str
    ) -> Entries:
        """The arguments without `apiVersion` and `kind`, which upstream allows inside."""
        fields = {field.encode_name for field in described(declared).fields}
        own = {key for key in ("apiVersion", "kind") if key in node.nodes and key not in fields}
        if name in UPSTREAM_NAMES:
            self._check_type(name, {key: plain(node.nodes[key]) for key in own}, path)
        return Entries({key: value for key, value in node.nodes.items() if key not in own})

    def _check_type(self, name: str, written: dict[str, Any], path: str) -> None:
        kind, version = written.get("kind"), written.get("apiVersion")
        if kind is not None and kind != f"{name}Args":
            message = (
                f"args for plugin {name} were not of type {name}Args.{GROUP}, got {kind}.{GROUP}"
                ": has to match plugin args"
            )
            self._errors.add(child(path, "kind"), message)
        if version is not None and version != API_VERSION:
            self._errors.add(child(path, "apiVersion"), invalid(version, f"must be {API_VERSION}"))

    def _check_gates(self, name: str, node: Entries, path: str) -> None:
        for key, value in node.nodes.items():
            needed = upstream.GATED_ARGS.get((name, key), ())
            off = [gate for gate in needed if not self._gates.enabled(gate)]
            if off and not (isinstance(value, Scalar) and value.value is None):
                detail = (
                    f"unexpected field `{key}`, remove it or turn on the feature gate "
                    f"{' and '.join(off)}"
                )
                self._errors.add(child(path, key), forbidden(detail))

    def _default(self, name: str, path: str) -> Arguments | None:
        factory = self._catalogue.registry[name]
        declared = args_type(factory)
        needed = [field.encode_name for field in described(declared).fields if field.required]
        if needed:
            self._errors.add(
                path,
                f'plugin "{name}" is enabled and has no entry here, but needs the arguments '
                f"{', '.join(needed)}",
            )
            return None
        args = declared()
        self._validate(name, factory, args, f"{path}[{name}].args")
        return args

    def _validate(self, name: str, factory: Any, args: msgspec.Struct, path: str) -> None:
        check = getattr(factory, "validate_args", None)
        if check is None:
            return
        try:
            for relative, message in check(args):
                self._errors.add(below(path, relative), message)
        except Exception as error:  # noqa: BLE001 - boundary: code of a plugin's author
            kind = type(error).__name__
            self._errors.add(path, f'validate_args of plugin "{name}" raised {kind}: {error}')
