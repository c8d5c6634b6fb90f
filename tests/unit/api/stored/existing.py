"""Objects that exist already, from manifests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from scheduler.api.stored import Nothing, as_stored
from scheduler.client.kinds import BUILT_IN
from scheduler.client.resources import Resource
from scheduler.client.store import Store
from scheduler.service.manifests import StoredObjects

JsonObject = dict[str, Any]


def existing(
    *manifests: Mapping[str, Any], gates: Iterable[str] = (), complete: bool = True
) -> StoredObjects:
    """Return what is known where these objects exist; `complete`: and no others."""
    stores: dict[str, Store[Any]] = {each.plural: Store(each) for each in BUILT_IN.values()}
    for each in manifests:
        resource = _resource(each)
        item = resource.decode(_encoded(as_stored(each, Nothing()).obj))
        stores[resource.plural].put(resource.key(item), item)
    return StoredObjects(stores, dict.fromkeys(gates, True), complete=complete)


def _resource(manifest: Mapping[str, Any]) -> Resource[Any]:
    return BUILT_IN[manifest["apiVersion"].rpartition("/")[0], manifest["kind"]]


def _encoded(manifest: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode(manifest)


def priority_class(name: str, value: int, **more: object) -> JsonObject:
    """Return a PriorityClass."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        **more,
    }


def storage_class(name: str, time: str = "", annotation: str = "storageclass") -> JsonObject:
    """Return a StorageClass that is the default."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": name,
            "creationTimestamp": time or None,
            "annotations": {f"{annotation}.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": "disk.example.com",
    }


def limit_range(name: str, *limits: Mapping[str, Any], namespace: str = "default") -> JsonObject:
    """Return a LimitRange for containers."""
    return {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"limits": [{"type": "Container", **each} for each in limits]},
    }


def runtime_class(name: str, **more: object) -> JsonObject:
    """Return a RuntimeClass."""
    return {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": name},
        "handler": "h",
        **more,
    }


def pod(*containers: Mapping[str, Any], **spec: object) -> JsonObject:
    """Return a pod with these containers, as a person would write it."""
    named = [{"name": f"c{i}", "image": "x", **each} for i, each in enumerate(containers or ({},))]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": named, **spec},
    }
