"""Hostile volumes, claims, classes and CSI objects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from devtools.hostile.case import Dimension, HostileCase, JsonObject, Verdict
from devtools.hostile.cluster_cases import counted, long, odd
from devtools.hostile.parts import ODD_TEXTS, QUANTITIES, keys, labels, text, words
from devtools.hostile.templates import (
    csi_node,
    csi_storage_capacity,
    persistent_volume,
    persistent_volume_claim,
    storage_class,
    volume_attachment,
)

PVS: Final = "persistentvolumes"
PVCS: Final = "persistentvolumeclaims"
CAPACITIES: Final = "csistoragecapacities"


def storage_cases() -> Iterator[HostileCase]:
    """Objects of storage that are extreme in their spec."""
    yield counted(PVS, "node-affinity-terms", 7_000, _volume_terms)
    yield counted(PVS, "node-affinity-values", 100_000, _volume_values)
    yield counted(PVCS, "selector", 20_000, _claim_selector)
    yield counted("storageclasses", "topologies", 500, _topologies)
    yield counted("storageclasses", "topology-values", 100_000, _topology_values)
    yield counted("storageclasses", "parameters", 500, _parameters)
    yield counted("csinodes", "drivers", 9_000, _drivers)
    yield counted("csinodes", "topology-keys", 20_000, _topology_keys)
    yield counted(CAPACITIES, "topology", 20_000, _topology_labels)
    yield counted(CAPACITIES, "topology-values", 100_000, _capacity_values)
    yield long(PVS, "handle-long", _handle)
    yield long(PVS, "disk-name-long", _disk)
    yield long(PVCS, "storage-class-annotation-long", _class_annotation, full=250_000)
    yield long(PVCS, "selected-node-long", _selected_node, full=250_000)
    for name, amount in QUANTITIES.items():
        yield from _amounts(name, amount)
    for name, escapes in ODD_TEXTS.items():
        yield from _texts(name, escapes)
    yield from _types()


def _named(make: Callable[..., JsonObject], serial: int, *args: Any, **parts: Any) -> JsonObject:
    return make(f"odd-{serial:06d}", *args, **parts)


def _volume_terms(size: int, serial: int) -> JsonObject:
    terms = [{"matchExpressions": [{"key": key, "operator": "Exists"}]} for key in keys(size)]
    affinity = {"required": {"nodeSelectorTerms": terms}}
    return _named(persistent_volume, serial, nodeAffinity=affinity)


def _volume_values(size: int, serial: int) -> JsonObject:
    expression = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": words(size)}
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    return _named(persistent_volume, serial, nodeAffinity=affinity)


def _claim_selector(size: int, serial: int) -> JsonObject:
    return _named(persistent_volume_claim, serial, selector={"matchLabels": labels(size)})


def _topologies(size: int, serial: int) -> JsonObject:
    terms = [{"matchLabelExpressions": [{"key": "zone", "values": [word]}]} for word in words(size)]
    return _named(storage_class, serial, allowedTopologies=terms)


def _topology_values(size: int, serial: int) -> JsonObject:
    term = {"matchLabelExpressions": [{"key": "zone", "values": words(size)}]}
    return _named(storage_class, serial, allowedTopologies=[term])


def _parameters(size: int, serial: int) -> JsonObject:
    return _named(storage_class, serial, parameters=labels(size))


def _drivers(size: int, serial: int) -> JsonObject:
    drivers = [{"name": f"{word}.example", "nodeID": word} for word in words(size)]
    return _named(csi_node, serial, drivers)


def _topology_keys(size: int, serial: int) -> JsonObject:
    return _named(
        csi_node, serial, [{"name": "csi.example", "nodeID": "n", "topologyKeys": keys(size)}]
    )


def _topology_labels(size: int, serial: int) -> JsonObject:
    return _named(csi_storage_capacity, serial, nodeTopology={"matchLabels": labels(size)})


def _capacity_values(size: int, serial: int) -> JsonObject:
    expression = {"key": "zone", "operator": "In", "values": words(size)}
    topology = {"matchExpressions": [expression]}
    return _named(csi_storage_capacity, serial, nodeTopology=topology)


def _handle(size: int, serial: int) -> JsonObject:
    csi = {"driver": "csi.example", "volumeHandle": "x" * size}
    return _named(persistent_volume, serial, csi=csi)


def _disk(size: int, serial: int) -> JsonObject:
    made = _named(persistent_volume, serial, gcePersistentDisk={"pdName": "x" * size})
    del made["spec"]["csi"]
    return made


def _class_annotation(size: int, serial: int) -> JsonObject:
    made = _named(persistent_volume_claim, serial)
    del made["spec"]["storageClassName"]
    made["metadata"]["annotations"] = {"volume.beta.kubernetes.io/storage-class": "x" * size}
    return made


def _selected_node(size: int, serial: int) -> JsonObject:
    made = _named(persistent_volume_claim, serial)
    made["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": "x" * size}
    return made


def _amounts(name: str, amount: str) -> Iterator[HostileCase]:
    def volume(name: str) -> JsonObject:
        return persistent_volume(name, capacity={"storage": amount})

    def claim(name: str) -> JsonObject:
        return persistent_volume_claim(name, resources={"requests": {"storage": amount}})

    def capacity(name: str) -> JsonObject:
        return csi_storage_capacity(name, capacity=amount, maximumVolumeSize=amount)

    # A volume and a claim of nothing are refused, and a volume that overflows to less.
    nothing = Verdict.REFUSED if name == "zero" else Verdict.STORED
    negative = Verdict.REFUSED if name in ("beyond-int64", "digits-400") else nothing
    yield odd(PVS, f"capacity-{name}", Dimension.NUMBERS, volume, negative)
    yield odd(PVCS, f"request-{name}", Dimension.NUMBERS, claim, nothing)
    yield odd(CAPACITIES, f"capacity-{name}", Dimension.NUMBERS, capacity)


def _texts(name: str, escapes: str) -> Iterator[HostileCase]:
    def volume(name: str) -> JsonObject:
        csi = {"driver": "csi.example", "volumeHandle": text(escapes)}
        return persistent_volume(name, csi=csi)

    def claim(name: str) -> JsonObject:
        made = persistent_volume_claim(name)
        made["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": text(escapes)}
        return made

    def csi(name: str) -> JsonObject:
        return csi_node(name, [{"name": "csi.example", "nodeID": text(escapes)}])

    yield odd(PVS, f"handle-{name}", Dimension.TEXT, volume)
    yield odd(PVCS, f"selected-node-{name}", Dimension.TEXT, claim)
    yield odd("csinodes", f"node-id-{name}", Dimension.TEXT, csi)


def _types() -> Iterator[HostileCase]:
    def given(make: Callable[..., JsonObject], **parts: Any) -> Callable[[str], JsonObject]:
        return lambda name: make(name, **parts)

    def no_drivers(name: str) -> JsonObject:
        return {**csi_node(name), "spec": {"drivers": None}}

    def count_of(count: object) -> Callable[[str], JsonObject]:
        driver = {"name": "csi.example", "nodeID": "n", "allocatable": {"count": count}}
        return lambda name: csi_node(name, [driver])

    def inline(name: str) -> JsonObject:
        spec = persistent_volume(name, capacity=None)["spec"]
        return volume_attachment(name, source={"inlineVolumeSpec": spec})

    types, numbers = Dimension.TYPES, Dimension.NUMBERS
    yield odd("csinodes", "null-drivers", types, no_drivers)
    yield odd("csinodes", "null-count", types, count_of(None))
    yield odd("csinodes", "count-max", numbers, count_of((1 << 31) - 1))
    yield odd("csinodes", "count-negative", numbers, count_of(-1), Verdict.REFUSED)
    yield odd("csinodes", "count-beyond", numbers, count_of(1 << 40), Verdict.REFUSED)
    yield odd("csinodes", "count-text", types, count_of("many"), Verdict.REFUSED)
    yield odd(PVCS, "null-class", types, given(persistent_volume_claim, storageClassName=None))
    yield odd(PVCS, "empty-class", types, given(persistent_volume_claim, storageClassName=""))
    yield odd(PVS, "null-affinity", types, given(persistent_volume, nodeAffinity=None))
    yield odd(CAPACITIES, "null-topology", types, given(csi_storage_capacity, nodeTopology=None))
    yield odd(CAPACITIES, "null-capacity", types, given(csi_storage_capacity, capacity=None))
    yield odd("volumeattachments", "inline", types, inline)
    yield odd("storageclasses", "null-mode", types, given(storage_class, volumeBindingMode=None))
