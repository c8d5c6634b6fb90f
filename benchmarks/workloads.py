"""Workload families by upstream's names: operations and sizes (scheduler-perf facts 6 and 8).

Sizes: `perf` is upstream's largest that its CI runs, `machine` 5000 nodes with fewer pods for two
cores, `quick` 1000 nodes, `smoke` upstream's smallest, which only shows that a family works.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from benchmarks.operations import (
    Barrier,
    Churn,
    CloseWindow,
    CreateAny,
    CreateNamespaces,
    CreateNodes,
    CreatePods,
    DeletePods,
    OpenWindow,
    Operation,
    Settle,
    UpdateAny,
)
from benchmarks.templates import AFFINITY_NAMESPACES, CSI_DRIVER

Size = Mapping[str, int]
Operations = list[Operation]

SIZES: Final = ("smoke", "quick", "machine", "perf")
MEASURED: Final = "measured"
_MOONS: Final = ("moon-1", "moon-2", "moon-3")
_ONE_ZONE: Final = ("zone1",)


@dataclass(frozen=True, slots=True)
class Family:
    """One family."""

    name: str
    #: What its measured part exercises, one line.
    exercises: str
    operations: Callable[[Size], Operations]
    #: Parameters by size name.
    sizes: Mapping[str, Size]
    #: Whether the window is one creation of pods and nothing else, so that the scheduler can be
    #: stopped meanwhile.
    backlog: bool = True

    def plan(self, size: str, changes: Size | None = None) -> Operations:
        """The operations of a size; `changes` beat its parameters.

        Raises KeyError for a size or a parameter that the family does not have.
        """
        parameters = dict(self.sizes[size])
        for name, value in (changes or {}).items():
            if name not in parameters:
                raise KeyError(name)
            parameters[name] = value
        return self.operations(parameters)


def _window(*operations: Operation) -> Operations:
    return [OpenWindow(), *operations, CloseWindow()]


def _measure(template: str, size: Size, namespace: str = MEASURED, volume: str = "") -> Operations:
    return _window(
        CreatePods(
            namespace=namespace,
            template=template,
            count=size["pods"],
            measured=True,
            volume=volume,
        )
    )


def _plain(
    init: str,
    measured: str,
    *,
    zones: tuple[str, ...] = (),
    namespaces: tuple[str, str] = ("init", MEASURED),
    volume: str = "",
    csi_limits: Mapping[str, int] | None = None,
) -> Callable[[Size], Operations]:
    """Nodes, init pods, measured pods: the signature of most families."""

    def operations(size: Size) -> Operations:
        first, second = namespaces
        return [
            CreateNodes(
                template="node", count=size["nodes"], zones=zones, csi_limits=dict(csi_limits or {})
            ),
            CreateNamespaces(prefix="sched", count=2),
            CreatePods(namespace=first, template=init, count=size["init"], volume=volume),
            *_measure(measured, size, second, volume),
        ]

    return operations


def _sizes(
    smoke: tuple[int, int, int],
    quick: tuple[int, int, int],
    machine: tuple[int, int, int],
    perf: tuple[int, int, int],
) -> dict[str, Size]:
    """(nodes, init pods, measured pods) of each size."""
    values = dict(zip(SIZES, (smoke, quick, machine, perf), strict=True))
    return {name: dict(zip(("nodes", "init", "pods"), each, strict=True))
            for name, each in values.items()}  # fmt: skip


# -- misc ------------------------------------------------------------------------------------------


def _daemonset(size: Size) -> Operations:
    return [
        CreateNodes(template="big-node", count=1),
        CreateNodes(template="node", count=size["nodes"]),
        Settle(),
        *_measure("daemonset", size),
    ]


def _preemption_async(size: Size) -> Operations:
    return [
        CreateNodes(template="node", count=size["nodes"]),
        CreatePods(namespace="init", template="low-priority", count=size["init"]),
        Churn(mode="create", templates=("high-priority",), interval_seconds=0.2),
        *_measure("default", size),
    ]


def _unschedulable(size: Size) -> Operations:
    return [
        CreateNodes(template="node", count=size["nodes"]),
        CreatePods(namespace="init", template="default", count=size["init"]),
        Churn(mode="create", templates=("high-priority-huge",), interval_seconds=0.2),
        *_measure("default", size),
    ]


def _mixed_churn(size: Size) -> Operations:
    return [
        CreateNodes(template="node", count=size["nodes"]),
        Settle(),
        Churn(
            mode="recreate",
            number=1,
            templates=("churn-node", "high-priority-huge", "churn-service"),
            interval_seconds=1.0,
        ),
        *_measure("default", size),
    ]


def _while_gated(size: Size) -> Operations:
    return [
        CreateNodes(template="big-node", count=1),
        CreatePods(namespace="gated", template="gated", count=size["gated"], wait=False),
        Barrier(stage="Attempted"),
        CreatePods(namespace="delete", template="light-to-delete", count=size["delete"]),
        DeletePods(namespace="delete", template="light-to-delete", per_second=50),
        *_measure("light", size),
    ]


def _finalizers(size: Size) -> Operations:
    return [
        CreateNodes(template="node", count=size["nodes"]),
        CreatePods(namespace="delete", template="finalizer", count=size["delete"], wait=False),
        DeletePods(namespace="delete", template="finalizer", per_second=100),
        *_measure("light", size),
    ]


def _extended_resource(size: Size) -> Operations:
    return [
        CreateNodes(template="extended-resource-node", count=size["pods"]),
        Settle(),
        *_measure("extended-resource", size),
    ]


# -- affinity --------------------------------------------------------------------------------------


def _mixed(size: Size) -> Operations:
    kinds = (
        "default", "affinity", "anti-affinity", "preferred-affinity", "preferred-anti-affinity",
    )  # fmt: skip
    first, _ = AFFINITY_NAMESPACES
    return [
        CreateNodes(template="node", count=size["nodes"], zones=_ONE_ZONE),
        CreateNamespaces(prefix="sched", count=2),
        *(CreatePods(namespace=first, template=kind, count=size["init"]) for kind in kinds),
        *_measure("default", size),
    ]


def _namespace_selector(template: str, zones: tuple[str, ...] = ()) -> Callable[[Size], Operations]:
    def operations(size: Size) -> Operations:
        labels = {"team": "devops"}
        spaces = size["namespaces"]
        return [
            CreateNodes(template="node", count=size["nodes"], zones=zones),
            CreateNamespaces(prefix="init-ns", count=spaces, labels=labels),
            CreateNamespaces(prefix="measure-ns", count=1, labels=labels),
            *(
                CreatePods(namespace=f"init-ns-{i}", template=template, count=size["init"])
                for i in range(spaces)
            ),
            *_measure(template, size, "measure-ns-0"),
        ]

    return operations


def _selector_sizes(init: int, perf_pods: int) -> dict[str, Size]:
    def one(nodes: int, namespaces: int, init: int, pods: int) -> Size:
        return {"nodes": nodes, "namespaces": namespaces, "init": init, "pods": pods}

    return {
        "smoke": one(10, 2, 2, 6),
        "quick": one(1000, 10, 10, 500),
        "machine": one(5000, 100, 10, 1000),
        "perf": one(5000, 100, init, perf_pods),
    }


def _gated_affinity(size: Size) -> Operations:
    return [
        CreateNodes(template="big-node", count=1),
        CreatePods(namespace=MEASURED, template="gated-affinity", count=size["gated"], wait=False),
        Barrier(stage="Attempted"),
        *_measure("labelled", size),
    ]


# -- spreading -------------------------------------------------------------------------------------


def _default_spreading(size: Size) -> Operations:
    return [
        CreateNodes(template="node", count=size["nodes"], zones=_MOONS),
        CreateAny(template="service", namespace="service-ns"),
        CreatePods(namespace="init", template="default", count=size["init"]),
        *_measure("labelled", size, "service-ns"),
    ]


def _inclusion(size: Size) -> Operations:
    return [
        CreateNodes(template="node", count=size["pods"]),
        CreateNodes(template="tainted-node", count=size["tainted"]),
        Settle(),
        *_measure("inclusion-spread", size),
    ]


# -- event handling --------------------------------------------------------------------------------


def _waiting(template: str, size: Size, volume: str = "") -> CreatePods:
    return CreatePods(
        namespace=MEASURED, template=template, count=size["pods"], wait=False, measured=True,
        volume=volume,
    )  # fmt: skip


def _pod_delete(size: Size) -> Operations:
    return [
        CreateNodes(template="node", count=size["nodes"], csi_limits={CSI_DRIVER: 20}),
        CreatePods(namespace="blockers", template="blocker-a", count=size["init"], volume="csi"),
        CreatePods(namespace=MEASURED, template="blocker-b", count=size["init"], volume="once"),
        *_window(
            _waiting("wait-spread", size),
            CreatePods(
                namespace=MEASURED, template="wait-claim", count=size["init"], wait=False,
                measured=True,
            ),
            _waiting("wait-port", size),
            _waiting("wait-resources", size),
            _waiting("wait-volume", size, volume="csi"),
            _waiting("wait-anti-affinity", size),
            Barrier(stage="Attempted"),
            DeletePods(namespace="blockers", template="blocker-a", per_second=100),
            DeletePods(namespace=MEASURED, template="blocker-b", per_second=100),
            Barrier(),
        ),
    ]  # fmt: skip


def _pod_update(size: Size) -> Operations:
    blockers, pods = size["init"], size["pods"]
    return _with_nodes_inside(
        CreateAny(template="unschedulable-node"),
        _waiting("wait-uncordon", size),
        CreateAny(template="node-with-taint"),
        _waiting("wait-toleration", size),
        Barrier(stage="Attempted"),
        UpdateAny(template="wait-uncordon", to="with-uncordon", namespace=MEASURED, count=pods),
        UpdateAny(template="wait-toleration", to="with-toleration", namespace=MEASURED, count=pods),
        Barrier(),
        CreateAny(template="big-node"),
        CreatePods(namespace=MEASURED, template="named-blocker", count=blockers),
        _waiting("wait-blocker-label", size),
        _waiting("wait-blocker-memory", size),
        _waiting("wait-blocker-spread", size),
        _waiting("wait-gate", size),
        Barrier(stage="Attempted"),
        UpdateAny(
            template="named-blocker", to="named-blocker-bare", namespace=MEASURED, count=blockers
        ),
        UpdateAny(
            template="named-blocker-bare",
            to="named-blocker-small",
            namespace=MEASURED,
            count=blockers,
            subresource="resize",
        ),
        UpdateAny(template="wait-gate", to="without-gate", namespace=MEASURED, count=pods),
        Barrier(),
    )


def _with_nodes_inside(*operations: Operation) -> Operations:
    """A window that begins with an empty cluster."""
    return [Settle(seconds=0.5), *_window(*operations)]


def _node_add(size: Size) -> Operations:
    nodes = size["nodes"]
    return _with_nodes_inside(
        CreateAny(template="cordoned-node"),
        _waiting("wait-cordon", size),
        CreateAny(template="low-node"),
        _waiting("wait-capacity", size),
        Barrier(stage="Attempted"),
        CreateAny(template="high-node", count=nodes),
        Barrier(),
        _waiting("wait-zone", size),
        _waiting("wait-label", size),
        _waiting("wait-topology", size),
        Barrier(stage="Attempted"),
        CreateAny(template="labelled-node", count=nodes),
        Barrier(),
        _waiting("wait-taint", size),
        Barrier(stage="Attempted"),
        CreateAny(template="other-taint-node", count=nodes),
        Barrier(),
    )


def _pod_add(size: Size) -> Operations:
    return [
        CreateNodes(template="pods-3000-node", count=2),
        CreatePods(namespace=MEASURED, template="green", count=1),
        *_window(
            _waiting("wait-green", size),
            _waiting("wait-yellow", size),
            Barrier(stage="Attempted"),
            CreatePods(namespace=MEASURED, template="follower", count=size["pods"], wait=False),
            CreatePods(namespace=MEASURED, template="yellow", count=size["pods"], wait=False),
            Barrier(),
        ),
    ]


def _node_update(size: Size) -> Operations:
    nodes = size["nodes"]

    def stage(refusing: str, admitting: str, pods: str, subresource: str = "") -> Operations:
        return [
            CreateAny(template=refusing, count=nodes),
            _waiting(pods, size),
            Barrier(stage="Attempted"),
            UpdateAny(template=refusing, to=admitting, count=nodes, subresource=subresource),
            Barrier(),
        ]

    return _with_nodes_inside(
        *stage("update-cordoned", "update-uncordoned", "wait-cordon"),
        *stage("update-low", "update-full", "update-wait-capacity", "status"),
        *stage("update-bare", "update-labelled", "update-wait-label"),
        *stage("update-tainted", "update-tolerated", "update-wait-taint"),
    )


# -- the table -------------------------------------------------------------------------------------

_SCHED: Final = AFFINITY_NAMESPACES


def _by_size(names: tuple[str, ...], *values: tuple[int, ...]) -> dict[str, Size]:
    return {
        size: dict(zip(names, each, strict=True)) for size, each in zip(SIZES, values, strict=True)
    }


def _families() -> list[Family]:
    return [
        Family(
            "SchedulingBasic",
            "plain filter, score and bind",
            _plain("default", "default"),
            _sizes((5, 5, 10), (1000, 500, 1500), (5000, 1000, 3000), (5000, 1000, 10000)),
        ),
        Family(
            "SchedulingDaemonset",
            "PreFilter that leaves one node of many",
            _daemonset,
            _by_size(("nodes", "pods"), (5, 10), (1000, 1500), (5000, 3000), (15000, 30000)),
        ),
        Family(
            "PreemptionBasic",
            "victims, nomination, retry; every measured pod needs three victims",
            _plain("low-priority", "high-priority"),
            _sizes((5, 20, 5), (500, 2000, 500), (1000, 4000, 1000), (1000, 4000, 1000)),
        ),
        Family(
            "PreemptionAsync",
            "ordinary scheduling beside preemption",
            _preemption_async,
            _sizes((5, 20, 5), (500, 2000, 500), (5000, 20000, 2000), (5000, 20000, 5000)),
        ),
        Family(
            "Unschedulable",
            "ordinary scheduling beside attempts that fail on every node",
            _unschedulable,
            _sizes((5, 1, 10), (1000, 100, 1500), (5000, 100, 3000), (5000, 100, 10000)),
        ),
        Family(
            "SchedulingWithMixedChurn",
            "nodes, pods and services that come and go",
            _mixed_churn,
            _by_size(("nodes", "pods"), (10, 100), (1000, 1500), (5000, 3000), (5000, 10000)),
        ),
        Family(
            "SchedulingWhileGated",
            "deletions beside gated pods",
            _while_gated,
            _by_size(
                ("gated", "delete", "pods"),
                (10, 10, 10),
                (1000, 2000, 1500),
                (5000, 2000, 3000),
                (10000, 20000, 20000),
            ),
        ),
        Family(
            "SchedulingDeletedPodsWithFinalizers",
            "pods that end while they wait",
            _finalizers,
            _by_size(
                ("nodes", "delete", "pods"),
                (10, 10, 10),
                (1000, 1000, 1000),
                (5000, 2000, 2000),
                (5000, 5000, 5000),
            ),
        ),
        Family(
            "SchedulingWithExtendedResource",
            "one feasible node for each pod, many resource names",
            _extended_resource,
            _by_size(("pods",), (10,), (500,), (2000,), (5000,)),
        ),
        Family(
            "SchedulingPodAntiAffinity",
            "required anti-affinity, one pod a host",
            _plain("anti-affinity", "anti-affinity", namespaces=_SCHED),
            _sizes((5, 1, 4), (1000, 200, 500), (5000, 1000, 1000), (5000, 1000, 2000)),
        ),
        Family(
            "SchedulingPodMatchingAntiAffinity",
            "existing pods that repel the new ones",
            _plain("anti-affinity", "anti-affinity-target", namespaces=_SCHED),
            _sizes((5, 1, 4), (1000, 200, 500), (5000, 1000, 2000), (5000, 1000, 5000)),
        ),
        Family(
            "SchedulingPodAffinity",
            "required affinity within a zone that has every node",
            _plain("affinity", "affinity", zones=_ONE_ZONE, namespaces=_SCHED),
            _sizes((5, 5, 10), (1000, 500, 500), (5000, 2000, 1000), (5000, 5000, 5000)),
        ),
        Family(
            "SchedulingPreferredPodAffinity",
            "scores from preferred affinity",
            _plain("preferred-affinity", "preferred-affinity", namespaces=_SCHED),
            _sizes((5, 5, 10), (1000, 500, 500), (5000, 2000, 1000), (5000, 5000, 5000)),
        ),
        Family(
            "SchedulingPreferredPodAntiAffinity",
            "scores from preferred anti-affinity",
            _plain("preferred-anti-affinity", "preferred-anti-affinity", namespaces=_SCHED),
            _sizes((5, 5, 10), (1000, 500, 500), (5000, 2000, 1000), (5000, 5000, 5000)),
        ),
        Family(
            "SchedulingNodeAffinity",
            "node labels",
            _plain("node-affinity", "node-affinity", zones=_ONE_ZONE),
            _sizes((5, 5, 10), (1000, 500, 1500), (5000, 2000, 3000), (5000, 5000, 10000)),
        ),
        Family(
            "MixedSchedulingBasePod",
            "plain pods beside pods of every affinity",
            _mixed,
            _sizes((5, 2, 10), (1000, 100, 1000), (5000, 500, 2000), (5000, 2000, 5000)),
        ),
        Family(
            "SchedulingRequiredPodAntiAffinityWithNSSelector",
            "required anti-affinity over namespaces chosen by label",
            _namespace_selector("anti-affinity-nsselector"),
            _selector_sizes(40, 1000),
        ),
        Family(
            "SchedulingPreferredAntiAffinityWithNSSelector",
            "preferred anti-affinity over namespaces chosen by label",
            _namespace_selector("preferred-anti-affinity-nsselector"),
            _selector_sizes(40, 2000),
        ),
        Family(
            "SchedulingRequiredPodAffinityWithNSSelector",
            "required affinity over namespaces chosen by label",
            _namespace_selector("affinity-nsselector", _ONE_ZONE),
            _selector_sizes(50, 2000),
        ),
        Family(
            "SchedulingPreferredAffinityWithNSSelector",
            "preferred affinity over namespaces chosen by label",
            _namespace_selector("preferred-affinity-nsselector"),
            _selector_sizes(50, 5000),
        ),
        Family(
            "SchedulingGatedPodsWithPodAffinityImpactForThroughput",
            "bindings that gated pods with affinity might wake for",
            _gated_affinity,
            _by_size(("gated", "pods"), (10, 10), (1000, 1500), (5000, 3000), (10000, 20000)),
        ),
        Family(
            "TopologySpreading",
            "hard constraints: counting and skew",
            _plain("default", "hard-spread", zones=_MOONS),
            _sizes((5, 10, 10), (1000, 500, 1000), (5000, 2000, 2000), (5000, 5000, 5000)),
        ),
        Family(
            "PreferredTopologySpreading",
            "soft constraints: scores",
            _plain("default", "soft-spread", zones=_MOONS),
            _sizes((5, 10, 10), (1000, 500, 1000), (5000, 2000, 2000), (5000, 5000, 5000)),
        ),
        Family(
            "DefaultTopologySpreading",
            "default constraints deduced from a service",
            _default_spreading,
            _sizes((5, 10, 10), (1000, 500, 1000), (5000, 2000, 2000), (5000, 5000, 10000)),
        ),
        Family(
            "SchedulingWithNodeInclusionPolicy",
            "one pod a host, tainted nodes left out",
            _inclusion,
            _by_size(("tainted", "pods"), (1, 4), (200, 800), (1000, 4000), (1000, 4000)),
        ),
        Family(
            "SchedulingSecrets",
            "volumes that concern no volume plugin",
            _plain("secret", "secret"),
            _sizes((5, 5, 10), (1000, 500, 1500), (5000, 1000, 3000), (5000, 1000, 10000)),
        ),
        Family(
            "SchedulingCSIPVs",
            "bound claims and limits of a CSI driver",
            _plain("default", "default", volume="csi", csi_limits={CSI_DRIVER: 39}),
            _sizes((5, 5, 10), (1000, 200, 500), (5000, 1000, 1000), (5000, 5000, 5000)),
        ),
        *_event_handling(),
    ]


def _event_handling() -> list[Family]:
    names = ("nodes", "init", "pods")
    return [
        Family(
            "EventHandlingPodDelete",
            "deletions that free what six plugins missed",
            _pod_delete,
            _by_size(names, (2, 15, 20), (20, 190, 200), (50, 480, 500), (50, 480, 500)),
            backlog=False,
        ),
        Family(
            "EventHandlingPodUpdate",
            "labels, sizes, tolerations and gates that change",
            _pod_update,
            _by_size(("init", "pods"), (10, 10), (200, 200), (1000, 1000), (1000, 1000)),
            backlog=False,
        ),
        Family(
            "EventHandlingNodeAdd",
            "nodes that bring what pods wait for",
            _node_add,
            _by_size(("nodes", "pods"), (2, 20), (40, 400), (100, 1000), (100, 1000)),
            backlog=False,
        ),
        Family(
            "EventHandlingPodAdd",
            "pods that bring what others wait for",
            _pod_add,
            _by_size(("pods",), (10,), (200,), (1000,), (1000,)),
            backlog=False,
        ),
        Family(
            "EventHandlingNodeUpdate",
            "nodes that change and let pods in",
            _node_update,
            _by_size(("nodes", "pods"), (2, 20), (40, 400), (100, 1000), (100, 1000)),
            backlog=False,
        ),
    ]


FAMILIES: Final[dict[str, Family]] = {family.name: family for family in _families()}

QUICK: Final = (
    "SchedulingBasic",
    "SchedulingNodeAffinity",
    "TopologySpreading",
    "PreferredTopologySpreading",
    "SchedulingPodAffinity",
    "SchedulingPodAntiAffinity",
    "SchedulingPreferredPodAffinity",
    "Unschedulable",
)
"""Families of `make bench-quick`."""
