"""Objects that decide how others are stored."""

from __future__ import annotations

from typing import Any, Final

JsonObject = dict[str, Any]

SURROUNDINGS: Final[tuple[JsonObject, ...]] = (
    {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "urgent"},
        "value": 1000,
    },
    {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "patient"},
        "value": 10,
        "preemptionPolicy": "Never",
    },
    {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": "standard",
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": "disk.example.com",
    },
    {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "plain"},
        "provisioner": "disk.example.com",
        "volumeBindingMode": "WaitForFirstConsumer",
    },
    {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "kata"},
        "handler": "kata",
        "overhead": {"podFixed": {"cpu": "250m", "memory": "120Mi"}},
        "scheduling": {
            "nodeSelector": {"kata": "yes"},
            "tolerations": [{"key": "kata", "operator": "Exists", "effect": "NoSchedule"}],
        },
    },
    {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "wide"},
        "handler": "wide",
        "scheduling": {"tolerations": [{"operator": "Exists"}]},
    },
    {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "pinned"},
        "handler": "pinned",
        "scheduling": {"nodeSelector": {"pinned": "yes"}},
    },
    {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "bare"},
        "handler": "bare",
    },
    {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "all", "namespace": "limited"},
        "spec": {
            "limits": [
                {
                    "type": "Container",
                    "default": {"cpu": "2", "memory": "2Gi"},
                    "defaultRequest": {"cpu": "100m"},
                },
                {"type": "Pod", "max": {"cpu": "64"}},
            ]
        },
    },
    {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "bounds", "namespace": "bounded"},
        "spec": {
            "limits": [
                {"type": "Container", "max": {"cpu": "16"}, "min": {"memory": "1Mi"}},
                {"type": "PersistentVolumeClaim", "max": {"storage": "1Ti"}},
            ]
        },
    },
)
"""The objects that exist, in this order; the namespaces `limited` and `bounded` besides them."""
NAMESPACES: Final = ("default", "limited", "bounded")
