"""Services that select a pod, indexed by label because a namespace may have 10,000 Services.

A Service is indexed under one label of its selector. A pod that it selects has that label, so only
the Services under a pod's own labels are compared with the pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from scheduler.api.workloads import Service

_MAX_NAMESPACES: Final = 1024
"""Namespaces to cache; each costs about 200 bytes per Service."""

_Label = tuple[str, str]
_Selectors = dict[_Label, list[Mapping[str, str]]]


class ServiceSelectors:
    """Selectors of Services by namespace; rebuilt when the given Services differ from the last."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[str, tuple[list[Service], _Selectors]] = {}

    def merged(
        self, namespace: str, services: Iterable[Service], labels: Mapping[str, str]
    ) -> dict[str, str]:
        """Merge the selectors of the `services` of a namespace that select a pod with `labels`."""
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
        # Comparing lists of identical objects is fast.
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
