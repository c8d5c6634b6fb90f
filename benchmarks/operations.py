"""The operations of a workload, as records named after those of upstream's scheduler_perf.

A workload is a list of these, sent to the load generator as JSON. Everything is a value; nothing
here talks to an API server.

Where upstream opens the measured window inside `createPods`, a workload here has `OpenWindow`,
`CreatePods(measured=True)` and `CloseWindow`; `CreatePods.measured` selects the pods to measure.
"""

from __future__ import annotations

from typing import Literal

import msgspec


class CreateNodes(msgspec.Struct, frozen=True, tag="createNodes", kw_only=True):
    """Create nodes, in parallel: their creation is never measured."""

    template: str
    count: int
    #: Values of the zone label, given in turn; none: no such label.
    zones: tuple[str, ...] = ()
    #: Volumes a CSI driver can attach to each of them, by driver.
    csi_limits: dict[str, int] = {}


class CreateNamespaces(msgspec.Struct, frozen=True, tag="createNamespaces", kw_only=True):
    """Create `prefix`-0 to `prefix`-(count - 1)."""

    prefix: str
    count: int
    labels: dict[str, str] = {}


class CreatePods(msgspec.Struct, frozen=True, tag="createPods", kw_only=True):
    """Create pods as fast as possible; the namespace is created where it is absent."""

    namespace: str
    template: str
    count: int
    #: Wait until all of them are bound.
    wait: bool = True
    #: Create so many pods this often; those of a round are deleted when all of them are bound.
    rounds: int = 1
    #: Count them in the window that is open.
    measured: bool = False
    #: Template of a claim and its volume for every pod, both bound to each other beforehand.
    volume: str = ""


class DeletePods(msgspec.Struct, frozen=True, tag="deletePods", kw_only=True):
    """Delete the pods created from a template, in the background, at a rate."""

    namespace: str
    template: str
    per_second: float


class Churn(msgspec.Struct, frozen=True, tag="churn", kw_only=True):
    """Until the workload ends, create (and delete) one object of each template per tick."""

    mode: Literal["create", "recreate"]
    templates: tuple[str, ...]
    interval_seconds: float
    namespace: str = "churn"
    #: create: ticks, 0 for no end; recreate: slots.
    number: int = 0


class Barrier(msgspec.Struct, frozen=True, tag="barrier", kw_only=True):
    """Wait for the pods created without waiting so far.

    `Scheduled`: they are bound. `Attempted`: they have been tried at least once, or are gated.
    """

    stage: Literal["Scheduled", "Attempted"] = "Scheduled"


class OpenWindow(msgspec.Struct, frozen=True, tag="openWindow"):
    """Measurement begins."""


class CloseWindow(msgspec.Struct, frozen=True, tag="closeWindow"):
    """Measurement ends: every measured pod is bound."""


class CreateAny(msgspec.Struct, frozen=True, tag="createAny", kw_only=True):
    """Create objects one after the other."""

    template: str
    namespace: str = ""
    count: int = 1


class UpdateAny(msgspec.Struct, frozen=True, tag="updateAny", kw_only=True):
    """Bring objects created from one template to another template's state, at a rate.

    A merge patch of the difference where upstream sends a PUT: the same event, without a race with
    the scheduler's status writes.
    """

    template: str
    to: str
    namespace: str = ""
    count: int = 1
    per_second: float = 100.0
    subresource: str = ""


class Settle(msgspec.Struct, frozen=True, tag="settle", kw_only=True):
    """Wait a fixed time, so that a scheduler in another process has seen the nodes.

    Only for workloads without init pods, whose binding would show it.
    """

    seconds: float = 2.0


Operation = (
    CreateNodes
    | CreateNamespaces
    | CreatePods
    | DeletePods
    | Churn
    | Barrier
    | OpenWindow
    | CloseWindow
    | CreateAny
    | UpdateAny
    | Settle
)


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Input of the load generator: the API server, the credentials, and the operations."""

    url: str
    #: Path of the certificate authority.
    ca: str
    token: str
    #: The `schedulerName` of every pod.
    scheduler: str
    operations: tuple[Operation, ...]
    #: Path to write the result to.
    result: str
    #: Stop the scheduler for the creation of the measured pods.
    backlog: bool = False


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """Observations of the load generator. Times by the monotonic clock, seconds."""

    opened: float
    closed: float
    #: When the last measured pod had been created.
    created_all: float
    #: Of each measured pod, in the order of creation: request sent, binding seen.
    created: tuple[float, ...]
    bound: tuple[float, ...]
    #: Node of each measured pod.
    nodes: tuple[str, ...]
    #: Pods seen on two nodes.
    bound_twice: tuple[str, ...]
    #: Objects created inside and before the window, by kind, without those that churn creates for
    #: as long as the measured pods take.
    objects: dict[str, int]
    generator_cpu: float
