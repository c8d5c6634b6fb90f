"""DefaultBinder: creates the pod's Binding (upstream `default_binder.go`). It does not retry."""

from __future__ import annotations

from typing import ClassVar

from scheduler.api.pod import Pod
from scheduler.framework import CycleState, Handle, NoArgs, Permission, Status, plugin_names


class DefaultBinder:
    """Posts the pod's `binding` through the handle."""

    name: ClassVar[str] = plugin_names.DEFAULT_BINDER
    permissions: ClassVar[tuple[Permission, ...]] = (
        Permission(
            resource="pods/binding", verbs=("create",), purpose="DefaultBinder: placing a pod"
        ),
    )

    def __init__(self, args: NoArgs | None, handle: Handle) -> None:
        self._handle = handle

    async def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Return None on success, else the status of a definite failure."""
        return await self._handle.api.bind(pod, node_name, state.binding_annotations)
