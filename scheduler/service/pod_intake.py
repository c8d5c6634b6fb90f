"""Preparation of decoded pods and nodes: quantities are parsed and signatures are shared.

It takes place after a reflector has decoded an object and before any handler sees it. An object
whose quantities cannot be parsed is refused here, with the path of the quantity in the error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from scheduler.api.node import Node
from scheduler.api.pod import Pod
from scheduler.api.quantity import QuantityError
from scheduler.api.quantity_fields import located, node_amounts, pod_amounts
from scheduler.api.requests import node_allocatable
from scheduler.api.signatures.interner import PodSignatures
from scheduler.client.deltas import Delta, DeltaType

PodHandler = Callable[[Sequence[Delta[Pod]]], None]


class PodIntake:
    """Interns pods that arrive and releases them when they are gone.

    Invariant: each version of a pod that was interned is released exactly once.
    """

    def __init__(self, signatures: PodSignatures) -> None:
        self._signatures = signatures

    def intern(self, pod: Pod) -> Pod:
        """Share the pod's signature with other pods like it. Raises QuantityError."""
        try:
            self._signatures.intern(pod)
        except QuantityError as error:
            raise located(error, pod_amounts(pod)) from error
        return pod

    def releasing(self, handler: PodHandler) -> PodHandler:
        """Return `handler`, followed by the release of the replaced and deleted pods."""

        def handle(batch: Sequence[Delta[Pod]]) -> None:
            handler(batch)
            for delta in batch:
                if delta.old is not None:
                    self._signatures.release(delta.old)
                # The last state of a deleted pod was interned as well, unless it is the known one.
                if delta.type is DeltaType.DELETED and delta.object is not delta.old:
                    self._signatures.release(delta.object)

        return handle


def check_node(node: Node) -> Node:
    """Return the node if its resources can be parsed. Raises QuantityError otherwise."""
    try:
        node_allocatable(node)
    except QuantityError as error:
        raise located(error, node_amounts(node)) from error
    return node
