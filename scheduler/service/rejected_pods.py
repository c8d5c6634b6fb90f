"""Detection of pods of our scheduler names that their kubelet rejected, and the reasons.

A rejected pod ends as Failed. The watch, which excludes finished pods, delivers its removal with
the state before that. So a bound pod that leaves the watch without having run and without being
deleted is read once more; the API server keeps it for a while. Such pods are rare: all others are
seen Running first.

Reads only, within a rate limit of its own; a pod that cannot be read is not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final

import structlog

from scheduler.api.pod import Pod
from scheduler.client.errors import RequestError
from scheduler.client.resources import PODS
from scheduler.client.rest import ApiClient
from scheduler.engine.kubelet_rejections import KubeletRejections
from scheduler.metrics import SchedulerMetrics

_log = structlog.get_logger(__name__)

MAX_READS: Final = 100
"""Concurrent reads; if more pods vanish at once (a relist), the others are not read."""

OUT_OF_PREFIX: Final = "OutOf"
"""OutOfcpu, OutOfmemory, OutOfpods, OutOfephemeral-storage, and OutOf with any other resource."""

REASONS: Final = frozenset(
    (
        # The scheduler's own filters, which a kubelet runs again.
        "NodeAffinity",
        "NodeName",
        "NodePorts",
        "TaintToleration",
        # The kubelet's admission.
        "AppArmor",
        "InitContainerRestartPolicyForbidden",
        "InvalidNodeInfo",
        "NodeShutdown",
        "PodFeatureUnsupported",
        "PodLevelResourcesNotSupported",
        "PodOSNotSupported",
        "PodOSSelectorNodeLabelDoesNotMatch",
        "SupplementalGroupsPolicyNotSupported",
        "SysctlForbidden",
        "TopologyAffinityError",
        "UnexpectedAdmissionError",
        "UnexpectedPredicateFailureType",
        "UnknownReason",
        "VolumeAttachmentLimitExceeded",
        # Pressure on the node: the kubelet admits no further pods of this kind.
        "Evicted",
    )
)
"""`status.reason` of a pod that its kubelet did not admit, as of v1.36."""

REJECTION_PREFIX: Final = "Pod was rejected"
"""Prefix of a rejection's message; identifies rejections with reasons newer than the list above."""

OTHER: Final = "other"


def rejection_reason(pod: Pod) -> str:
    """Return the reason of a kubelet's rejection, as a label; empty if the pod was admitted."""
    status = pod.status
    if status.phase != "Failed":
        return ""
    if status.reason in REASONS or status.reason.startswith(OUT_OF_PREFIX):
        return status.reason
    return OTHER if status.message.startswith(REJECTION_PREFIX) else ""


class RejectedPods:
    """Counts rejected pods and adds them to `KubeletRejections`. Touched from one event loop."""

    def __init__(
        self,
        client: ApiClient,
        rejections: KubeletRejections,
        *,
        start: Callable[[Coroutine[Any, Any, None], str], None],
        submit: Callable[[Callable[[], object]], None],
        metrics: SchedulerMetrics,
    ) -> None:
        """Read through `client`, which should have a rate limit apart from that of binds.

        `start` runs a named coroutine in a task; `submit` applies a change of the scheduler's state
        when no scheduling cycle is under way.
        """
        self._client = client
        self._rejections = rejections
        self._start = start
        self._submit = submit
        self._metrics = metrics
        self._reading = 0

    def gone(self, pod: Pod) -> None:
        """Check a bound pod of ours that left the watch in this state."""
        if pod.status.phase == "Failed":
            self._record(pod, pod)
        elif pod.status.phase in ("", "Pending") and not pod.terminating:
            if self._reading >= MAX_READS:
                return
            self._reading += 1
            self._start(self._read(pod), f"read {pod.key}")

    def node_gone(self, name: str) -> None:
        """Forget a deleted node."""
        self._rejections.forget_node(name)

    async def _read(self, pod: Pod) -> None:
        try:
            found = await self._client.get(PODS, pod.metadata.name, pod.metadata.namespace)
        except RequestError as error:
            # Most often 404: its owner has deleted it by now.
            _log.debug("cannot read a pod", pod=pod.key, error=str(error))
        else:
            if found.metadata.uid == pod.metadata.uid:
                self._record(pod, found)
        finally:
            self._reading -= 1

    def _record(self, pod: Pod, final: Pod) -> None:
        reason = rejection_reason(final)
        if not reason:
            return
        node_name = pod.spec.node_name
        self._metrics.kubelet_rejection(reason)
        _log.warning(
            "pod rejected by its kubelet",
            pod=pod.key,
            node=node_name,
            reason=final.status.reason,
            message=final.status.message,
        )
        self._submit(partial(self._rejections.note, pod, node_name))
