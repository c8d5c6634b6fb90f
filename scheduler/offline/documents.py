"""The JSON documents of `kubestow simulate`: a record with `apiVersion` and `kind`.

docs/simulate.schema.json is their JSON Schema.
"""

from __future__ import annotations

import json
from typing import Any, Final, Literal

from scheduler.offline.records import to_json

API_VERSION: Final = "simulate.kubestow.io/v1"
"""Changes when a field is renamed, removed or changes its meaning; new fields do not change it."""

Kind = Literal["Simulation", "Capacity", "NodesNeeded", "Consolidation", "SweepRun"]


def plain(record: Any) -> Any:
    """Return a record of this package as JSON has it."""
    return json.loads(to_json(record))


def document(kind: Kind, record: Any) -> str:
    """Return a document in one line and in ASCII: nothing in it controls a terminal.

    >>> from scheduler.offline import Capacity
    >>> document("Capacity", Capacity(0, {}, "full"))[:62]
    '{"apiVersion": "simulate.kubestow.io/v1", "kind": "Capacity", '
    """
    found = record if isinstance(record, dict) else plain(record)
    return json.dumps({"apiVersion": API_VERSION, "kind": kind, **found})
