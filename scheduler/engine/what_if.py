"""WhatIf: runs the filters of one profile on hypothetical nodes, on behalf of plugins."""

from __future__ import annotations

from scheduler.api.pod import Pod
from scheduler.cache import NodeOverlay, NodeTable
from scheduler.engine.errors import AttemptError
from scheduler.engine.runtime import Framework
from scheduler.framework import CycleState, NodeInfo, Status


class FrameworkWhatIf:
    """Implements `framework.WhatIf` for one profile."""

    def __init__(self, framework: Framework, table: NodeTable) -> None:
        self._framework = framework
        self._table = table

    def overlay(self, row: int) -> NodeInfo:
        """Return a private copy of a node."""
        return NodeOverlay(self._table, row)

    def add_pod(self, state: CycleState, pod: Pod, added: Pod, node: NodeInfo) -> Status | None:
        """Add `added` to the overlay `node`, and run AddPod."""
        try:
            _overlay(node).add_pod(added)
            self._framework.add_pod(state, pod, added, node)
        except AttemptError as error:
            return error.status
        return None

    def remove_pod(
        self, state: CycleState, pod: Pod, removed: Pod, node: NodeInfo
    ) -> Status | None:
        """Remove `removed` from the overlay `node`, and run RemovePod."""
        try:
            _overlay(node).remove_pod(removed)
            self._framework.remove_pod(state, pod, removed, node)
        except AttemptError as error:
            return error.status
        return None

    def run_filters_with_nominated_pods(
        self, state: CycleState, pod: Pod, node: NodeInfo
    ) -> Status | None:
        """Run filters twice: with the node's nominated pods, then without."""
        try:
            return self._framework.run_filters_with_nominated_pods(state, pod, node, self._table)
        except AttemptError as error:
            return error.status


def _overlay(node: NodeInfo) -> NodeOverlay:
    if not isinstance(node, NodeOverlay):
        msg = f"what-ifs change overlays only, not {type(node).__name__}: use overlay(row)"
        raise TypeError(msg)
    return node
