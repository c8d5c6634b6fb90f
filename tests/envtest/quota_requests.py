"""Requests about quotas, to which two servers must respond alike: pure data.

Each case has a namespace of its own. Objects are as small as the API allows; defaults
of the servers do not matter, only codes and messages are compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

Json = dict[str, Any]


class Request(NamedTuple):
    """One request; the path is relative to the namespace."""

    method: str
    path: str
    body: Json
    api: str = "/api/v1"


class Case(NamedTuple):
    """Requests in order. The quotas are created first, and must have reached admission."""

    name: str
    quotas: dict[str, Json]
    requests: list[Request]
    classes: Mapping[str, Json] = {}
    """Device classes, by name; they exist before the quotas."""


def resources(requests: Json | None = None, limits: Json | None = None) -> Json:
    given = {"requests": requests, "limits": limits}
    return {name: amounts for name, amounts in given.items() if amounts}


def pod(
    name: str,
    requests: Json | None = None,
    limits: Json | None = None,
    *,
    gated: bool = False,
    **spec: Any,
) -> Request:
    container = {"name": "c", "image": "none", "resources": resources(requests, limits)}
    body: Json = {"containers": [container], "terminationGracePeriodSeconds": 0, **spec}
    if gated:
        body["schedulingGates"] = [{"name": "example.com/hold"}]
    return Request("POST", "pods", {"metadata": {"name": name}, "spec": body})


def _quota(name: str, hard: Json, **spec: Any) -> Request:
    return Request(
        "POST", "resourcequotas", {"metadata": {"name": name}, "spec": {"hard": hard, **spec}}
    )


def _config_map(name: str) -> Request:
    return Request("POST", "configmaps", {"metadata": {"name": name}})


def _claim(name: str, size: str, storage_class: str = "fast") -> Request:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": size}},
    }
    return Request("POST", "persistentvolumeclaims", {"metadata": {"name": name}, "spec": spec})


def _device_claim(name: str, *requests: Json) -> Request:
    body = {"metadata": {"name": name}, "spec": {"devices": {"requests": list(requests)}}}
    return Request("POST", "resourceclaims", body, "/apis/resource.k8s.io/v1")


def _devices(name: str, class_name: str, count: int = 1, **more: Any) -> Json:
    return {"name": name, "exactly": {"deviceClassName": class_name, "count": count, **more}}


def alternatives(name: str, *counts: tuple[str, int]) -> Json:
    listed = [
        {"name": f"s{position}", "deviceClassName": class_name, "count": count}
        for position, (class_name, count) in enumerate(counts)
    ]
    return {"name": name, "firstAvailable": listed}


def _all_of(name: str, class_name: str) -> Json:
    return {"name": name, "exactly": {"deviceClassName": class_name, "allocationMode": "All"}}


def _resize(name: str, cpu: str) -> Request:
    containers = [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]
    return Request("PATCH", f"pods/{name}/resize", {"spec": {"containers": containers}})


def _init(name: str, cpu: str, **more: Any) -> Json:
    return {"name": name, "image": "none", "resources": resources({"cpu": cpu}), **more}


CPU: Final = {"hard": {"requests.cpu": "2"}}
GPU: Final = "nvidia.com/gpu"
CLASS: Final = "deviceclass.resource.kubernetes.io/"
SELF_AFFINITY: Final = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {
                "topologyKey": "kubernetes.io/hostname",
                "namespaces": ["elsewhere"],
                "labelSelector": {"matchLabels": {"a": "b"}},
            }
        ]
    }
}

CASES: Final = [
    Case(
        "compute",
        {"c": CPU},
        [
            pod("g", {"cpu": "5"}, gated=True),
            pod("a", {"cpu": "1"}, gated=True),
            pod("b", {"cpu": "1500m"}),
            pod("silent"),
            pod("silent-gated", gated=True),
            pod("equal", {"cpu": "1"}),
            pod("more", {"cpu": "1m"}),
            pod("none", {"cpu": "0"}),
        ],
    ),
    Case(
        "several",
        {
            "one": {"hard": {"cpu": "1", "memory": "1Gi", "pods": "9"}},
            "two": {"hard": {"limits.cpu": "2", "limits.memory": "2Gi"}},
        },
        [
            # At most one quota rejects each: where both reject, the real server names the
            # one that its map yields first. So the two large ones come while nothing is used.
            pod("b", {"cpu": "2", "memory": "2Gi"}, {"cpu": "2", "memory": "2Gi"}),
            pod("c", {"cpu": "500m", "memory": "512Mi"}, {"cpu": "3", "memory": "3Gi"}),
            pod("a", {"cpu": "1"}, {"cpu": "1", "memory": "1Gi"}),
            pod("d", {"cpu": "500m", "memory": "512Mi"}, {"cpu": "1", "memory": "1Gi"}),
            pod("e", {"cpu": "501m", "memory": "513Mi"}, {"cpu": "1", "memory": "1Gi"}),
        ],
    ),
    Case(
        "devices",
        {
            "q": {
                "hard": {
                    f"requests.{GPU}": "2",
                    "requests.hugepages-2Mi": "4Mi",
                    "requests.ephemeral-storage": "1Gi",
                }
            }
        },
        [
            pod("a", {"cpu": "1"}, {GPU: "3"}),
            pod("b", {"cpu": "1"}, {GPU: "2"}, gated=True),
            pod("c", {"cpu": "1"}, {GPU: "1"}),
            pod("d", {"cpu": "1", "memory": "1Gi"}, {"hugepages-2Mi": "6Mi"}),
            pod("e", {"ephemeral-storage": "1025Mi"}),
        ],
    ),
    Case(
        "sums",
        {"q": CPU},
        [
            pod("a", {"cpu": "1"}, initContainers=[_init("i", "3")]),
            pod("b", {"cpu": "1"}, initContainers=[_init("s", "1500m", restartPolicy="Always")]),
            pod(
                "c",
                {"cpu": "1"},
                initContainers=[_init("s", "500m", restartPolicy="Always"), _init("i", "1600m")],
            ),
            pod(
                "d",
                {"cpu": "500m"},
                initContainers=[_init("i", "1"), _init("s", "600m", restartPolicy="Always")],
            ),
            pod("e", {"cpu": "1"}),
            pod("f", resources=resources({"cpu": "3"})),
        ],
    ),
    Case(
        "counts",
        {
            "q": {"hard": {"pods": "1", "count/configmaps": "2", "services": "1"}},
            "r": {"hard": {"count/pods": "2", "services.nodeports": "1"}},
        },
        [
            pod("a", gated=True),
            pod("b", {"cpu": "1"}, gated=True),
            _config_map("x"),
            _config_map("y"),
            _config_map("z"),
            Request(
                "POST",
                "services",
                {
                    "metadata": {"name": "s"},
                    "spec": {
                        "type": "NodePort",
                        "ports": [{"name": "p", "port": 1}, {"name": "q", "port": 2}],
                    },
                },
            ),
            Request(
                "POST", "services", {"metadata": {"name": "t"}, "spec": {"ports": [{"port": 1}]}}
            ),
            Request(
                "POST", "services", {"metadata": {"name": "u"}, "spec": {"ports": [{"port": 1}]}}
            ),
        ],
    ),
    Case(
        "claims",
        {
            "q": {
                "hard": {
                    "persistentvolumeclaims": "3",
                    "requests.storage": "10Gi",
                    "fast.storageclass.storage.k8s.io/requests.storage": "4Gi",
                }
            }
        },
        [
            _claim("a", "5Gi"),
            _claim("b", "4Gi"),
            _claim("c", "7Gi", "slow"),
            _claim("d", "1Gi", "slow"),
            _claim("e", "1Gi", "slow"),
            _claim("f", "1Gi", "slow"),
        ],
    ),
    Case(
        "device-claims",
        {
            "q": {"hard": {"count/resourceclaims.resource.k8s.io": "4"}},
            "r": {
                "hard": {
                    "gpu.deviceclass.resource.k8s.io/devices": "6",
                    "nic.deviceclass.resource.k8s.io/devices": "32",
                }
            },
        },
        [
            _device_claim("a", _devices("r", "gpu", 7)),
            _device_claim("b", _devices("r", "gpu", 2), _devices("q", "gpu", 2)),
            _device_claim("c", _devices("r", "gpu", 3)),
            _device_claim("d", alternatives("r", ("gpu", 1), ("gpu", 2), ("nic", 8))),
            _device_claim("e", _devices("r", "gpu")),
            _device_claim("f", _all_of("r", "nic")),
            _device_claim("g", _devices("r", "nic", 24)),
            _device_claim("h", _devices("r", "other", 5)),
            _device_claim("i", _devices("r", "other", 5)),
        ],
    ),
    Case(
        "device-classes",
        {
            "q": {
                "hard": {
                    "requests.example.com/gpu": "6",
                    f"requests.{CLASS}plain": "40",
                    f"requests.{CLASS}missing": "1",
                }
            },
            "r": {"hard": {f"requests.{CLASS}named": "8"}},
        },
        [
            _device_claim("a", _devices("r", "named", 7)),
            _device_claim("b", _devices("r", "named", 2), _devices("q", "named", 2)),
            _device_claim("c", _devices("r", "named", 3)),
            _device_claim("d", alternatives("r", ("named", 1), ("named", 2), ("plain", 8))),
            _device_claim("e", _devices("r", "named", 1)),
            pod("f", limits={"example.com/gpu": "1"}),
            pod("g", limits={f"{CLASS}named": "2"}),
            pod("h", limits={f"{CLASS}named": "1"}),
            _device_claim("i", _all_of("r", "plain")),
            _device_claim("j", _devices("r", "plain", 1)),
            pod("k", limits={f"{CLASS}plain": "1"}),
            pod("l", limits={f"{CLASS}other": "5"}),
            _device_claim("m", _devices("r", "missing", 2)),
            _device_claim("n", _devices("r", "missing", 1)),
            _device_claim("o", _devices("r", "plain", 1, adminAccess=True)),
            _device_claim("p", _devices("r", "other", 3)),
        ],
        {"named": {"extendedResourceName": "example.com/gpu"}, "plain": {}},
    ),
    Case(
        "scopes",
        {
            "best-effort": {"hard": {"pods": "0"}, "scopes": ["BestEffort"]},
            "terminating": {"hard": {"requests.cpu": "1"}, "scopes": ["Terminating"]},
            "not-terminating": {"hard": {"requests.memory": "1Gi"}, "scopes": ["NotTerminating"]},
            "critical": {
                "hard": {"pods": "0"},
                "scopeSelector": {
                    "matchExpressions": [
                        {
                            "scopeName": "PriorityClass",
                            "operator": "In",
                            "values": ["system-cluster-critical"],
                        }
                    ]
                },
            },
            "reaching": {
                "hard": {"pods": "0"},
                "scopeSelector": {
                    "matchExpressions": [
                        {"scopeName": "CrossNamespacePodAffinity", "operator": "Exists"}
                    ]
                },
            },
        },
        [
            pod("a", activeDeadlineSeconds=60),
            pod("b", {"cpu": "2"}, activeDeadlineSeconds=60),
            pod("c", {"cpu": "2"}),
            pod("d", {"cpu": "2", "memory": "2Gi"}),
            pod("e", {"cpu": "2", "memory": "1Gi"}),
            pod(
                "f",
                {"cpu": "1"},
                activeDeadlineSeconds=60,
                priorityClassName="system-cluster-critical",
            ),
            pod("g", {"cpu": "1"}, affinity=SELF_AFFINITY, activeDeadlineSeconds=60),
        ],
    ),
    Case(
        "resize",
        {"q": CPU},
        [
            pod("a", {"cpu": "1"}, gated=True),
            _resize("a", "3"),
            _resize("a", "2"),
            pod("b", {"cpu": "1"}),
            _resize("a", "500m"),
            pod("c", {"cpu": "1500m"}),
        ],
    ),
    Case(
        "foreign",
        {
            "q": {
                "hard": {
                    "deferred.kubestow.io/requests.cpu-millis": "1k",
                    "deferred.kubestow.io/requests.memory": "1Mi",
                    "deferred.kubestow.io/pods": "0",
                    "pods": "3",
                }
            }
        },
        [pod("a", {"cpu": "5", "memory": "5Gi"}), pod("b"), pod("c", gated=True), pod("d")],
    ),
    Case(
        "objects",
        {},
        [
            _quota("a", {"deferred.kubestow.io/requests.cpu-millis": "1500m"}),
            _quota("b", {"deferred.kubestow.io/requests.memory": "1.5"}),
            _quota("c", {"cheese": "1"}),
            _quota("d", {"pods": "1500m"}),
            _quota("e", {"requests.cpu": "-1"}),
            _quota("f", {f"deferred.kubestow.io/requests.{'n' * 60}": "1"}),
            _quota("g", {"requests.cpu": "1500m", f"requests.{GPU}": "4"}),
            _quota("h", {"pods": "1"}, scopes=["Terminating", "NotTerminating"]),
            _quota("i", {"count/jobs.batch": "1500m"}),
            Request("PATCH", "resourcequotas/g", {"spec": {"scopes": ["BestEffort"]}}),
            Request("PATCH", "resourcequotas/g", {"spec": {"hard": {"pods": "1.5"}}}),
            Request(
                "PATCH",
                "resourcequotas/g/status",
                {"status": {"used": {"deferred.kubestow.io/requests.memory": "1500m"}}},
            ),
        ],
    ),
]
