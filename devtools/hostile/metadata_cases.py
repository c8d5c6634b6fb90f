"""Hostile metadata: the same for every kind."""

from __future__ import annotations

from collections.abc import Iterator

from devtools.hostile.case import Dimension, HostileCase, JsonObject, Make, Verdict
from devtools.hostile.parts import ODD_TEXTS, TIMES, keys, labels, nested_objects, text, words
from devtools.hostile.templates import TEMPLATES

ANNOTATION_BYTES = 256 * 1024
"""What the API server allows for all annotations of an object."""


def metadata_cases() -> Iterator[HostileCase]:
    """Every kind with extreme metadata."""
    for plural in TEMPLATES:
        yield from _depth(plural)
        yield from _counts(plural)
        yield from _sizes(plural)
        yield from _odd(plural)


def _depth(plural: str) -> Iterator[HostileCase]:
    def deep(depth: int, _serial: int) -> JsonObject:
        return {"fieldsV1": nested_objects(depth)}

    yield HostileCase(
        name=f"{plural}-managed-fields-deep",
        plural=plural,
        dimension=Dimension.DEPTH,
        make=_managed(plural, deep),
        unit="levels",
        small=3_000,
        full=9_000,
    )


def _counts(plural: str) -> Iterator[HostileCase]:
    def count(what: str, make: Make, full: int, small: int = 50) -> HostileCase:
        return HostileCase(
            name=f"{plural}-{what}",
            plural=plural,
            dimension=Dimension.COUNT,
            make=make,
            unit=what,
            small=small,
            full=full,
        )

    def many_labels(size: int, serial: int) -> JsonObject:
        return _with(plural, serial, labels=labels(size))

    def many_annotations(size: int, serial: int) -> JsonObject:
        return _with(plural, serial, annotations=dict.fromkeys(keys(size), "x"))

    def many_finalizers(size: int, serial: int) -> JsonObject:
        return _with(plural, serial, finalizers=keys(size))

    def many_owners(size: int, serial: int) -> JsonObject:
        owners = [
            {"apiVersion": "example.com/v1", "kind": "Owner", "name": word, "uid": word}
            for word in words(size)
        ]
        return _with(plural, serial, ownerReferences=owners)

    def wide_fields(size: int, _serial: int) -> JsonObject:
        return {"fieldsV1": {f"f:{word}": {} for word in words(size)}}

    yield count("labels", many_labels, 6_000)
    yield count("annotations", many_annotations, 11_000)
    yield count("finalizers", many_finalizers, 10_000)
    yield count("owner-references", many_owners, 10_000)
    yield count("managed-fields-wide", _managed(plural, wide_fields), 50_000)


def _sizes(plural: str) -> Iterator[HostileCase]:
    def long_annotation(size: int, serial: int) -> JsonObject:
        return _with(plural, serial, annotations={"a": "x" * size})

    def long_name(size: int, serial: int) -> JsonObject:
        made = TEMPLATES[plural](_name(plural, serial))
        made["metadata"]["name"] += "x" * (size - len(made["metadata"]["name"]))
        return made

    yield HostileCase(
        name=f"{plural}-annotation-long",
        plural=plural,
        dimension=Dimension.SIZE,
        make=long_annotation,
        unit="bytes",
        small=4_096,
        full=ANNOTATION_BYTES - 16,
    )
    if plural not in ("namespaces", "services", "csidrivers", "statefulsets"):
        yield HostileCase(
            name=f"{plural}-name-long",
            plural=plural,
            dimension=Dimension.SIZE,
            make=long_name,
            unit="bytes",
            small=200,
            full=253,
        )


def _odd(plural: str) -> Iterator[HostileCase]:
    def odd_text(json_text: str) -> Make:
        return lambda _size, serial: _with(plural, serial, annotations={"a": text(json_text)})

    def odd_time(time: str) -> Make:
        return _managed(plural, lambda _size, _serial: {"time": time, "fieldsV1": {"f:a": {}}})

    def unique(_size: int, serial: int) -> JsonObject:
        own = words(20, serial * 20)
        parts = {"labels": labels(20, offset=serial * 20), "annotations": {"a": own[0]}}
        return _with(plural, serial, **parts)

    for name, json_text in ODD_TEXTS.items():
        yield HostileCase(
            name=f"{plural}-annotation-{name}",
            plural=plural,
            dimension=Dimension.TEXT,
            make=odd_text(json_text),
        )
    for name, time in TIMES.items():
        yield HostileCase(
            name=f"{plural}-time-{name}",
            plural=plural,
            dimension=Dimension.NUMBERS,
            make=odd_time(time),
        )
    yield HostileCase(
        name=f"{plural}-labels-unique", plural=plural, dimension=Dimension.UNIQUENESS, make=unique
    )
    for name, parts in _WRONG_TYPES.items():
        yield HostileCase(
            name=f"{plural}-{name}",
            plural=plural,
            dimension=Dimension.TYPES,
            make=_replaced(plural, parts),
            verdict=Verdict.STORED if name.startswith("null-") else Verdict.REFUSED,
        )


_WRONG_TYPES: dict[str, JsonObject] = {
    "null-metadata-maps": {"labels": None, "annotations": None, "ownerReferences": None},
    "null-label": {"labels": {"a": None}},
    "label-number": {"labels": {"a": 1}},
    "labels-list": {"labels": []},
    "annotation-object": {"annotations": {"a": {"b": "c"}}},
    "finalizers-text": {"finalizers": "one"},
    "generation-text": {"generation": "one"},
    "uid-number": {"uid": 7},
    "owner-null": {"ownerReferences": [None]},
}


def _name(plural: str, serial: int) -> str:
    return f"{plural}-{serial:06d}"


def _with(plural: str, serial: int, **parts: object) -> JsonObject:
    """The smallest object of a kind with more metadata."""
    made = TEMPLATES[plural](_name(plural, serial))
    for key, part in parts.items():
        known = made["metadata"].get(key)
        if isinstance(known, dict) and isinstance(part, dict):
            part = {**known, **part}  # noqa: PLW2901 - the labels that a kind has anyway stay
        made["metadata"][key] = part
    return made


def _replaced(plural: str, parts: JsonObject) -> Make:
    def make(_size: int, serial: int) -> JsonObject:
        made = TEMPLATES[plural](_name(plural, serial))
        made["metadata"].update(parts)
        return made

    return make


def _managed(plural: str, entry: Make) -> Make:
    """The smallest object of a kind, one manager of whose fields is given."""

    def make(size: int, serial: int) -> JsonObject:
        made = TEMPLATES[plural](_name(plural, serial))
        managed = {
            "manager": "hostile",
            "operation": "Update",
            "apiVersion": made["apiVersion"],
            "time": "2026-01-01T00:00:00Z",
            "fieldsType": "FieldsV1",
            **entry(size, serial),
        }
        made["metadata"]["managedFields"] = [managed]
        return made

    return make
