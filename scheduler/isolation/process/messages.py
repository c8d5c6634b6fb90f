"""Messages between the scheduler and the process of a plugin, in frames of MessagePack.

A frame is its length in four bytes, and a message. The scheduler trusts neither length nor content
of what it receives: the plugin shares the process that sends it.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from scheduler.api.node import Node
from scheduler.api.packed_labels import PackedLabels
from scheduler.api.pod import Pod
from scheduler.api.signatures.packed_spec import unpacked

HEADER_BYTES: Final = 4
"""Length of the length of a message."""
MAX_RESPONSE_BYTES: Final = 8 << 20
"""A response has 12 bytes for each node, and the texts of the plugin."""


class Start(msgspec.Struct, tag=True, frozen=True):
    """The first request: load the plugin."""

    module: str
    qualified_name: str
    profile_name: str
    #: The arguments of the plugin, encoded.
    args: bytes
    feature_gates: dict[str, bool]
    #: Bytes of address space for the plugin and for the copy of the nodes.
    memory_limit: int


class ChangesMessage(msgspec.Struct, tag=True, frozen=True):
    """Changes of the nodes and their pods, in the order of the fields."""

    removed_pods: list[str] = []
    removed_nodes: list[str] = []
    #: Rows in the scheduler's table, and nodes.
    nodes: list[tuple[int, Node]] = []
    #: Pods that are new on their node, or changed.
    pods: list[Pod] = []


class CallMessage(msgspec.Struct, tag=True, frozen=True):
    """Evaluate a pod on all nodes."""

    now: float
    pod: Pod


Content = Start | ChangesMessage | CallMessage


class RequestMessage(msgspec.Struct, frozen=True):
    """A message to the process."""

    number: int
    content: Content


class StatusMessage(msgspec.Struct, frozen=True):
    """A `framework.Status`."""

    code: int
    reasons: tuple[str, ...] = ()
    error: str = ""
    requeue_after: float | None = None
    condition_reason: str = ""
    skip_post_filter: bool = False


class ResponseMessage(msgspec.Struct, frozen=True):
    """The response to the request of the same number."""

    number: int
    #: What was raised, and where in the plugin; empty: nothing.
    error: str = ""
    #: Of PreFilter: names of nodes, or a status.
    result: tuple[str, ...] | StatusMessage | None = None
    #: `Evaluation.codes` of the nodes in the order of the scheduler's rows, as int32.
    codes: bytes = b""
    #: `Evaluation.scores` in the same order, as int64.
    scores: bytes = b""
    statuses: dict[int, StatusMessage] = {}


def _plain(value: object) -> Any:
    if isinstance(value, PackedLabels):
        return dict(value.items())
    raise NotImplementedError(f"objects of type {type(value).__name__} cannot be sent")


_encode: Final = msgspec.msgpack.Encoder(enc_hook=_plain).encode
decode_request: Final = msgspec.msgpack.Decoder(RequestMessage).decode
decode_response: Final = msgspec.msgpack.Decoder(ResponseMessage).decode


def frame(message: RequestMessage | ResponseMessage) -> bytes:
    """Return the bytes to send."""
    body = _encode(message)
    return len(body).to_bytes(HEADER_BYTES, "big") + body


def sendable(pod: Pod) -> Pod:
    """Return a pod without its signature, which the other process derives again."""
    return Pod(metadata=pod.metadata, spec=unpacked(pod.spec), status=pod.status)
