"""AppLimit, a scalar Filter: limits the pods of one app on a node.

Pods of one app have the same namespace and the same value of a label. Terminating pods count
until they are deleted, because they still use ports and caches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import msgspec

from kubestow.plugin import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    CycleState,
    EventResource,
    Handle,
    NodeInfo,
    Pod,
    QueueingHint,
    Status,
    is_qualified_name,
    unschedulable,
)


class AppLimitArgs(msgspec.Struct, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """Arguments of AppLimit."""

    #: Key of the label that names a pod's app.
    label: str = "app"
    #: Pods of one app that a node may have, the new one included.
    limit: int = 2


class AppLimit:
    """Rejects nodes that have the maximum number of pods of the pod's app."""

    name: ClassVar[str] = "example.com/AppLimit"
    args_type: ClassVar[type[AppLimitArgs]] = AppLimitArgs

    def __init__(self, args: AppLimitArgs, handle: Handle) -> None:
        self._label = args.label
        self._limit = args.limit
        # Unschedulable, not unresolvable: the removal of a pod would make room.
        self._full = unschedulable(f"node(s) had {args.limit} pods of the same app")

    @staticmethod
    def validate_args(args: AppLimitArgs) -> Iterator[tuple[str, str]]:
        """Yield (path below `args`, message) for each problem."""
        if not is_qualified_name(args.label):
            yield "label", f'"{args.label}" is no label key; write one like app or example.com/app'
        if args.limit < 1:
            yield "limit", f"{args.limit} lets no pod in; write 1 or more"

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Count the pods of the same app that are on the node."""
        if self._label not in pod.metadata.labels:
            return None
        there = sum(1 for other in node.pods if self._same_app(pod, other))
        return self._full if there >= self._limit else None

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register for pods that leave the app, for the pod's own labels, and for added nodes."""
        return (
            ClusterEventWithHint(
                ClusterEvent(
                    EventResource.ASSIGNED_POD, ActionType.DELETE | ActionType.UPDATE_POD_LABEL
                ),
                self._after_other_pod,
                per_signature=True,
            ),
            ClusterEventWithHint(
                ClusterEvent(EventResource.TARGET_POD, ActionType.UPDATE_POD_LABEL),
                self._after_own_update,
            ),
            ClusterEventWithHint(ClusterEvent(EventResource.NODE, ActionType.ADD)),
        )

    def _same_app(self, pod: Pod, other: Pod) -> bool:
        app = pod.metadata.labels.get(self._label)
        return (
            other.metadata.namespace == pod.metadata.namespace
            and other.metadata.labels.get(self._label) == app
        )

    def _after_other_pod(self, pod: Pod, old: Pod, new: Pod | None) -> QueueingHint:
        left = self._same_app(pod, old) and (new is None or not self._same_app(pod, new))
        return QueueingHint.QUEUE if left else QueueingHint.SKIP

    def _after_own_update(self, pod: Pod, old: Pod, new: Pod) -> QueueingHint:
        changed = new.metadata.uid == pod.metadata.uid and not self._same_app(old, new)
        return QueueingHint.QUEUE if changed else QueueingHint.SKIP
