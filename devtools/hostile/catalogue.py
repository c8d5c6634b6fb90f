"""All hostile cases, and how to choose among them.

for case in chosen(plural="pods", dimension=Dimension.COUNT):
    body = encode(case.object(case.full))
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from devtools.hostile.case import Dimension, HostileCase, JsonObject, Verdict, encode, name_of
from devtools.hostile.cluster_cases import cluster_cases
from devtools.hostile.device_cases import device_cases
from devtools.hostile.large_cases import large_cases
from devtools.hostile.metadata_cases import metadata_cases
from devtools.hostile.pod_cases import pod_cases
from devtools.hostile.pod_value_cases import pod_value_cases
from devtools.hostile.storage_cases import storage_cases

__all__ = [
    "CASES",
    "WORST",
    "Dimension",
    "HostileCase",
    "JsonObject",
    "Verdict",
    "chosen",
    "encode",
    "name_of",
]

CASES: Final[Mapping[str, HostileCase]] = MappingProxyType(
    {
        case.name: case
        for case in (
            *metadata_cases(),
            *pod_cases(),
            *pod_value_cases(),
            *large_cases(),
            *cluster_cases(),
            *storage_cases(),
            *device_cases(),
        )
    }
)
"""Every case by name."""

WORST: Final = tuple(
    CASES[name]
    for name in (
        "pods-managed-fields-deep",
        "pods-resource-names",
        "pods-anti-affinity-terms",
        "pods-affinity-terms",
        "pods-own-anti-affinity",
        "pods-own-node-affinity",
        "pods-own-labels",
        "pods-argument-long",
    )
)
"""Cases to measure at full size: each has crashed or paralysed a scheduler before."""


def chosen(
    *,
    plural: str | None = None,
    dimension: Dimension | None = None,
    verdict: Verdict | None = None,
) -> list[HostileCase]:
    """The cases of a kind, a dimension, a verdict."""
    return [
        case
        for case in CASES.values()
        if plural in (None, case.plural)
        and dimension in (None, case.dimension)
        and verdict in (None, case.verdict)
    ]
