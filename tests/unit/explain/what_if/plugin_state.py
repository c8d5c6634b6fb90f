"""The state of every plugin of a world, as one comparable value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from plugins.node_resources.amounts import KeptShares
from scheduler import offline
from scheduler.explain.examining.trial_decision import TrialDecisions
from scheduler.explain.records import Change
from scheduler.explain.what_if.trial import WhatIfTrial

COUNTERS: Final = frozenset({"_sequence", "version", "_version"})
"""Fields that say how far an index has followed: they grow with every change that is tried."""

CACHES: Final = frozenset({"_fitting", "_known_needs", "_sorted"})
"""Fields that are computed again whenever a counter grows."""


def plugin_state(world: offline.World, *readers: Mapping[str, Any]) -> dict[str, object]:
    """Return what each plugin holds; objects of the cluster by identity.

    Indexes follow the cluster when they are next read, so that `readers` are scheduled first: pods
    about which all plugins have to decide.
    """
    parts = world._assembly.trial_parts()
    with WhatIfTrial(parts, TrialDecisions(parts.engine)) as trial:
        for index, pod in enumerate(readers):
            key = f"default/reader-{index}"
            spec = {**pod["spec"], "schedulerName": next(iter(parts.engine.frameworks))}
            made = {"metadata": {"name": f"reader-{index}"}, "spec": spec}
            trial.apply([Change("add", "Pod", key, value=made)])
            reader = trial.find("Pod", key)
            assert reader is not None
            assert not trial.decide(reader).error
    return {
        f"{profile}/{name}": _value(plugin, {})
        for profile, framework in parts.engine.frameworks.items()
        for name, plugin in framework.plugins.items()
    }


def _value(value: Any, seen: dict[int, int]) -> object:
    """Return nested tuples; an object that was seen before is its number."""
    if value is None or isinstance(value, str | int | float | bytes | frozenset):
        return value
    if isinstance(value, KeptShares):
        # What it keeps for an object depends on that object alone.
        return "kept"
    if id(value) in seen:
        return f"object {seen[id(value)]}"
    seen[id(value)] = len(seen)
    if isinstance(value, np.ndarray):
        return value.shape, value.tobytes()
    if isinstance(value, Mapping):
        return {repr(key): _value(each, seen) for key, each in value.items()}
    if isinstance(value, set):
        return sorted(map(repr, value))
    if isinstance(value, list | tuple):
        return tuple(_value(each, seen) for each in value)
    if type(value).__module__.startswith(("plugins.", "scheduler.engine.kubelet")):
        return {name: _value(each, seen) for name, each in _fields(value)}
    return id(value)


def _fields(value: Any) -> Iterator[tuple[str, object]]:
    slots = [name for each in type(value).__mro__ for name in getattr(each, "__slots__", ())]
    struct = getattr(value, "__struct_fields__", ())
    for name in [*getattr(value, "__dict__", ()), *slots, *struct]:
        found = getattr(value, name, None)
        if name not in COUNTERS | CACHES and not callable(found):
            yield name, found
