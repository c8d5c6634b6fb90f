"""Demands of pods: CPUs, memory and devices that must come from one NUMA zone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from plugins.extra.numa_aware.topology import CONTAINER, amount, is_native
from scheduler.api import Container, Pod, incoming_requests, parse_quantity

Amounts = Mapping[str, int]
"""Resource to amount: millicores of CPU, whole units of everything else."""


class ZoneRequest(NamedTuple):
    """Amounts that one container, or the whole pod, wants from one zone."""

    amounts: Amounts
    #: False for an init container, whose resources are free again when the others start.
    stays: bool = True


class ZoneDemand(NamedTuple):
    """The requests of a pod, by the scope of its node."""

    containers: tuple[ZoneRequest, ...]
    pod: tuple[ZoneRequest, ...]

    def requests(self, scope: int) -> tuple[ZoneRequest, ...]:
        """Return what is placed one after the other."""
        return self.containers if scope == CONTAINER else self.pod

    def exclusive(self) -> Amounts:
        """Return what the kubelet takes from a zone for good; empty: the object never shows it.

        These are whole CPUs and devices, and then the memory beside them.
        """
        total: dict[str, int] = {}
        for each in self.containers:
            for name, wanted in each.amounts.items() if each.stays else ():
                total[name] = total.get(name, 0) + wanted
        cpus = sum(
            each.amounts.get("cpu", 0)
            for each in self.containers
            if each.stays and each.amounts.get("cpu", 0) % 1000 == 0
        )
        total["cpu"] = cpus
        devices = any(not is_native(name) for name in total)
        return {name: each for name, each in total.items() if each} if cpus or devices else {}


def demand_of(pod: Pod) -> ZoneDemand | None:
    """Return what a pod wants from zones; None: every zone will do.

    Only pods of the QoS class Guaranteed get CPUs and memory of a zone, and every pod its devices.
    """
    spec = pod.spec
    guaranteed = _guaranteed((*spec.init_containers, *spec.containers))
    requests = [
        *(
            ZoneRequest(_wanted(each, guaranteed), each.restart_policy == "Always")
            for each in spec.init_containers
        ),
        *(ZoneRequest(_wanted(each, guaranteed)) for each in spec.containers),
    ]
    requests = [each for each in requests if each.amounts]
    if not requests:
        return None
    whole = incoming_requests(pod)
    total = {"cpu": whole.milli_cpu, "memory": whole.memory, **dict(whole.scalars)}
    wanted = {name: each for name, each in total.items() if each and _counts(name, guaranteed)}
    return ZoneDemand(tuple(requests), (ZoneRequest(wanted),))


def _guaranteed(containers: Iterable[Container]) -> bool:
    """Whether every container requests CPU and memory, and as much as its limits."""
    for each in containers:
        requests, limits = each.resources.requests, each.resources.limits
        for name in ("cpu", "memory"):
            limit = parse_quantity(limits.get(name, 0))
            if not limit or parse_quantity(requests.get(name, limits.get(name, 0))) != limit:
                return False
    return True


def _wanted(container: Container, guaranteed: bool) -> Amounts:
    """Return the amounts that must come from one zone."""
    stated = {**container.resources.limits, **container.resources.requests}
    found = {name: amount(name, raw) for name, raw in stated.items() if _counts(name, guaranteed)}
    return {name: wanted for name, wanted in found.items() if wanted > 0}


def _counts(resource: str, guaranteed: bool) -> bool:
    if resource in ("ephemeral-storage", "storage", "pods"):
        return False
    return guaranteed or not is_native(resource)
