"""Encoding of typed objects for a bundle.

Invariant: a bundle contains no Secrets, environment variables, arguments or commands. The scheduler
watches no Secrets and decodes only fields that scheduling reads. This module also drops all
annotations except those of Kubernetes and kubestow that scheduling reads, the parameters of device
drivers, and redacts strings that look like credentials.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec

from scheduler.api.devices import OpaqueConfiguration
from scheduler.api.meta import Condition, Object, ObjectMeta
from scheduler.api.pod import Pod
from scheduler.api.signatures.encodable import encodable
from scheduler.client.resources import (
    DEVICE_CLASSES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    Resource,
)
from scheduler.sanitizing.redaction import redact_message

KEPT_DOMAINS: Final = ("kubernetes.io", "k8s.io", "kubestow.io")
"""Domains, with their subdomains, of annotations that scheduling reads."""

LEFT_OUT_DOMAINS: Final = ("kubectl.kubernetes.io",)
"""Domains of annotations that are dropped nevertheless: `last-applied-configuration` is a copy of
the whole object, including environment variables."""

MAX_ANNOTATION: Final = 4096
"""Maximum characters of an annotation that is kept."""

ANNOTATIONS_LEFT_OUT: Final = (
    "annotations outside of kubernetes.io, k8s.io and kubestow.io are left out, except those named "
    "by --annotation: a plugin that reads others decides differently"
)

_WITH_PARAMETERS: Final = (RESOURCE_CLAIMS, RESOURCE_CLAIM_TEMPLATES, DEVICE_CLASSES)
"""Resources with parameters for device drivers."""


def encode_object(
    resource: Resource[Any], item: Any, kept_annotations: Collection[str] = ()
) -> bytes:
    """Return the JSON of an object without content that must not leave the cluster."""
    metadata = kept_metadata(item.metadata, kept_annotations)
    if resource is PODS:
        item = _plain_pod(item, metadata)
    elif resource in _WITH_PARAMETERS:
        item = _without_parameters(msgspec.structs.replace(item, metadata=metadata))
    elif metadata is not item.metadata:
        item = msgspec.structs.replace(item, metadata=metadata)
    return resource.encode(item)


def _plain_pod(pod: Pod, metadata: ObjectMeta) -> Pod:
    status = pod.status
    if status.conditions or status.message:
        status = msgspec.structs.replace(
            status,
            message=redact_message(status.message),
            conditions=tuple(map(_redacted, status.conditions)),
        )
    return encodable(msgspec.structs.replace(pod, metadata=metadata, status=status))


def _without_parameters(value: Any) -> Any:
    """Return a value of the device API without what is only for drivers, who keep keys in it."""
    if isinstance(value, OpaqueConfiguration):
        return OpaqueConfiguration(driver=value.driver)
    if isinstance(value, tuple):
        return tuple(map(_without_parameters, value))
    if not isinstance(value, Object):
        return value
    fields = {name: getattr(value, name) for name in value.__struct_fields__}
    changed = {
        name: plain
        for name, before in fields.items()
        if isinstance(before, tuple | Object)
        and (plain := _without_parameters(before)) is not before
    }
    return msgspec.structs.replace(value, **changed) if changed else value


def _redacted(condition: Condition) -> Condition:
    if not condition.message:
        return condition
    return msgspec.structs.replace(condition, message=redact_message(condition.message))


def kept_metadata(metadata: ObjectMeta, kept: Collection[str]) -> ObjectMeta:
    """Return metadata without annotations whose content is unknown."""
    annotations = metadata.annotations
    left = {key: value for key, value in annotations.items() if _stays(key, value, kept)}
    if len(left) == len(annotations):
        return metadata
    return msgspec.structs.replace(metadata, annotations=left)


def _stays(key: str, value: str, kept: Collection[str]) -> bool:
    if len(value) > MAX_ANNOTATION:
        return False
    if key in kept:
        return True
    domain = key.partition("/")[0]
    return in_domains(domain, KEPT_DOMAINS) and not in_domains(domain, LEFT_OUT_DOMAINS)


def in_domains(name: str, domains: Collection[str]) -> bool:
    """Whether a DNS name equals one of the domains, or is a subdomain of one.

    >>> [in_domains(each, ("k8s.io",)) for each in ("k8s.io", "node.k8s.io", "notk8s.io")]
    [True, True, False]
    """
    return any(name == each or name.endswith(f".{each}") for each in domains)


def without_secrets(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration without connections to other systems: addresses, files, extenders.

    `configuration` is the content of `/configz`, which has no passwords and keys.
    """
    left = {key: value for key, value in configuration.items() if key not in _CONNECTING}
    own = left.get("kubestow")
    if isinstance(own, Mapping):
        left["kubestow"] = {key: value for key, value in own.items() if key != "tracing"}
    return left


_CONNECTING: Final = ("clientConnection", "extenders", "leaderElection")
