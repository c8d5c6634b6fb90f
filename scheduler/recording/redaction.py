"""Redaction of a bundle: what a tenant can name becomes random-looking words.

The same word becomes the same replacement everywhere in a bundle, so that selectors still match;
another bundle has another salt. Everything is replaced that is not known to be harmless: of objects
all texts and all keys that are no fields, of messages all words that are not kubestow's own
(`KNOWN_WORDS`). So a text that nobody thought of is replaced, not kept.

Kept are numbers, times, UIDs, codes, well-known label keys and resource names, and the names of
profiles and plugins.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from scheduler import cel
from scheduler.api.images import normalized_image
from scheduler.recording.format import CONFIGURATION, DELTA, HEADER, METRICS, OBJECT
from scheduler.recording.redaction_words import (
    ALIAS_ANNOTATION,
    AMOUNT_OR_TIME,
    ENUMERATED,
    GENERATED_NAME,
    HARMLESS_METRIC_LABELS,
    KEPT_KEYS,
    KEPT_NAMES,
    KEPT_VALUES,
    LINE_FIELDS,
    NAME_FIELDS,
    NAMING_ANNOTATIONS,
    NATIVE_RESOURCE,
    api_versions,
    object_fields,
)
from scheduler.sanitizing.vocabulary import KNOWN_WORDS

_AMOUNTS: Final = frozenset(
    ("requests", "limits", "allocatable", "capacity", "hard", "used", "overhead")
) | {"allocatedResources", "consumedCapacity", "usedAndHard"}
"""Mappings by resource."""

_UID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_VERSION: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9}){2})(?:([-+])(.+))?", re.DOTALL)
"""A semantic version, which attributes of devices may be."""
_WORD: Final = re.compile(
    r'"[a-z0-9](?:[a-z0-9./-]*[a-z0-9])?"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ|[A-Za-z0-9](?:[A-Za-z0-9_./-]*[A-Za-z0-9])?|[^\x00-\x7f]+'
)
"""A quoted name, a time, or a word."""
_METRIC_LABEL: Final = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)"')
_COMPUTE_PREFIX: Final = re.compile(r"^(?:deferred\.kubestow\.io/)?(?:requests\.|limits\.)?")


class Redactor:
    """Learns from all lines of a bundle first, and redacts them then."""

    def __init__(self, salt: bytes) -> None:
        self._salt = salt
        #: Names of profiles and plugins.
        self._names: set[str] = set()
        #: Fields of objects.
        self._fields = set(object_fields())
        #: Claims of ephemeral volumes, whose names are made of those of their pods.
        self._claims: dict[str, str] = {}

    # -- first pass ------------------------------------------------------------------------------

    def learn(self, section: str, data: Any) -> None:
        """Take note of the names of profiles, plugins and ephemeral claims."""
        if section == CONFIGURATION:
            self._learn_names(data["configuration"].get("profiles"))
            self._learn_fields(data.get("customFields"))
            return
        obj = data.get("object") if section == DELTA else data if section == OBJECT else None
        if isinstance(obj, dict):
            self._learn_claims(obj)

    def _learn_names(self, profiles: Any) -> None:
        for profile in profiles or ():
            self._names.add(str(profile.get("schedulerName", "")))
            named = list(profile.get("pluginConfig") or ())
            for sets in (profile.get("plugins") or {}).values():
                for each in sets.values() if isinstance(sets, dict) else ():
                    named += each or ()
            self._names.update(str(each.get("name", "")) for each in named)

    def _learn_fields(self, fields: Any) -> None:
        """Take note of the custom resources, and of the fields that plugins declare for them."""
        for resource, names in fields.items() if isinstance(fields, dict) else ():
            self._names.add(str(resource))
            self._fields |= set(map(str, names))

    def _learn_claims(self, obj: Mapping[str, Any]) -> None:
        pod = (obj.get("metadata") or {}).get("name")
        for volume in (obj.get("spec") or {}).get("volumes") or ():
            if isinstance(volume, dict) and volume.get("ephemeral") is not None and pod:
                name = volume.get("name", "")
                made = f"{self._name(pod)}-{self._name(name)}"
                self._claims[f"{pod}-{name}"] = made

    # -- second pass -----------------------------------------------------------------------------

    def redact(self, section: str, data: Any) -> Any:
        """Return the data of a line without names."""
        if section == OBJECT:
            return self._whole_object(data)
        if section == DELTA:
            rest = self._line("", {key: each for key, each in data.items() if key != "object"})
            return {**rest, "object": self._whole_object(data["object"])}
        if section == HEADER:
            return {**data, "redacted": True}
        if section == METRICS:
            return {**data, "text": _METRIC_LABEL.sub(self._metric_label, data.get("text", ""))}
        if section == CONFIGURATION:
            return self._configuration(data)
        return self._line("", data)

    def _configuration(self, data: dict[str, Any]) -> dict[str, Any]:
        """Redact the arguments of plugins; the rest names nothing of the cluster."""
        configuration = dict(data["configuration"])
        configuration["profiles"] = [
            {
                **profile,
                "pluginConfig": [
                    {**each, "args": self._arguments(each.get("args"))}
                    for each in profile.get("pluginConfig") or ()
                ],
            }
            for profile in configuration.get("profiles") or ()
        ]
        return {**data, "configuration": configuration}

    def _arguments(self, value: Any, name: str = "") -> Any:
        """Redact arguments, whose keys are fields of plugins unless they are label keys."""
        if isinstance(value, str):
            kept = value in KEPT_VALUES or value in KNOWN_WORDS or name in ("apiVersion", "kind")
            return value if kept else self._name(value)
        if isinstance(value, list | tuple):
            return [self._arguments(each, name) for each in value]
        if isinstance(value, dict):
            return {
                key if key.isidentifier() else self._name(key): self._arguments(each, key)
                for key, each in value.items()
            }
        return value

    # -- lines about pods and decisions ----------------------------------------------------------

    def _line(self, name: str, value: Any) -> Any:
        if isinstance(value, str):
            return self._line_text(name, value)
        if isinstance(value, list | tuple):
            return [self._line(name, each) for each in value]
        if isinstance(value, dict):
            return {self._line_key(key): self._line(key, each) for key, each in value.items()}
        return value

    def _line_text(self, name: str, value: str) -> str:
        if name in NAME_FIELDS:
            return self._name(value)
        return self.text(value)

    def _line_key(self, key: str) -> str:
        kept = key in LINE_FIELDS or key in KNOWN_WORDS or key in self._names
        return key if kept else self._resource(key)

    def text(self, text: str) -> str:
        """Return a message with every word replaced that is not one of kubestow's own.

        A quoted word is a name, whichever it is.
        """
        return _WORD.sub(self._word, text)

    def _word(self, match: re.Match[str]) -> str:
        word = match.group()
        if word.startswith('"'):
            name = word[1:-1]
            kept = name in KEPT_VALUES or name in self._names
            return word if kept else f'"{self._name(name)}"'
        if len(word) == 1 and word.isascii():
            return word
        if word in KNOWN_WORDS or word in KEPT_VALUES or word in self._names:
            return word
        return self._name(word)

    def _metric_label(self, match: re.Match[str]) -> str:
        name, value = match.groups()
        kept = name in HARMLESS_METRIC_LABELS or value in self._names
        return match.group() if kept else f'{name}="{self._resource(value)}"'

    # -- objects ---------------------------------------------------------------------------------

    def _whole_object(self, value: dict[str, Any]) -> dict[str, Any]:
        # Of the resource, not of the object's author.
        own = {key: value[key] for key in ("apiVersion", "kind") if key in value}
        redacted: dict[str, Any] = self._object(value)
        return redacted | own

    def _object(self, value: Any, name: str = "") -> Any:
        if isinstance(value, str):
            return self._object_text(value, name)
        if isinstance(value, list | tuple):
            return [self._object(each, name) for each in value]
        if not isinstance(value, dict):
            return value
        # Devices, claims and their requests have fields of these names that are no amounts.
        if name in _AMOUNTS and not _has_fields(name, value):
            return {self._resource(key): self._amount(each) for key, each in value.items()}
        if name == "annotations":
            return {
                self._name(key): self._annotation(key, str(each)) for key, each in value.items()
            }
        if _is_by_label(name, value) or _is_of_device(name, value):
            return {self._name(key): self._object(each) for key, each in value.items()}
        fields = self._fields
        return {
            key if key in fields else self._name(key): self._object(each, key)
            for key, each in value.items()
        }

    def _annotation(self, key: str, value: str) -> str:
        if key in NAMING_ANNOTATIONS:
            return ",".join(self._name(each.strip()) for each in value.split(","))
        if key == ALIAS_ANNOTATION:
            return self._aliases(value)
        return self.text(value)

    def _aliases(self, value: str) -> str:
        """Return aliases of resources that a quota names, as a JSON object, with other names."""
        try:
            aliases = msgspec.json.decode(value, type=dict[str, str])
        except (msgspec.DecodeError, RecursionError):
            return self.text(value)
        new = {self._name(alias): self._resource(name) for alias, name in aliases.items()}
        return msgspec.json.encode(new).decode()

    def _object_text(self, value: str, name: str) -> str:
        if name in ENUMERATED and (value in KEPT_VALUES or value in self._names):
            return value
        if name == "message":
            return self.text(value)
        if name == "apiVersion":
            return value if value in api_versions() else self._name(value)
        if name == "expression":
            return self._expression(value)
        if name in ("image", "names", "reference"):
            return f"{self._replacement(normalized_image(value))}:x"
        return self._name(value)

    def _expression(self, value: str) -> str:
        """Return a selector of devices that selects the same ones of the redacted devices."""
        try:
            return cel.rename(value, self._name)
        except cel.CompileError:
            # No selector, or one that selects nothing.
            return self._name(value)

    def _amount(self, value: Any) -> Any:
        kept = not isinstance(value, str) or AMOUNT_OR_TIME.fullmatch(value) or value.isdigit()
        return value if kept else "0"

    # -- words -----------------------------------------------------------------------------------

    def _resource(self, text: str) -> str:
        """Return a resource, as a pod or a quota names it, so that both still mean the same."""
        prefix = _COMPUTE_PREFIX.match(text)
        begin = "" if prefix is None else prefix.group()
        name = text[len(begin) :]
        if NATIVE_RESOURCE.fullmatch(name):
            return text
        if begin.startswith("deferred") and "_" in name:
            # The first `_` stands for `/`.
            return begin + self._name(name.replace("_", "/", 1)).replace("/", "_", 1)
        return begin + self._name(name)

    def _name(self, text: str) -> str:
        """Return a name, a label key or value, or `namespace/name`, with its parts replaced."""
        # A message names resources as quotas do: requests.cpu.
        resource = _COMPUTE_PREFIX.sub("", text, count=1)
        if text in KEPT_NAMES or text in KEPT_KEYS or NATIVE_RESOURCE.fullmatch(resource):
            return text
        if AMOUNT_OR_TIME.fullmatch(text) or _UID.fullmatch(text):
            return text
        if GENERATED_NAME.fullmatch(text):
            return text
        if text in self._claims:
            return self._claims[text]
        # A volume of several zones has them in one label, with `__` between.
        for separator in ("/", "__"):
            if separator in text:
                return separator.join(self._name(each) for each in text.split(separator))
        version = _VERSION.fullmatch(text)
        if version is not None:
            numbers, sign, rest = version.groups()
            return f"{numbers}{sign}{self._replacement(rest)}" if sign else text
        return self._replacement(text)

    def _replacement(self, text: str) -> str:
        """Return a word that may be a name, a label key and a label value."""
        digest = hmac.new(self._salt, text.encode("utf-8", "replace"), hashlib.sha256)
        return f"x{digest.hexdigest()[:12]}"


_BY_LABEL: Final = frozenset(("labels", "matchLabels", "parameters"))
"""Mappings by label key, or by another word of a tenant."""

_SELECTORS: Final = frozenset(("nodeSelector", "selector"))
"""Mappings by label key in pods and Services; objects with fields in all others."""


def _is_by_label(name: str, value: Mapping[str, Any]) -> bool:
    return name in _BY_LABEL or (name in _SELECTORS and not _has_fields(name, value))


def _has_fields(name: str, value: Mapping[str, Any]) -> bool:
    """Whether an object has fields, where others of this name are mappings of plain values."""
    of_driver = name == "allocatable" and value.keys() == {"count"}
    return of_driver or any(isinstance(each, dict | list) for each in value.values())


def _is_of_device(name: str, value: Mapping[str, Any]) -> bool:
    """Whether a mapping is by attribute or capacity of a device, which a tenant names.

    The capacity that a claim requests is a mapping of another kind.
    """
    of_device = name == "attributes" or (name == "capacity" and "requests" not in value)
    return of_device and all(isinstance(each, dict) for each in value.values())
