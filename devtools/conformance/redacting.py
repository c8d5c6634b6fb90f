"""Vectors as `kubestow bundle --redact` would have them: other names, and the same decisions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from devtools.conformance.observing import NOMINATED
from devtools.conformance.reading import Vector
from devtools.conformance.world import KINDS
from scheduler.recording.format import CONFIGURATION, OBJECT
from scheduler.recording.redaction import Redactor

_DEFAULT: Final = {"profiles": [{"schedulerName": "default-scheduler"}]}
_TEXTS: Final = frozenset({"reasons", "message", "error"})
_OBJECTS: Final = frozenset({"deviceClasses", "resourceClaims", "resourceSlices"})
_NAMES: Final = frozenset({"feasibleNodes", "nodeNames", "selectedNodeOptions", "provision"})
"""Lists of names in the order of these."""


def redacted(vector: Vector) -> Vector:
    """Return the vector with its input redacted, and the same expectations of the new names."""
    stated, made = vector["input"], Redactor(b"salt")
    configuration = stated.get("config")
    made.learn(CONFIGURATION, {"configuration": configuration or _DEFAULT})
    objects = {
        key: [_whole(key, each) for each in listed]
        for key, listed in (stated.get("objects") or {}).items()
    }
    pod = _whole("pods", stated["pod"])
    everything = [*(each for listed in objects.values() for each in listed), pod]
    for each in everything:
        made.learn(OBJECT, each)
    new = {
        **stated,
        "objects": {
            key: [made.redact(OBJECT, each) for each in listed] for key, listed in objects.items()
        },
        "pod": made.redact(OBJECT, pod),
    }
    if configuration:
        line = made.redact(CONFIGURATION, {"configuration": configuration})
        new["config"] = line["configuration"]
    names = {name for each in everything for name in _names(each["metadata"])}
    expected = _Expected(made, names).value(vector["expected"])
    return {**vector, "input": new, "expected": expected}


def redacted_allocation(vector: Vector) -> Vector:
    """Return a vector of the allocator of devices with its names redacted."""
    stated, made = vector["input"], Redactor(b"salt")
    renamed = _Expected(made, set())
    new = {
        key: [made.redact(OBJECT, each) for each in value] if key in _OBJECTS else value
        for key, value in stated.items()
    }
    new["node"] = made.redact(OBJECT, stated["node"])
    new["allocated"] = {key: renamed.allocated(each) for key, each in _allocated(stated).items()}
    expected = dict(vector["expected"])
    if "allocations" in expected:
        expected["allocations"] = list(map(renamed.allocation, expected["allocations"]))
    return {**vector, "input": new, "expected": expected}


def _allocated(stated: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = stated.get("allocated", {})
    return found


def _whole(key: str, obj: Mapping[str, Any]) -> dict[str, Any]:
    version, kind = KINDS[key]
    return {"apiVersion": version, "kind": kind, **obj}


def _names(metadata: Mapping[str, Any]) -> tuple[str, str]:
    return metadata["name"], f"{metadata.get('namespace', 'default')}/{metadata['name']}"


class _Expected:
    """Replaces the names in what is expected."""

    def __init__(self, redactor: Redactor, names: set[str]) -> None:
        self._redactor, self._names = redactor, names

    def value(self, value: Any, key: str = "") -> Any:
        if isinstance(value, str):
            return self._text(value, key)
        if isinstance(value, list):
            if key in _NAMES:
                return sorted(map(self._name, value))
            return [self.value(each, key) for each in value]
        if not isinstance(value, dict):
            return value
        if key == "allocation":
            return self.allocation(value)
        return {self._text(name, ""): self.value(each, name) for name, each in value.items()}

    def allocation(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """Return the allocation of a claim with other names."""
        new: dict[str, Any] = self._redactor.redact(OBJECT, {"status": value})["status"]
        results = (each["devices"].get("results", ()) for each in (new, value))
        for result, old in zip(*results, strict=True):
            # `<uid>` and `<now>` stand for what is different each time.
            result |= {key: old[key] for key in ("shareID",) if key in old}
        return new | {key: value[key] for key in ("allocationTimestamp",) if key in value}

    def allocated(self, value: Any) -> Any:
        """Return devices, `driver/pool/device`, or what is taken of them, with other names."""
        if isinstance(value, list):
            return list(map(self._name, value))
        return {self._name(device): amounts for device, amounts in value.items()}

    def _text(self, text: str, key: str) -> str:
        if key in _TEXTS:
            return NOMINATED.join(map(self._redactor.text, text.split(NOMINATED)))
        return self._name(text) if text in self._names else text

    def _name(self, text: str) -> str:
        new: str = self._redactor.redact("", {"pod": text})["pod"]
        return new
