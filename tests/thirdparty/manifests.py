"""Manifests of third-party controllers, extracted from their own sources.

No copies are kept here, so that version and manifests cannot differ.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from devtools.control_plane.control_plane import ControlPlane
from devtools.control_plane.ports import LOOPBACK

Json = dict[str, Any]

PREREQUISITES: Final = frozenset(
    {
        "Namespace",
        "CustomResourceDefinition",
        "ServiceAccount",
        "ClusterRole",
        "ClusterRoleBinding",
        "Role",
        "RoleBinding",
        "Service",
        "Secret",
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
    }
)
"""The kinds that a controller needs; the Deployment that would run it is not among them."""


def kustomized(plane: ControlPlane, directory: Path) -> list[Json]:
    """Return the output of `kubectl kustomize` for a directory."""
    return _documents(plane.kubectl("kustomize", str(directory)))


def read(files: Sequence[Path]) -> list[Json]:
    """Return the objects in YAML files."""
    return [each for file in files for each in _documents(file.read_text())]


def of_kinds(objects: Sequence[Json], kinds: Collection[str] = PREREQUISITES) -> list[Json]:
    """Return the objects of some kinds."""
    return [each for each in objects if each["kind"] in kinds]


def call_webhooks_at(objects: Sequence[Json], port: int) -> None:
    """Let the webhooks among `objects` be called at a port of this machine.

    Their Service becomes one of type ExternalName, which the API server follows without a network
    for pods; the name in the certificate stays the Service's.
    """
    services = set()
    for client in _webhook_clients(objects):
        client["service"]["port"] = port
        services.add((client["service"]["namespace"], client["service"]["name"]))
    for each in objects:
        metadata = each["metadata"]
        if each["kind"] == "Service" and (metadata["namespace"], metadata["name"]) in services:
            each["spec"] = {"type": "ExternalName", "externalName": LOOPBACK}


def apply(plane: ControlPlane, objects: Sequence[Json]) -> None:
    """Apply objects, and wait until the kinds that they define are served."""
    document = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
    # Client-side apply keeps a copy in an annotation, which is too small for such definitions.
    plane.kubectl("apply", "--server-side", "-f", "-", stdin=document)
    if any(each["kind"] == "CustomResourceDefinition" for each in objects):
        plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")


def _webhook_clients(objects: Sequence[Json]) -> Iterator[Json]:
    for each in objects:
        if each["kind"].endswith("WebhookConfiguration"):
            yield from (webhook["clientConfig"] for webhook in each["webhooks"])
        elif each["kind"] == "CustomResourceDefinition":
            conversion = each["spec"].get("conversion", {})
            if conversion.get("strategy") == "Webhook":
                yield conversion["webhook"]["clientConfig"]


def _documents(text: str) -> list[Json]:
    return [each for each in yaml.safe_load_all(text) if each]
