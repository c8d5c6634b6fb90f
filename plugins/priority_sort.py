"""PrioritySort: orders pods by priority, then by waiting time (upstream `priority_sort.go`)."""

from __future__ import annotations

from typing import ClassVar

from scheduler.framework import Handle, NoArgs, QueuedPodInfo, plugin_names


class PrioritySort:
    """Orders the active queue; pods equal in both keep the queue's order."""

    name: ClassVar[str] = plugin_names.PRIORITY_SORT

    def __init__(self, args: NoArgs | None, handle: Handle) -> None:
        pass

    def sort_key(self, info: QueuedPodInfo) -> tuple[int, float]:
        """(negative priority, timestamp): smaller is scheduled first."""
        return -info.pod.priority, info.timestamp
