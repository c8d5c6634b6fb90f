"""The cluster and the workloads of the demo, as plain objects.

A few dozen nodes in three zones: general ones, GPU ones, spot ones with a taint, a few on cordon;
and a morning's mix of work: a web deployment spread over zones, batch jobs that end, GPU training,
an agent on every node, pods that wait for a gate, pods that cannot fit anywhere. Pure data: the
same arguments give the same objects.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from simulator.controllers.kubelet import RUN_SECONDS, START_SECONDS
from simulator.objects import JsonObject, priority_class

SCHEDULER: Final = "kubestow"
ZONES: Final = ("eu-1a", "eu-1b", "eu-1c")
NAMESPACES: Final = ("shop", "batch", "research", "platform")
GPU: Final = "nvidia.com/gpu"
DATASET_GATE: Final = "example.com/dataset-ready"
"""The gate that demo pods wait for; remove it to let them go."""


class Pool(NamedTuple):
    """A kind of node. `per_zone` nodes of it stand in each zone."""

    name: str
    per_zone: int
    cpu: str
    memory: str
    gpus: int = 0
    taint: JsonObject | None = None


POOLS: Final = (
    Pool("general", 6, "16", "64Gi"),
    Pool("highmem", 2, "16", "256Gi"),
    Pool("gpu", 2, "32", "256Gi", 4, {"key": GPU, "value": "present", "effect": "NoSchedule"}),
    Pool(
        "spot",
        3,
        "8",
        "32Gi",
        0,
        {"key": "example.com/spot", "value": "true", "effect": "NoSchedule"},
    ),
)


class DemoCluster(NamedTuple):
    """Objects to create, in this order: `base` (namespaces, classes, nodes), then `workloads`."""

    base: list[JsonObject]
    workloads: list[JsonObject]

    @property
    def pods(self) -> int:
        """Pods that the scheduler will see, those of workload objects included."""
        return sum(_pod_count(obj) for obj in self.workloads)

    @property
    def waiting(self) -> int:
        """Pods that are meant to be still waiting at the end: gated ones and misfits."""
        return sum(
            1
            for obj in self.workloads
            if obj["metadata"].get("labels", {}).get("demo") in ("gated", "misfit")
        )


def _pod_count(obj: JsonObject) -> int:
    match obj["kind"]:
        case "Pod":
            return 1
        case "Deployment":
            return int(obj["spec"]["replicas"])
        case "Job":
            return int(obj["spec"]["completions"])
    return 0


def node(pool: Pool, zone: str, number: int, images: Sequence[JsonObject] = ()) -> JsonObject:
    """Return a Ready node of a pool."""
    name = f"{pool.name}-{zone[-2:]}-{number}"
    amounts = {"cpu": pool.cpu, "memory": pool.memory, "pods": "110", "ephemeral-storage": "200Gi"}
    if pool.gpus:
        amounts[GPU] = str(pool.gpus)
    spec: JsonObject = {"taints": [pool.taint]} if pool.taint else {}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "topology.kubernetes.io/region": "eu-1",
                "topology.kubernetes.io/zone": zone,
                "example.com/pool": pool.name,
            },
        },
        "spec": spec,
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            "nodeInfo": {"kubeletVersion": "v1.37.2", "operatingSystem": "linux"},
            "images": [*images],
        },
    }


def _nodes() -> Iterator[JsonObject]:
    for pool in POOLS:
        for zone in ZONES:
            for number in range(1, pool.per_zone + 1):
                cached = number == 1 and pool.name == "general"
                names = ["registry.example.com/shop/web:4.2"]
                images = [{"names": names, "sizeBytes": 410_000_000}] if cached else []
                made = node(pool, zone, number, images)
                if pool.name == "general" and zone == ZONES[2] and number == pool.per_zone:
                    made["spec"]["unschedulable"] = True
                yield made


def _pod_spec(image: str, cpu: str, memory: str, **more: object) -> JsonObject:
    requests: JsonObject = {"cpu": cpu, "memory": memory}
    gpus = more.pop("gpus", None)
    resources: JsonObject = {"requests": requests}
    if gpus:
        requests[GPU] = str(gpus)
        resources["limits"] = {GPU: str(gpus)}
    return {
        "schedulerName": SCHEDULER,
        "containers": [
            {"name": "main", "image": f"registry.example.com/{image}", "resources": resources}
        ],
        **more,
    }


def _pod(
    namespace: str, name: str, spec: JsonObject, demo: str, annotations: JsonObject | None = None
) -> JsonObject:
    labels = {"app": name.rpartition("-")[0] or name, "demo": demo}
    meta: JsonObject = {"name": name, "namespace": namespace, "labels": labels}
    if annotations:
        meta["annotations"] = annotations
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def _tolerate(key: str) -> list[JsonObject]:
    return [{"key": key, "operator": "Exists", "effect": "NoSchedule"}]


def _deployment(name: str, replicas: int, spec: JsonObject) -> JsonObject:
    labels = {"app": name, "demo": "web"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "shop", "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def _web() -> Iterator[JsonObject]:
    for name, replicas, cpu in (("web", 60, "500m"), ("checkout", 24, "1"), ("search", 18, "2")):
        spread = {
            "maxSkew": 1,
            "topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": name}},
        }
        spec = _pod_spec(
            f"shop/{name}:4.2",
            cpu,
            "1Gi",
            priorityClassName="service",
            topologySpreadConstraints=[spread],
        )
        yield _deployment(name, replicas, spec)


def _jobs(source: random.Random) -> Iterator[JsonObject]:
    for number in range(1, 7):
        spec = _pod_spec(
            "batch/report:7",
            source.choice(["1", "2", "500m"]),
            "2Gi",
            priorityClassName="batch",
            restartPolicy="Never",
            tolerations=_tolerate("example.com/spot"),
        )
        annotations = {
            START_SECONDS: str(source.randint(0, 2)),
            RUN_SECONDS: str(source.randint(3, 9)),
        }
        labels = {"app": "report", "demo": "batch"}
        yield {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": f"report-{number}", "namespace": "batch", "labels": labels},
            "spec": {
                "completions": 8,
                "parallelism": 8,
                "template": {
                    "metadata": {"labels": labels, "annotations": annotations},
                    "spec": spec,
                },
            },
        }


def _training() -> Iterator[JsonObject]:
    for number in range(1, 9):
        gpus = 4 if number <= 2 else 2
        spec = _pod_spec(
            "research/train:2",
            "8",
            "48Gi",
            gpus=gpus,
            tolerations=_tolerate(GPU),
            nodeSelector={"example.com/pool": "gpu"},
            restartPolicy="Never",
        )
        yield _pod("research", f"train-{number}", spec, "gpu", {RUN_SECONDS: "600"})


def _affinity_to_node(name: str) -> JsonObject:
    """Pin a pod to a node as the DaemonSet controller does."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
    required = {"nodeSelectorTerms": [term]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def agent(node_name: str) -> JsonObject:
    """Return the agent's pod for a node."""
    spec = _pod_spec(
        "platform/agent:1",
        "100m",
        "128Mi",
        priorityClassName="system-node-critical",
        tolerations=[{"operator": "Exists"}],
        affinity=_affinity_to_node(node_name),
    )
    made = _pod("platform", f"agent-{node_name}", spec, "agent")
    made["metadata"]["labels"]["app"] = "agent"
    return made


def pinned_pod(name: str, namespace: str, node_name: str) -> JsonObject:
    """Return a pod that can run on one node only and tolerates no taint."""
    image = f"{namespace}/{name.partition('-')[0]}:1"
    spec = _pod_spec(image, "500m", "1Gi", affinity=_affinity_to_node(node_name))
    return _pod(namespace, name, spec, "pinned")


def _waiting() -> Iterator[JsonObject]:
    for number in range(1, 6):
        gates = [{"name": DATASET_GATE}]
        spec = _pod_spec("research/prepare:1", "2", "4Gi", schedulingGates=gates)
        yield _pod("research", f"prepare-{number}", spec, "gated")
    misfits = {
        "giant-1": _pod_spec("batch/giant:1", "96", "1Gi"),
        "hoarder-1": _pod_spec("batch/hoarder:1", "1", "900Gi"),
        "arm-1": _pod_spec("batch/arm:1", "1", "1Gi", nodeSelector={"kubernetes.io/arch": "arm64"}),
        "big-train-1": _pod_spec(
            "research/train:2", "8", "64Gi", gpus=8, tolerations=_tolerate(GPU)
        ),
    }
    for name, spec in misfits.items():
        yield _pod("batch", name, spec, "misfit")


def demo_cluster(seed: int = 1) -> DemoCluster:
    """Return the objects of the demo. Only run times of batch pods depend on `seed`."""
    source = random.Random(seed)
    nodes = list(_nodes())
    base: list[JsonObject] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in NAMESPACES
    ]
    base += [priority_class("service", 1000), priority_class("batch", 10)]
    base += nodes
    names = [each["metadata"]["name"] for each in nodes]
    workloads = [*map(agent, names), *_web(), *_jobs(source), *_training(), *_waiting()]
    return DemoCluster(base, workloads)
