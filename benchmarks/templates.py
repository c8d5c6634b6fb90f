"""Objects of upstream's workloads, by a short name (`test/integration/scheduler_perf/templates`).

`render(name, index, count)` gives an object as JSON data without namespace and schedulerName, which
the load generator adds. An object's name is unique per template and index, so that updates and
deletions find what a creation made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from benchmarks.device_templates import DEVICE_TEMPLATES
from benchmarks.gang_templates import GANG_TEMPLATES

Object = dict[str, Any]
Template = Callable[[int, int], Object]

ZONE: Final = "topology.kubernetes.io/zone"
HOSTNAME: Final = "kubernetes.io/hostname"
BIG_NODE: Final = "scheduler-perf-node"
AFFINITY_NAMESPACES: Final = ("sched-0", "sched-1")
IMAGE: Final = "registry.k8s.io/pause:3.10.1"


def render(name: str, index: int, count: int) -> Object:
    """The object `index` of `count` of a template. Raises KeyError for an unknown template."""
    return TEMPLATES[name](index, count)


# -- nodes -----------------------------------------------------------------------------------------


def _node(
    name: str,
    *,
    cpu: str = "4",
    memory: str = "32Gi",
    pods: int = 110,
    labels: dict[str, str] | None = None,
    taint: str = "",
    cordoned: bool = False,
    more: dict[str, str] | None = None,
) -> Object:
    resources = {"cpu": cpu, "memory": memory, "pods": str(pods)} | (more or {})
    spec: Object = {}
    if taint:
        spec["taints"] = [{"key": taint, "effect": "NoSchedule"}]
    if cordoned:
        spec["unschedulable"] = True
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {HOSTNAME: name} | (labels or {})},
        "spec": spec,
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "conditions": [{"type": "Ready", "status": "True"}],
            "phase": "Running",
        },
    }


_STAGE_LABELS: Final = {ZONE: "zone1", "affinity": "allow", "topology": "allow"}


def _stage_node(kind: str, i: int, **changes: Any) -> Object:
    return _node(f"{kind}-{i}", pods=3000, **changes)


NODES: Final[dict[str, Template]] = {
    "node": lambda i, _n: _node(f"scheduler-perf-{i:05d}"),
    "device-node": lambda i, _n: _node(
        f"scheduler-perf-dra-{i:05d}", labels={"node-with-dra": "true"}
    ),
    "big-node": lambda _i, _n: _node(BIG_NODE, pods=90000),
    "tainted-node": lambda i, _n: _node(f"tainted-{i:05d}", taint="foo"),
    "churn-node": lambda i, _n: _node(f"churn-{i}", cpu="0", memory="0", pods=0),
    "extended-resource-node": lambda i, _n: _node(
        f"extended-{i:05d}",
        labels={"node-with-extended-resource": "true"},
        more={f"foo.com/bar-{i}": "1"},
    ),
    "pods-3000-node": lambda i, _n: _stage_node("event", i),
    "cordoned-node": lambda i, _n: _stage_node(
        "cordoned", i, cordoned=True, taint="allow", labels=_STAGE_LABELS
    ),
    "low-node": lambda i, _n: _stage_node("low", i, cpu="0.1", memory="100Mi", taint="allow"),
    "high-node": lambda i, _n: _stage_node("high", i, cpu="200", memory="200Gi", taint="allow"),
    "labelled-node": lambda i, _n: _stage_node("labelled", i, taint="allow", labels=_STAGE_LABELS),
    "other-taint-node": lambda i, _n: _stage_node("other-taint", i, taint="toleration"),
    # EventHandlingNodeUpdate: each stage has nodes that refuse and the state that lets pods in.
    "update-cordoned": lambda i, _n: _stage_node("uncordon", i, cordoned=True, taint="allow"),
    "update-uncordoned": lambda i, _n: _stage_node("uncordon", i, taint="allow"),
    "update-low": lambda i, _n: _stage_node(
        "grow", i, cpu="0.0001", memory="1Mi", taint="allow-noderesources"
    ),
    "update-full": lambda i, _n: _stage_node("grow", i, taint="allow-noderesources"),
    "update-bare": lambda i, _n: _stage_node("label", i, taint="allow-labels"),
    "update-labelled": lambda i, _n: _stage_node(
        "label", i, taint="allow-labels", labels=_STAGE_LABELS
    ),
    "update-tainted": lambda i, _n: _stage_node("untaint", i, taint="allow-taints"),
    "update-tolerated": lambda i, _n: _stage_node("untaint", i, taint=f"toleration-{i}"),
    # EventHandlingPodUpdate.
    "unschedulable-node": lambda _i, _n: _node("unschedulable-node", pods=90000, cordoned=True),
    "node-with-taint": lambda _i, _n: _node("node-with-taint", pods=90000, taint="toleration"),
}


# -- pods ------------------------------------------------------------------------------------------

_STANDARD: Final = {"cpu": "100m", "memory": "500Mi"}


def _pod(
    name: str,
    *,
    requests: dict[str, str] | None = None,
    limits: bool = True,
    labels: dict[str, str] | None = None,
    grace: int | None = None,
    finalizer: str = "",
    host_port: int = 0,
    **spec: Any,
) -> Object:
    container: Object = {"name": "pause", "image": IMAGE}
    if requests:
        container["resources"] = {"requests": requests} | ({"limits": requests} if limits else {})
    if requests is _STANDARD:
        container["ports"] = [{"containerPort": 80}]
    if host_port:
        container["ports"] = [{"containerPort": 80, "hostPort": host_port}]
    metadata: Object = {"name": name}
    if labels:
        metadata["labels"] = labels
    if finalizer:
        metadata["finalizers"] = [finalizer]
    if grace is not None:
        spec["terminationGracePeriodSeconds"] = grace
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [container], **spec},
    }


def _selector(labels: dict[str, str]) -> Object:
    return {"matchLabels": labels}


def _term(labels: dict[str, str], key: str, namespaces: Object | None = None) -> Object:
    return {"labelSelector": _selector(labels), "topologyKey": key} | (
        {"namespaces": list(AFFINITY_NAMESPACES)} if namespaces is None else namespaces
    )


def _required(kind: str, term: Object) -> Object:
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _preferred(kind: str, term: Object) -> Object:
    weighted = {"weight": 1, "podAffinityTerm": term}
    return {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}}


def _node_terms(term: Object) -> Object:
    terms = {"nodeSelectorTerms": [term]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def _spread(
    labels: dict[str, str], key: str, skew: int, *, hard: bool = True, **more: Any
) -> list[Object]:
    return [
        {
            "maxSkew": skew,
            "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule" if hard else "ScheduleAnyway",
            "labelSelector": _selector(labels),
            **more,
        }
    ]


def _tolerate(key: str) -> list[Object]:
    return [{"key": key, "operator": "Exists", "effect": "NoSchedule"}]


def _standard(prefix: str, i: int, **changes: Any) -> Object:
    return _pod(f"{prefix}-{i:06d}", requests=_STANDARD, **changes)


_TEAM: Final = {"namespaceSelector": _selector({"team": "devops"})}
_BLUE: Final = {"color": "blue"}
_GREEN: Final = {"color": "green"}
_RED: Final = {"color": "red"}
_YELLOW: Final = {"color": "yellow"}
_APP: Final = {"app": "scheduler-perf"}

PODS: Final[dict[str, Template]] = {
    "default": lambda i, _n: _standard("default", i),
    "light": lambda i, _n: _pod(f"light-{i:06d}", grace=0),
    "light-to-delete": lambda i, _n: _pod(f"delete-{i:06d}", grace=0),
    "labelled": lambda i, _n: _pod(f"labelled-{i:06d}", labels=_APP),
    "daemonset": lambda i, _n: _pod(
        f"daemon-{i:06d}",
        affinity=_node_terms(
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [BIG_NODE]}]}
        ),
    ),
    "low-priority": lambda i, _n: _pod(
        f"low-{i:06d}", requests={"cpu": "900m", "memory": "500Mi"}, grace=0
    ),
    "high-priority": lambda i, _n: _pod(
        f"high-{i:06d}", requests={"cpu": "3000m", "memory": "500Mi"}, priority=10
    ),
    "high-priority-huge": lambda i, _n: _pod(
        f"huge-{i:06d}", requests={"cpu": "9", "memory": "500Mi"}, priority=10
    ),
    "gated": lambda i, _n: _pod(f"gated-{i:06d}", schedulingGates=[{"name": "test.k8s.io/hold"}]),
    "gated-affinity": lambda i, _n: _pod(
        f"gated-{i:06d}",
        labels=_APP,
        schedulingGates=[{"name": "test.k8s.io/hold"}],
        affinity=_required("podAffinity", _term(_APP, HOSTNAME, {})),
    ),
    "finalizer": lambda i, _n: _pod(f"final-{i:06d}", finalizer="test.k8s.io/finalizer"),
    "node-affinity": lambda i, _n: _standard(
        "node-affinity",
        i,
        affinity=_node_terms(
            {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["zone1", "zone2"]}]}
        ),
    ),
    "affinity": lambda i, _n: _standard(
        "affinity", i, labels=_BLUE, affinity=_required("podAffinity", _term(_BLUE, ZONE))
    ),
    "anti-affinity": lambda i, _n: _standard(
        "anti", i, labels=_GREEN, affinity=_required("podAntiAffinity", _term(_GREEN, HOSTNAME))
    ),
    "anti-affinity-target": lambda i, _n: _standard("target", i, labels=_GREEN),
    "preferred-affinity": lambda i, _n: _standard(
        "prefer", i, labels=_RED, affinity=_preferred("podAffinity", _term(_RED, HOSTNAME))
    ),
    "preferred-anti-affinity": lambda i, _n: _standard(
        "avoid",
        i,
        labels=_YELLOW,
        affinity=_preferred("podAntiAffinity", _term(_YELLOW, HOSTNAME)),
    ),
    "affinity-nsselector": lambda i, _n: _standard(
        "affinity", i, labels=_BLUE, affinity=_required("podAffinity", _term(_BLUE, ZONE, _TEAM))
    ),
    "anti-affinity-nsselector": lambda i, _n: _standard(
        "anti",
        i,
        labels=_GREEN,
        affinity=_required("podAntiAffinity", _term(_GREEN, HOSTNAME, _TEAM)),
    ),
    "preferred-affinity-nsselector": lambda i, _n: _standard(
        "prefer", i, labels=_RED, affinity=_preferred("podAffinity", _term(_RED, HOSTNAME, _TEAM))
    ),
    "preferred-anti-affinity-nsselector": lambda i, _n: _standard(
        "avoid",
        i,
        labels=_GREEN,
        affinity=_preferred("podAntiAffinity", _term(_GREEN, HOSTNAME, _TEAM)),
    ),
    "hard-spread": lambda i, _n: _standard(
        "hard", i, labels=_BLUE, topologySpreadConstraints=_spread(_BLUE, ZONE, 5)
    ),
    "soft-spread": lambda i, _n: _standard(
        "soft", i, labels=_BLUE, topologySpreadConstraints=_spread(_BLUE, ZONE, 5, hard=False)
    ),
    "inclusion-spread": lambda i, _n: _standard(
        "inclusion",
        i,
        labels={"foo": "bar"},
        topologySpreadConstraints=_spread(
            {"foo": "bar"}, HOSTNAME, 1, nodeAffinityPolicy="Honor", nodeTaintsPolicy="Honor"
        ),
    ),
    "secret": lambda i, _n: _standard(
        "secret", i, volumes=[{"name": "secret", "secret": {"secretName": "secret"}}]
    ),
    "extended-resource": lambda i, _n: _pod(
        f"extended-{i:06d}", requests={f"foo.com/bar-{i}": "1"}
    ),
}


# -- pods of the event handling workloads ----------------------------------------------------------

_UNSCHED: Final = {"type": "unsched"}
_TOPOLOGY: Final = {"topology": "blue"}


def _claims(name: str) -> list[Object]:
    return [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]


def _unsched(kind: str, i: int, labels: dict[str, str] | None = None, **changes: Any) -> Object:
    return _pod(f"{kind}-{i:06d}", labels=_UNSCHED | (labels or {}), grace=0, **changes)


def _blocker_memory(count: int) -> dict[str, str]:
    return {"memory": f"{30000 // count}Mi"}


def _named_blocker(i: int, count: int, labels: dict[str, str], memory: dict[str, str]) -> Object:
    del count
    resize = [{"resourceName": "memory", "restartPolicy": "NotRequired"}]
    pod = _pod(f"blocker-{i}", labels=labels, requests=memory, limits=False)
    pod["spec"]["containers"][0]["resizePolicy"] = resize
    return pod


EVENT_PODS: Final[dict[str, Template]] = {
    # PodDelete: two kinds of blockers, six kinds of pods that wait for them to go.
    "blocker-a": lambda i, _n: _pod(
        f"blocker-a-{i}",
        labels=_TOPOLOGY,
        grace=0,
        requests={"cpu": "350m", "memory": "3Gi"},
        limits=False,
        host_port=int(f"8{i % 12}"),
        topologySpreadConstraints=_spread(_TOPOLOGY, HOSTNAME, 10, minDomains=10000),
    ),
    "blocker-b": lambda i, _n: _pod(
        f"blocker-b-{i}", labels=_GREEN, grace=0, volumes=_claims(f"once-{i}")
    ),
    "wait-spread": lambda i, _n: _unsched(
        "spread",
        i,
        _TOPOLOGY,
        topologySpreadConstraints=_spread(_TOPOLOGY, HOSTNAME, 11, minDomains=10000),
    ),
    "wait-claim": lambda i, _n: _unsched("claim", i, volumes=_claims(f"once-{i}")),
    "wait-port": lambda i, _n: _unsched("port", i, host_port=int(f"8{i % 12}")),
    "wait-resources": lambda i, _n: _unsched(
        "resources", i, requests={"cpu": "200m", "memory": "1Gi"}, limits=False
    ),
    "wait-volume": lambda i, _n: _unsched("volume", i),
    "wait-anti-affinity": lambda i, _n: _unsched(
        "anti", i, affinity=_required("podAntiAffinity", _term(_GREEN, HOSTNAME, {}))
    ),
    # NodeAdd and NodeUpdate.
    "wait-cordon": lambda i, _n: _unsched("cordon", i, tolerations=_tolerate("allow")),
    "wait-capacity": lambda i, _n: _unsched(
        "capacity",
        i,
        requests={"cpu": "200m", "memory": "200Mi"},
        limits=False,
        tolerations=_tolerate("allow"),
    ),
    "wait-zone": lambda i, _n: _unsched(
        "zone",
        i,
        {"zone": "self"},
        tolerations=_tolerate("allow"),
        affinity=_required("podAffinity", _term({"zone": "self"}, ZONE, {})),
    ),
    "wait-label": lambda i, _n: _unsched(
        "label", i, tolerations=_tolerate("allow"), nodeSelector={"affinity": "allow"}
    ),
    "wait-topology": lambda i, _n: _unsched(
        "topology",
        i,
        # A label of their own: the pods of the other kinds land in the same domain, and with them
        # its skew would end before the last of these is placed.
        {"topology": "self"},
        tolerations=_tolerate("allow"),
        topologySpreadConstraints=_spread({"topology": "self"}, "topology", 1000, minDomains=10000),
    ),
    "wait-taint": lambda i, _n: _unsched("taint", i, tolerations=_tolerate("toleration")),
    "update-wait-capacity": lambda i, _n: _unsched(
        "capacity",
        i,
        requests={"cpu": "350m", "memory": "3Gi"},
        limits=False,
        tolerations=_tolerate("allow-noderesources"),
    ),
    "update-wait-label": lambda i, _n: _unsched(
        "label", i, tolerations=_tolerate("allow-labels"), nodeSelector={"affinity": "allow"}
    ),
    "update-wait-taint": lambda i, _n: _unsched(
        "taint", i, tolerations=_tolerate(f"toleration-{i // 10}")
    ),
    # PodAdd.
    "green": lambda i, _n: _pod(f"green-{i}", labels=_GREEN),
    "wait-green": lambda i, _n: _unsched(
        "beside",
        i,
        {"follow": "blue"},
        affinity=_required("podAntiAffinity", _term(_GREEN, HOSTNAME, {})),
        topologySpreadConstraints=_spread({"follow": "blue"}, HOSTNAME, 1),
    ),
    "wait-yellow": lambda i, _n: _unsched(
        "with", i, affinity=_required("podAffinity", _term({"yellow": str(i)}, HOSTNAME, {}))
    ),
    "follower": lambda i, _n: _pod(
        f"follower-{i}",
        labels=_GREEN | {"follow": "blue"},
        affinity=_required("podAffinity", _term(_GREEN, HOSTNAME, {})),
    ),
    "yellow": lambda i, _n: _pod(f"yellow-{i}", labels={"yellow": str(i)}),
    # PodUpdate.
    "wait-uncordon": lambda i, _n: _unsched("uncordon", i),
    "with-uncordon": lambda i, _n: _unsched(
        "uncordon", i, tolerations=_tolerate("node.kubernetes.io/unschedulable")
    ),
    "wait-toleration": lambda i, _n: _unsched("tolerate", i),
    "with-toleration": lambda i, _n: _unsched("tolerate", i, tolerations=_tolerate("toleration")),
    "named-blocker": lambda i, n: _named_blocker(
        i, n, _TOPOLOGY | {"blocker": str(i)}, _blocker_memory(n)
    ),
    "named-blocker-bare": lambda i, n: _named_blocker(i, n, {}, _blocker_memory(n)),
    "named-blocker-small": lambda i, n: _named_blocker(i, n, {}, {"memory": "1Mi"}),
    "wait-blocker-label": lambda i, _n: _unsched(
        "anti",
        i,
        affinity=_required("podAntiAffinity", _term({"blocker": str(i)}, HOSTNAME, {})),
    ),
    "wait-blocker-memory": lambda i, n: _unsched(
        "memory", i, requests=_blocker_memory(n), limits=False
    ),
    "wait-blocker-spread": lambda i, n: _unsched(
        "spread",
        i,
        _TOPOLOGY,
        topologySpreadConstraints=_spread(_TOPOLOGY, HOSTNAME, n, minDomains=10000),
    ),
    "wait-gate": lambda i, _n: _unsched("gate", i, schedulingGates=[{"name": "test.k8s.io/hold"}]),
    "without-gate": lambda i, _n: _unsched("gate", i),
}


# -- other objects ---------------------------------------------------------------------------------


def _service(name: str, selector: dict[str, str]) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"selector": selector, "ports": [{"port": 80, "targetPort": 8000}]},
    }


OTHERS: Final[dict[str, Template]] = {
    "service": lambda i, _n: _service(f"service-{i}", _APP),
    "churn-service": lambda i, _n: _service(f"churn-{i}", {"app": "foo"}),
}

TEMPLATES: Final = NODES | PODS | EVENT_PODS | OTHERS | DEVICE_TEMPLATES | GANG_TEMPLATES
