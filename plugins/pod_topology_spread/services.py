"""Which Services select a pod: looked up by label, for a namespace may have 10,000 Services.

A Service is kept under one label of its selector. Invariant: whatever it is kept under, a pod that
it selects has that label, so only the Services under a pod's own labels are held against the pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from scheduler.api.workloads import Service

_MAX_NAMESPACES: Final = 1024
"""Whose Services are kept apart; each costs about 200 bytes a Service."""

_Label = tuple[str, str]
_Selectors = dict[_Label, list[Mapping[str, str]]]


class ServiceSelectors:
    """Selectors of Services by namespace. Never told of changes: it compares what it is given."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[str, tuple[list[Service], _Selectors]] = {}

    def merged(
        self, namespace: str, services: Iterable[Service], labels: Mapping[str, str]
    ) -> dict[str, str]:
        """All labels that those of a namespace's `services` demand which select a pod."""
        merged: dict[str, str] = {}
        selectors = self._of(namespace, list(services))
        if not selectors:
            return merged
        pod_labels = labels.items()
        for label in pod_labels:
            for selector in selectors.get(label, ()):
                if all(labels.get(key) == value for key, value in selector.items()):
                    merged |= selector
        return merged

    def _of(self, namespace: str, services: list[Service]) -> _Selectors:
        known = self._known.get(namespace)
        # The same objects are equal at a glance.
        if known is not None and known[0] == services:
            return known[1]
        selectors: _Selectors = {}
        for each in services:
            if each.spec.selector:
                label = next(iter(each.spec.selector.items()))
                selectors.setdefault(label, []).append(each.spec.selector)
        if len(self._known) >= _MAX_NAMESPACES:
            self._known.clear()
        self._known[namespace] = services, selectors
        return selectors
