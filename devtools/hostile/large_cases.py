"""Pods as large as the API server stores, within the limits of `scheduler.api.limits`.

The pods of `pod_cases` may be beyond a limit, and are then hardly looked at. These are attempted,
and what is derived from them is kept for as long as anything is. Their text is random: it takes
its full size after compression, and no two pods share any of it.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from random import Random
from typing import Any, Final

from devtools.hostile.case import Dimension, HostileCase, JsonObject
from devtools.hostile.pod_cases import HOST, REQUIRED, Spec, pod_of

_VALUE: Final = 63
"""Characters of a label value, a label key or a name, at most."""


def large_cases() -> Iterator[HostileCase]:
    """Pods of about 1 MB each."""
    yield _large("anti-affinity", 2_500, _anti_affinity)
    yield _large("anti-affinity-values", 14_000, _anti_affinity_values)
    yield _large("node-affinity", 3_000, _node_affinity)
    yield _large("labels", 7_000, lambda size, serial: {"metadata": {"labels": _map(size, serial)}})
    yield _large("node-selector", 7_500, lambda size, serial: {"nodeSelector": _map(size, serial)})
    yield _large("tolerations", 6_000, _tolerations)


def _large(what: str, full: int, spec: Spec) -> HostileCase:
    name = f"large-{what}"
    return HostileCase(
        name=f"pods-{name}",
        plural="pods",
        dimension=Dimension.UNIQUENESS,
        make=pod_of(name, spec),
        unit=what,
        small=20,
        full=full,
    )


def _words(number: int, serial: int, kind: str, length: int = _VALUE) -> list[str]:
    """Random words of letters and digits, the same for the same serial and kind."""
    random = Random(f"{kind}-{serial}")
    # Six bits a letter: three bytes are four letters.
    text = b64encode(random.randbytes(number * length), b"xy").decode().replace("=", "")
    return [text[first : first + length] for first in range(0, number * length, length)]


def _map(size: int, serial: int) -> dict[str, str]:
    return dict(zip(_words(size, serial, "key"), _words(size, serial, "value"), strict=True))


def _anti_affinity(size: int, serial: int) -> JsonObject:
    """Terms that each need another label, with a prefix: the longest keys there may be."""
    prefixes = _words(size, serial, "prefix", 180)
    terms = [
        {
            "topologyKey": HOST,
            "labelSelector": {"matchLabels": {f"{prefix.lower()}/{key}": value}},
        }
        for prefix, (key, value) in zip(prefixes, _map(size, serial).items(), strict=True)
    ]
    return _required("podAntiAffinity", terms)


def _anti_affinity_values(size: int, serial: int) -> JsonObject:
    """One term with many values for one label, which all these pods have."""
    values = _words(size, serial, "value")
    expression = {"key": "app", "operator": "In", "values": values}
    terms = [{"topologyKey": HOST, "labelSelector": {"matchExpressions": [expression]}}]
    return {"metadata": {"labels": {"app": "hostile"}}, **_required("podAntiAffinity", terms)}


def _node_affinity(size: int, serial: int) -> JsonObject:
    """Terms of which any node satisfies each."""
    prefixes = _words(size, serial, "prefix", 120)
    terms = [
        {
            "matchExpressions": [
                {"key": f"{prefix.lower()}/{key}", "operator": "NotIn", "values": [value]}
            ]
        }
        for prefix, (key, value) in zip(prefixes, _map(size, serial).items(), strict=True)
    ]
    return _required("nodeAffinity", {"nodeSelectorTerms": terms})


def _tolerations(size: int, serial: int) -> JsonObject:
    listed = [
        {"key": key, "operator": "Equal", "value": value, "effect": "NoSchedule"}
        for key, value in _map(size, serial).items()
    ]
    return {"tolerations": listed}


def _required(kind: str, terms: Any) -> JsonObject:
    return {"affinity": {kind: {REQUIRED: terms}}}
