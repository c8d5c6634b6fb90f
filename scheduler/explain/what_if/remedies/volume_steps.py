"""Steps for rejections by volumes: claims, classes, the place of a volume, limits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from scheduler.api.node import Node
from scheduler.api.pod import Pod
from scheduler.api.storage import CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass
from scheduler.explain.owners import owner_of
from scheduler.explain.records import Change, Code, Step
from scheduler.explain.what_if.changes import JsonObject, as_json, pointer
from scheduler.explain.what_if.remedies.node_steps import fewest, label_for_term, label_steps
from scheduler.explain.what_if.remedies.situation import Situation, evictions, names

WAITING: Final = "WaitForFirstConsumer"
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
NEW_CLASS: Final = "wait-for-first-consumer"
NEW_PROVISIONER: Final = "example.com/provisioner"
AFTERWARDS: Final = "the volume must then be provisioned"
_NEW_CLASS: Final = {"provisioner": NEW_PROVISIONER, "volumeBindingMode": WAITING}
_ZONES: Final = (
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)
_DISKS: Final = ("gcePersistentDisk", "awsElasticBlockStore", "iscsi", "rbd")
MAX_EVICTED: Final = 20


def volumes(situation: Situation) -> Iterator[Step]:
    """Move the node into the reach of the volumes, mend the claims, or do without a volume."""
    found = list(_claims(situation))
    node = situation.node
    if node is not None:
        yield from _labels(situation, node, [claim for _, claim in found])
        yield from _limits(situation, node)
        yield from _rivals(situation, node)
    for _, claim in found:
        yield from _bind_mode(situation, claim)
        yield from _class_made(situation, claim)
    missing = [name for name, claim in found if claim is None]
    bad = [name for name, claim in found if claim is not None]
    meant = situation.meant("PersistentVolumeClaim", missing)
    yield from _named_otherwise(situation, meant)
    if missing:
        # With a similar name, the pod may wait all the same: that is a step of its own.
        after = "" if meant else ", or correct the name in the pod"
        yield from _claims_made(situation, missing, Code.CREATE_CLAIM, 5.0, after)
    if bad:
        after = _templates(situation, bad)
        yield from _claims_made(situation, bad, Code.REPLACE_CLAIM, 8.0, after)
    yield from _dropped(situation)


def _claims(situation: Situation) -> Iterator[tuple[str, PersistentVolumeClaim | None]]:
    """Yield the name of each claim of the pod, and the claim."""
    metadata = situation.pod.metadata
    for volume in situation.spec.get("volumes", []):
        source = volume.get("persistentVolumeClaim")
        name = f"{metadata.name}-{volume['name']}" if "ephemeral" in volume else ""
        if source is not None:
            name = source.get("claimName", "")
        if name:
            yield (
                name,
                situation.trial.find("PersistentVolumeClaim", f"{metadata.namespace}/{name}"),
            )


def _labels(
    situation: Situation, node: Node, claims: list[PersistentVolumeClaim | None]
) -> Iterator[Step]:
    """Give the node the labels that the volumes of bound claims demand."""
    wanted: dict[str, str | None] = {}
    for claim in claims:
        name = "" if claim is None else claim.spec.volume_name
        volume: PersistentVolume | None = None
        if name:
            volume = situation.trial.find("PersistentVolume", name)
        if volume is None:
            continue
        merged = {k: v for k, v in {**node.metadata.labels, **wanted}.items() if v is not None}
        for key in _ZONES:
            zones = (volume.metadata.labels.get(key) or "").split("__")
            if zones[0] and merged.get(key) not in zones:
                wanted[key] = merged[key] = zones[0]
        affinity = volume.spec.node_affinity
        if affinity is None or affinity.required is None:
            continue
        terms = affinity.required.node_selector_terms
        options = [label_for_term(term, merged, node.name) for term in terms]
        possible = [each for each in options if each is not None]
        if possible:
            wanted |= fewest(possible)
    yield from label_steps(node, wanted)


def _limits(situation: Situation, node: Node) -> Iterator[Step]:
    """Raise the volume limits of the node, or evict pods with volumes."""
    if "max volume count" not in situation.reasons:
        return
    csi: CSINode | None = situation.trial.find("CSINode", node.name)
    if csi is not None:
        drivers = as_json(csi)["spec"]["drivers"]
        for each in drivers:
            if "allocatable" in each:
                each["allocatable"] = {"count": each["allocatable"].get("count", 0) + 8}
        change = Change("set", "CSINode", node.name, pointer("spec", "drivers"), drivers)
        text = f"raise the limit of volumes of node {node.name}"
        yield Step(Code.RAISE_VOLUME_LIMIT, text, (change,), 6.5, node.name)
    holders = [each for each in situation.evictable() if each.signature.volumes]
    yield from _evicted(holders, node)


def _rivals(situation: Situation, node: Node) -> Iterator[Step]:
    """Evict the pods that use the same disk, or a claim that only one pod may use."""
    reasons = situation.reasons
    if "no available disk" in reasons:
        holders = [
            pod
            for pod in situation.evictable()
            if any(set(_DISKS) & set(each) for each in _volumes_of(pod))
        ]
        yield from _evicted(holders, node)
    if "ReadWriteOncePod" in reasons:
        mine = {name for name, _ in _claims(situation)}
        namespace = situation.pod.metadata.namespace
        table = situation.table
        users = [
            pod
            for row in range(len(table.pods))
            for pod in table.pods[row].values()
            if pod.metadata.namespace == namespace
            and pod.signature.volumes
            and not mine.isdisjoint(pod.signature.claims)
        ]
        yield from _evicted(users, node)


def _evicted(pods: list[Pod], node: Node) -> Iterator[Step]:
    if 0 < len(pods) <= MAX_EVICTED:
        pods.sort(key=lambda each: each.key)
        text = f"evict {names(pods)}, for the sake of the volumes"
        yield Step(Code.EVICT_PODS, text, evictions(pods), 7.0 + len(pods), node.name)


def _volumes_of(pod: Pod) -> list[JsonObject]:
    found: list[JsonObject] = as_json(pod).get("spec", {}).get("volumes", [])
    return found


# -- claims and classes --------------------------------------------------------------------------


def _bind_mode(situation: Situation, claim: PersistentVolumeClaim | None) -> Iterator[Step]:
    """Let the class of an unbound claim wait for its first consumer."""
    if claim is None or claim.spec.volume_name or "immediate" not in situation.reasons:
        return
    name = claim.spec.storage_class_name or ""
    known: StorageClass | None = situation.trial.find("StorageClass", name) if name else None
    if known is not None and known.volume_binding_mode != WAITING:
        path = pointer("volumeBindingMode")
        change = Change("set", "StorageClass", name, path, WAITING)
        after = "" if known.provisioner == NO_PROVISIONER else f" ({AFTERWARDS})"
        text = f"let storage class {name} bind with {WAITING}{after}"
        yield Step(Code.CHANGE_BIND_MODE, text, (change,), 5.5)


def _class_made(situation: Situation, claim: PersistentVolumeClaim | None) -> Iterator[Step]:
    """Create the class that an unbound claim names."""
    name = "" if claim is None or claim.spec.volume_name else claim.spec.storage_class_name
    if name and situation.trial.find("StorageClass", name) is None:
        made = {**_NEW_CLASS, "metadata": {"name": name}}
        change = Change("add", "StorageClass", name, value=made)
        text = f"create storage class {name} ({AFTERWARDS})"
        yield Step(Code.CREATE_STORAGE_CLASS, text, (change,), 4.0)


def _named_otherwise(situation: Situation, meant: dict[str, str]) -> Iterator[Step]:
    """Name claims that exist, in place of those with similar names that do not."""
    volumes = situation.spec.get("volumes", [])
    for index, each in enumerate(volumes):
        name = (each.get("persistentVolumeClaim") or {}).get("claimName", "")
        if near := meant.get(name):
            path = pointer("spec", "volumes", index, "persistentVolumeClaim", "claimName")
            text = f"name claim {near} instead of {name} in volume {each['name']}"
            yield Step(Code.CORRECT_VALUE, text, (situation.set_pod(path, near),), 1.9)


def _templates(situation: Situation, claims: list[str]) -> str:
    """Return what else has to change, if a StatefulSet makes the claims of its pods."""
    owner, pod = owner_of(situation.pod, "StatefulSet"), situation.pod.metadata.name
    if not owner.startswith("StatefulSet/") or not all(e.endswith(f"-{pod}") for e in claims):
        return ""
    return f", and create {owner} anew with that class in its volumeClaimTemplates"


def _claims_made(
    situation: Situation, claims: list[str], code: Code, cost: float, after: str
) -> Iterator[Step]:
    """Create claims, or replace them, of each class that provisions once a pod is placed."""
    creates = code is Code.CREATE_CLAIM
    namespace = situation.pod.metadata.namespace
    stores = situation.trial.objects("StorageClass")
    classes = [
        each.metadata.name
        for each in stores
        if each.volume_binding_mode == WAITING and each.provisioner != NO_PROVISIONER
    ]
    named = _named(situation)
    wanted = [] if creates else _absent_classes(situation)
    meant = situation.meant("StorageClass", wanted).values()
    what = "create" if creates else "replace"
    shown = ", ".join(claims)
    for name in sorted(classes)[:4]:
        changes = tuple(_claim(namespace, each, name, situation, named) for each in claims)
        text = f"{what} claim {shown}, of storage class {name} ({AFTERWARDS}){after}"
        # One whose name is similar to that of an absent one is likely to be meant.
        yield Step(code, text, changes, 3.9 if name in meant else cost)
    made = {**_NEW_CLASS, "metadata": {"name": NEW_CLASS}}
    added = Change("add", "StorageClass", NEW_CLASS, value=made)
    changes = tuple(_claim(namespace, each, NEW_CLASS, situation, named) for each in claims)
    text = (
        f"create a storage class that binds with {WAITING}, and {what} claim {shown} with it "
        f"({AFTERWARDS}){after}"
    )
    yield Step(Code.CREATE_STORAGE_CLASS, text, (added, *changes), cost + 2.0)


def _absent_classes(situation: Situation) -> list[str]:
    """Return the classes that unbound claims of the pod name and that do not exist."""
    specs = [each.spec for _, each in _claims(situation) if each is not None]
    names = {each.storage_class_name or "" for each in specs if not each.volume_name} - {""}
    return [each for each in sorted(names) if situation.trial.find("StorageClass", each) is None]


def _claim(
    namespace: str, name: str, storage_class: str, situation: Situation, named: set[str]
) -> Change:
    known: PersistentVolumeClaim | None = situation.trial.find(
        "PersistentVolumeClaim", f"{namespace}/{name}"
    )
    metadata: JsonObject = {"name": name, "namespace": namespace}
    amount: Any = "1Gi"
    modes: list[str] = ["ReadWriteOnce"]
    if known is not None:
        found = as_json(known)
        amount = found["spec"].get("resources", {}).get("requests", {}).get("storage", amount)
        modes = found["spec"].get("accessModes", modes)
        owners = found["metadata"].get("ownerReferences")
        if owners:
            metadata["ownerReferences"] = owners
    elif name not in named:
        # Of an ephemeral volume: its controller makes the claim, owned by the pod.
        pod = situation.pod.metadata
        metadata["ownerReferences"] = [
            {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid,
             "controller": True}
        ]  # fmt: skip
    spec = {
        "accessModes": modes,
        "resources": {"requests": {"storage": amount}},
        "storageClassName": storage_class,
    }
    value = {"metadata": metadata, "spec": spec}
    return Change("add", "PersistentVolumeClaim", f"{namespace}/{name}", value=value)


def _named(situation: Situation) -> set[str]:
    """Return the claims that the pod names."""
    return {
        (each.get("persistentVolumeClaim") or {}).get("claimName", "")
        for each in situation.spec.get("volumes", [])
    }


def _dropped(situation: Situation) -> Iterator[Step]:
    """Do without the volumes that restrict the pod."""
    every = situation.spec.get("volumes", [])
    if not every:
        return
    held = [
        each
        for each in every
        if set(each) & {"persistentVolumeClaim", "ephemeral", "csi", *_DISKS} or len(each) < 2
    ] or every
    left = [each for each in every if each not in held]
    text = f"do without volume {', '.join(each['name'] for each in held)}"
    yield Step(Code.DROP_VOLUME, text, (situation.set_pod("/spec/volumes", left),), 9.0)
