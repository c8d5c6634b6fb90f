"""DefaultBinder: tells the API server where the pod goes (plugins.md 4.17). No retries here."""

from __future__ import annotations

from typing import ClassVar

from scheduler.api.pod import Pod
from scheduler.framework import CycleState, Handle, NoArgs, Status, plugin_names


class DefaultBinder:
    """Posts the pod's `binding` through the handle."""

    name: ClassVar[str] = plugin_names.DEFAULT_BINDER
    args_type: ClassVar[type[NoArgs]] = NoArgs

    def __init__(self, args: NoArgs | None, handle: Handle) -> None:
        self._handle = handle

    async def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Success, or the status of a failure that is certain."""
        return await self._handle.api.bind(pod, node_name, state.binding_annotations)
