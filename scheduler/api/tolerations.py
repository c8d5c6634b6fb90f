"""Taints and tolerations (upstream: `toleration.go: ToleratesTaint`).

`tolerationSeconds` concerns evictions and is ignored. The operators `Lt` and `Gt` never tolerate:
their feature gate is off by default.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from scheduler.api.node import Taint
from scheduler.api.pod import Toleration

NO_SCHEDULE: Final = "NoSchedule"
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"
NO_EXECUTE: Final = "NoExecute"

SCHEDULING_EFFECTS: Final = frozenset({NO_SCHEDULE, NO_EXECUTE})
"""Effects that keep a pod away from a node."""

TAINT_NODE_UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
"""The taint of a cordoned node."""


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether this one toleration covers this taint.

    An empty effect or key is a wildcard, also with `Equal` (as upstream, although the API server
    rejects an empty key there).
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in {"", "Equal"}:
        return toleration.value == taint.value
    return toleration.operator == "Exists"


class TolerationIndex:
    """The tolerations of a pod, indexed: there may be 80,000 of them."""

    __slots__ = ("_equal", "_exists", "comparing")

    def __init__(self, tolerations: Iterable[Toleration]) -> None:
        #: (effect, key), each perhaps empty.
        self._exists: set[tuple[str, str]] = set()
        #: The same with the value.
        self._equal: set[tuple[str, str, str]] = set()
        others = []
        for each in tolerations:
            if each.operator in {"", "Equal"}:
                self._equal.add((each.effect, each.key, each.value))
            elif each.operator == "Exists":
                self._exists.add((each.effect, each.key))
            else:
                others.append(each)
        #: Tolerations with other operators, which `covers` ignores.
        self.comparing = tuple(others)

    def covers(self, taint: Taint) -> bool:
        """Whether `tolerates` holds for one of them."""
        for effect in (taint.effect, ""):
            for key in (taint.key, ""):
                if (effect, key) in self._exists or (effect, key, taint.value) in self._equal:
                    return True
        return False


def first_untolerated(
    taints: Iterable[Taint],
    tolerations: Collection[Toleration],
    effects: Collection[str] = SCHEDULING_EFFECTS,
) -> Taint | None:
    """Return the first taint with one of `effects` that nothing tolerates; None without any."""
    for taint in taints:
        if taint.effect in effects and not any(tolerates(each, taint) for each in tolerations):
            return taint
    return None
