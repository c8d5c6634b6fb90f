"""The JSON Schema of what `kubestow simulate -o json` prints, from the records of its answers."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from typing import Any, Final, get_args, get_origin, get_type_hints

import msgspec

from config.schema import DIALECT, field_descriptions
from scheduler.offline import Capacity, Consolidation, NodesNeeded
from scheduler.offline.assertions import Check
from scheduler.offline.comparison import Comparison
from scheduler.offline.documents import API_VERSION
from scheduler.offline.experiment import SimulatedRun

_RUNS: Final = {
    "runs": (SimulatedRun, "Of each configuration and seed."),
    "comparisons": (Comparison, "Of the runs under other configurations with the first one."),
    "assertions": (Check, "The outcome of each `--assert`."),
}
_QUESTIONS: Final = (Capacity, Consolidation, NodesNeeded)


def schema() -> dict[str, Any]:
    """Return the schema of all documents, by their `kind`."""
    records = [*(record for record, _ in _RUNS.values()), *_QUESTIONS]
    known: dict[type, type] = {}
    shapes = [_shape(each, known) for each in records]
    references, definitions = msgspec.json.schema_components(shapes, ref_template="#/$defs/{name}")
    for record in known:
        properties = definitions[record.__name__]["properties"]
        for name, text in field_descriptions(record).items():
            if name in properties:
                properties[name]["description"] = text
    lists = {
        name: {"type": "array", "items": reference, "description": text}
        for (name, (_, text)), reference in zip(_RUNS.items(), references, strict=False)
    }
    definitions["Simulation"] = _document("Simulation", lists, list(lists))
    for record in _QUESTIONS:
        found = definitions[record.__name__]
        definitions[record.__name__] = _document(
            record.__name__, found["properties"], found["required"]
        )
    kinds = ("Simulation", *(each.__name__ for each in _QUESTIONS))
    return {
        "$schema": DIALECT,
        "title": "Answers of kubestow simulate",
        "anyOf": [{"$ref": f"#/$defs/{kind}"} for kind in kinds],
        "$defs": dict(sorted(definitions.items())),
    }


def _document(kind: str, properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    head = {"apiVersion": {"enum": [API_VERSION]}, "kind": {"enum": [kind]}}
    return {
        "type": "object",
        "properties": {**head, **properties},
        "required": [*head, *required],
    }


def _shape(value: Any, known: dict[type, type]) -> Any:
    """Return a type as JSON has it: records are structs without their private fields."""
    if is_dataclass(value) and isinstance(value, type):
        if value not in known:
            hints = get_type_hints(value)
            public = (each.name for each in fields(value) if each.name[0] != "_")
            members = [(name, _shape(hints[name], known)) for name in public]
            known[value] = msgspec.defstruct(value.__name__, members)
        return known[value]
    if get_origin(value) is tuple:
        items = tuple(each if each is ... else _shape(each, known) for each in get_args(value))
        return tuple.__class_getitem__(items)
    return value


def schema_text() -> str:
    """Return the text of the schema."""
    return json.dumps(schema(), indent=2) + "\n"
