"""Host ports of pods, and their conflicts (upstream: `types.go: HostPortInfo`).

Container ports without a host port do not appear here. As upstream, `::` is an ordinary address,
not a wildcard.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from scheduler.api.pod import ContainerPort, PodSpec

ANY_IP: Final = "0.0.0.0"  # noqa: S104 - a value to compare with, nothing is bound
DEFAULT_PROTOCOL: Final = "TCP"


class HostPort(NamedTuple):
    """A normalised claim on a port of the node."""

    ip: str
    protocol: str
    port: int


def host_port(ip: str, protocol: str, port: int) -> HostPort | None:
    """Normalise one claim: defaults for empty address and protocol; None for no port."""
    return HostPort(ip or ANY_IP, protocol or DEFAULT_PROTOCOL, port) if port > 0 else None


def host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    """Return distinct host ports of restartable init containers and containers, in pod order."""
    found: dict[HostPort, None] = {}
    for container in spec.init_containers:
        if container.restart_policy == "Always":
            _collect(found, container.ports)
    for container in spec.containers:
        _collect(found, container.ports)
    return tuple(found)


def conflicts(used: Collection[HostPort], wanted: HostPort) -> bool:
    """Whether `wanted` is taken: same protocol, port and address, or either one's wildcard."""
    return any(
        each.port == wanted.port
        and each.protocol == wanted.protocol
        and (each.ip == wanted.ip or ANY_IP in (each.ip, wanted.ip))
        for each in used
    )


def _collect(found: dict[HostPort, None], ports: tuple[ContainerPort, ...]) -> None:
    for each in ports:
        claim = host_port(each.host_ip, each.protocol, each.host_port)
        if claim is not None:
            found[claim] = None
