"""WhatIf: plugins of one profile run its filters on hypothetical nodes."""

from __future__ import annotations

from scheduler.api.pod import Pod
from scheduler.cache import Cache, NodeOverlay
from scheduler.engine.errors import AttemptError
from scheduler.engine.runtime import Framework
from scheduler.framework import CycleState, NodeInfo, Status


class FrameworkWhatIf:
    """Implements `framework.WhatIf` for one profile."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        #: Set once the profile's plugins exist; plugins may not run what-ifs from their
        #: constructor.
        self.framework: Framework | None = None

    def overlay(self, row: int) -> NodeInfo:
        """Return a private copy of a node."""
        return NodeOverlay(self._cache.table, row)

    def add_pod(self, state: CycleState, pod: Pod, added: Pod, node: NodeInfo) -> Status | None:
        """Add `added` to the overlay `node`, and to the state of the plugins."""
        return self._change(state, pod, added, node, add=True)

    def remove_pod(
        self, state: CycleState, pod: Pod, removed: Pod, node: NodeInfo
    ) -> Status | None:
        """Remove `removed` from the overlay `node`, and from the state of the plugins."""
        return self._change(state, pod, removed, node, add=False)

    def run_filters_with_nominated_pods(
        self, state: CycleState, pod: Pod, node: NodeInfo
    ) -> Status | None:
        """Run filters twice: with the node's nominated pods, then without."""
        try:
            return self._required().run_filters_with_nominated_pods(
                state, pod, node, self._cache.table
            )
        except AttemptError as error:
            return error.status

    def _change(
        self, state: CycleState, pod: Pod, other: Pod, node: NodeInfo, *, add: bool
    ) -> Status | None:
        if not isinstance(node, NodeOverlay):
            msg = f"what-ifs change overlays only, not {type(node).__name__}: use overlay(row)"
            raise TypeError(msg)
        framework = self._required()
        try:
            if add:
                node.add_pod(other)
                framework.add_pod(state, pod, other, node)
            else:
                node.remove_pod(other)
                framework.remove_pod(state, pod, other, node)
        except AttemptError as error:
            return error.status
        return None

    def _required(self) -> Framework:
        if self.framework is None:
            msg = "the profile is still being built: run what-ifs from extension points only"
            raise RuntimeError(msg)
        return self.framework
