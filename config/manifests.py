"""Configurations inside Kubernetes manifests: a ConfigMap holds one under a key of its `data`.

Finds the texts; `load_configuration` reads them. The lines of a text stay those of the manifest,
because each found text is preceded by as many empty lines as it is away from the top.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import yaml

from config.types import KIND
from scheduler.framework.field_errors import child, item
from scheduler.framework.status import ConfigurationError

_MENTION: Final = re.compile(rf"^\s*[{{,]?\s*[\"']?kind[\"']?\s*:\s*[\"']?{KIND}\b", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class FoundConfiguration:
    """The text of one configuration, and its place in the manifest."""

    text: str
    #: `data["config.yaml"]`; empty for a text that is a configuration itself.
    path: str = ""


def find_configurations(text: str, *, only_mentioned: bool = False) -> list[FoundConfiguration]:
    """Return the configurations in a file: the whole text, or what its ConfigMaps hold.

    Args:
        text: the file.
        only_mentioned: return nothing for a text that holds no configuration, as most files of a
            folder do; otherwise such a text is returned whole, to be refused as a configuration.

    Raises:
        ConfigurationError: the text has a ConfigMap, and none holds a configuration.
    """
    if only_mentioned and not _MENTION.search(text):
        return []
    try:
        roots = list(yaml.compose_all(text, Loader=yaml.SafeLoader))
    except (yaml.YAMLError, ValueError, RecursionError):
        return [FoundConfiguration(text)]  # reading it as a configuration reports the mistake
    objects = [each for root in roots for each in _objects(root)]
    maps = [(root, path) for root, path in objects if _text_at(root, "kind") == "ConfigMap"]
    if not maps:
        return [FoundConfiguration(text)]
    found = [each for root, path in maps for each in _inside(root, path)]
    if not found and not only_mentioned:
        keys = [key.value for root, _ in maps for key, _ in _pairs(_at(root, "data"))]
        listed = ", ".join(keys) or "none"
        raise ConfigurationError(f"no {KIND} in data of the ConfigMap (keys: {listed})")
    return found


def _objects(root: yaml.Node) -> Iterator[tuple[yaml.Node, str]]:
    """Yield an object, or those of a list, as kubectl get prints it, each with its path."""
    items = _at(root, "items")
    if isinstance(items, yaml.SequenceNode):
        yield from ((each, item("items", index)) for index, each in enumerate(items.value))
    else:
        yield root, ""


def _inside(root: yaml.Node, path: str) -> Iterator[FoundConfiguration]:
    for key, value in _pairs(_at(root, "data")):
        if isinstance(value, yaml.ScalarNode) and _MENTION.search(value.value):
            # The text of a literal block starts in the line after its "|".
            lines = value.start_mark.line + (value.style in {"|", ">"})
            where = child(child(path, "data"), key.value)
            yield FoundConfiguration("\n" * lines + value.value, where)


def _pairs(node: yaml.Node | None) -> Iterator[tuple[yaml.ScalarNode, yaml.Node]]:
    for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
        if isinstance(key, yaml.ScalarNode):
            yield key, value


def _at(node: yaml.Node | None, name: str) -> yaml.Node | None:
    return next((value for key, value in _pairs(node) if key.value == name), None)


def _text_at(node: yaml.Node, name: str) -> str | None:
    found = _at(node, name)
    return found.value if isinstance(found, yaml.ScalarNode) else None
