"""Pods, step by step as an API server completes them. Facts observed from kube-apiserver v1.37."""

from __future__ import annotations

from typing import Final

import msgspec

from scheduler.api.pod import Pod
from scheduler.api.quantity import parse
from scheduler.api.requests import (
    is_huge_pages,
    is_pod_level_resource_name,
    pod_limits,
    pod_requests,
)
from scheduler.api.stored import limit_ranges, priorities, runtime_classes, selectors
from scheduler.api.stored.existing import Existing
from scheduler.api.stored.notes import JsonObject, Notes, containers_of, part

NOT_READY: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
TOLERATION_SECONDS: Final = 300
"""`--default-not-ready-toleration-seconds` and its sibling."""

REQUESTS: Final = "requests from limits"
HOST_PORTS: Final = "host ports of hostNetwork"
POD_LEVEL: Final = "pod-level requests and limits"
TOLERATIONS: Final = "default tolerations"
GROUP_DROPPED: Final = "spec.schedulingGroup dropped, as its gate GenericWorkload is off"


# -- default values --------------------------------------------------------------------------------


def default(pod: JsonObject, notes: Notes) -> None:
    """Fill in default values (`pkg/apis/core/v1/defaults.go: SetDefaults_Pod`)."""
    spec = part(pod, "spec")
    default_spec(spec)
    for container in containers_of(spec):
        _request_limits(container, notes)
    if spec.get("hostNetwork"):
        for container in containers_of(spec):
            _use_host_ports(container, notes)
    spec.setdefault("enableServiceLinks", True)


def default_spec(spec: JsonObject) -> None:
    """Fill in what pods and the templates of workloads have in common."""
    for container in containers_of(spec):
        _default_container(container)
    for volume in spec.get("volumes") or ():
        _default_volume(volume)
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec["schedulerName"] = spec.get("schedulerName") or "default-scheduler"
    if spec.get("serviceAccountName"):
        spec.setdefault("serviceAccount", spec["serviceAccountName"])


def _default_container(container: JsonObject) -> None:
    part(container, "resources")
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    if "imagePullPolicy" not in container:
        image = container.get("image") or ""
        tag = image.rpartition("/")[2].partition(":")[2]
        latest = tag in ("", "latest") and "@" not in image
        container["imagePullPolicy"] = "Always" if latest else "IfNotPresent"


def _default_volume(volume: JsonObject) -> None:
    template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
    if template is not None:
        part(template, "spec").setdefault("volumeMode", "Filesystem")
    if "rbd" in volume:
        volume["rbd"].setdefault("pool", "rbd")


def _request_limits(container: JsonObject, notes: Notes) -> None:
    resources = container["resources"]
    limits = resources.get("limits")
    if not limits:
        return
    requests = part(resources, "requests")
    for name, amount in limits.items():
        if name not in requests:
            requests[name] = amount
            notes.fill(REQUESTS)


def _use_host_ports(container: JsonObject, notes: Notes) -> None:
    for port in container.get("ports") or ():
        if not port.get("hostPort") and port.get("containerPort"):
            port["hostPort"] = port["containerPort"]
            notes.fill(HOST_PORTS)


# -- admission plugins -----------------------------------------------------------------------------


def admit(pod: JsonObject, existing: Existing, notes: Notes) -> None:
    """Do what is done to a new pod: admission plugins in their order, then the strategy."""
    spec = pod["spec"]
    limited = limit_ranges.admit(pod, existing, notes)
    priorities.admit(spec, existing, notes)
    tolerate(spec, notes)
    runtime_classes.admit(spec, existing, notes)
    drop_disabled(spec, existing, notes)
    selectors.merge_label_keys(pod, notes)
    _default_pod_level(spec, notes)
    if limited:
        # Whoever reads it back from etcd fills in default values again.
        default(pod, notes)


def _default_pod_level(spec: JsonObject, notes: Notes) -> None:
    """Fill in pod-level requests and limits (`pkg/api/pod/util.go: DefaultPodLevelResources`)."""
    stated = spec.get("resources")
    if not stated or not (stated.get("limits") or stated.get("requests")):
        return
    containers = {name: spec[name] for name in ("containers", "initContainers") if name in spec}
    alone = msgspec.convert({"spec": containers}, Pod, strict=False)
    limits, requests = stated.get("limits") or {}, stated.get("requests") or {}
    limited = pod_limits(alone)
    for name, amount in limited.items():
        if is_huge_pages(name) and name not in limits and name not in requests:
            limits[name] = amount.canonical()
            notes.fill(POD_LEVEL)
    _default_pod_requests(alone, limits, requests, notes)
    for name, amount in requests.items():
        everywhere = all(
            name in (each["resources"].get("limits") or ()) for each in containers_of(spec)
        )
        if everywhere and name not in limits and is_pod_level_resource_name(name):
            limits[name] = max(parse(amount), limited[name]).canonical()
            notes.fill(POD_LEVEL)
    stated.update({key: each for key, each in (("limits", limits), ("requests", requests)) if each})


def _default_pod_requests(
    alone: Pod, limits: JsonObject, requests: JsonObject, notes: Notes
) -> None:
    # Huge pages cannot be overcommitted: their requests are the limits.
    own = {
        name: amount.canonical()
        for name, amount in pod_requests(alone).items()
        if not is_huge_pages(name)
    }
    for name, amount in (*own.items(), *limits.items()):
        if name not in requests and is_pod_level_resource_name(name):
            requests[name] = amount
            notes.fill(POD_LEVEL)


def tolerate(spec: JsonObject, notes: Notes) -> None:
    """Let a pod stay on a node for a while after that is lost (DefaultTolerationSeconds)."""
    tolerations = spec.setdefault("tolerations", [])
    for key in NOT_READY:
        if not any(_covers(each, key) for each in tolerations):
            tolerations.append(
                {
                    "key": key,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": TOLERATION_SECONDS,
                }
            )
            notes.fill(TOLERATIONS)


def _covers(toleration: JsonObject, key: str) -> bool:
    return toleration.get("key", "") in ("", key) and toleration.get("effect", "") in (
        "",
        "NoExecute",
    )


def drop_disabled(spec: JsonObject, existing: Existing, notes: Notes) -> None:
    """Drop what a gate guards that is off (`pkg/api/pod/util.go: dropDisabledFields`)."""
    if "schedulingGroup" in spec and not existing.enabled("GenericWorkload"):
        del spec["schedulingGroup"]
        notes.fill(GROUP_DROPPED)
