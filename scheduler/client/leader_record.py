"""The address of the leader: an annotation on its Lease that only the leader writes.

`kubestow explain` and the like read it, connect to the pod through the API server, and accept the
one certificate whose hash is published here. So the right to update the Lease decides whom they
trust; whoever has it could make itself the leader as well. Nothing in the annotation is secret. Of
a process outside of the cluster they show the address, and connect to none on another machine.

The annotation names the holder it belongs to. A process that takes the Lease over and does not know
the annotation leaves it as it is; a reader then sees another holder in the spec, and ignores it.

Who may update Leases may be somebody who may do nothing else in the namespace. A reader therefore
checks an address (`address_faults`) before any part of it gets into a request: it names one pod of
the namespace of the Lease, one port, and one certificate.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any, Final

import msgspec

from scheduler.client.structs import complete
from scheduler.sanitizing.names import is_namespace_name, is_object_name

ANNOTATION: Final = "kubestow.io/leader"

MAX_PORT: Final = 65535
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


class LeaderRecord(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The value of the annotation, as JSON."""

    #: `holderIdentity` of the Lease.
    holder: str
    #: `namespace/name`; empty for a process outside of the cluster.
    pod: str = ""
    #: The host of a process outside of the cluster, a name or an address; empty for a pod.
    host: str = ""
    #: Where the pod or the host serves HTTPS; 0 for nowhere.
    port: int = 0
    #: Hash of the serving certificate (DER), in lower-case hexadecimal digits.
    certificate_sha256: str = msgspec.field(default="", name="certificateSHA256")

    @property
    def reachable(self) -> bool:
        """Whether the record says where to connect and which certificate to find there."""
        return bool((self.pod or self.host) and self.port and self.certificate_sha256)

    @property
    def address(self) -> str:
        """`host:port` of a process outside of the cluster, with brackets for IPv6."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def name(self) -> str:
        """The leader as the subject of a sentence."""
        return f"the leader, pod {self.pod}," if self.pod else f"the leader at {self.address}"


complete(LeaderRecord)


class LeaderAddress:
    """The part of the record that this process publishes when it leads.

    The event loop of the process sets the attributes, that of the Lease reads them: each is
    replaced as a whole, and an outdated one is replaced by the next renewal.
    """

    def __init__(self, pod: str = "", host: str = "") -> None:
        """Prepare; `pod` is our own, as `namespace/name`, or else `host` our host's name."""
        self.pod = pod
        self.host = host
        self.port = 0
        self.certificate_sha256 = ""

    def annotated(self, lease: Mapping[str, Any]) -> dict[str, Any]:
        """Return the Lease with our record as its annotation; without one if nobody holds it."""
        metadata = dict(lease.get("metadata") or {})
        annotations = dict(metadata.get("annotations") or {})
        holder = (lease.get("spec") or {}).get("holderIdentity")
        if holder:
            record = LeaderRecord(
                str(holder), self.pod, self.host, self.port, self.certificate_sha256
            )
            annotations[ANNOTATION] = msgspec.json.encode(record).decode()
        else:
            annotations.pop(ANNOTATION, None)
        return {**lease, "metadata": {**metadata, "annotations": annotations}}


def leader_of(lease: Mapping[str, Any]) -> LeaderRecord | None:
    """Return the record of the Lease's holder.

    None if nobody holds the Lease. A holder that publishes nothing, or something else than such a
    record, has a record with nothing but its identity.
    """
    spec, metadata = lease.get("spec"), lease.get("metadata")
    holder = spec.get("holderIdentity") if isinstance(spec, Mapping) else None
    if not holder:
        return None
    annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    text = annotations.get(ANNOTATION, "") if isinstance(annotations, Mapping) else ""
    try:
        record = msgspec.json.decode(text, type=LeaderRecord)
    except (ValueError, TypeError, RecursionError):
        return LeaderRecord(str(holder))
    return record if record.holder == holder else LeaderRecord(str(holder))


def address_faults(record: LeaderRecord, namespace: str) -> list[str]:
    """Return the reasons not to use the address of a record; empty if it can be used.

    `namespace` is that of the Lease. A leader in another one is refused as well: whoever may only
    write Leases could otherwise have the questions, and the credentials with them, sent to a pod
    of their own.

    >>> good = LeaderRecord("me", "system/kubestow-1", port=1, certificate_sha256="ab" * 32)
    >>> address_faults(good, "system")
    []
    >>> address_faults(msgspec.structs.replace(good, pod="system/../x", port=70000), "system")
    ["the pod 'system/../x' is no NAMESPACE/NAME", 'the port 70000 is none from 1 to 65535']
    """
    faults = []
    of, _, name = record.pod.partition("/")
    if record.host and not record.pod:
        if not _is_host(record.host):
            faults.append(f"the host {_quoted(record.host)} is neither a name nor an address")
    elif not (is_namespace_name(of) and is_object_name(name)):
        faults.append(f"the pod {_quoted(record.pod)} is no NAMESPACE/NAME")
    elif of != namespace:
        faults.append(f"the pod {_quoted(record.pod)} is not in namespace {namespace}")
    if not 1 <= record.port <= MAX_PORT:
        faults.append(f"the port {record.port} is none from 1 to {MAX_PORT}")
    if _SHA256.fullmatch(record.certificate_sha256) is None:
        hash_ = _quoted(record.certificate_sha256)
        faults.append(f"the hash {hash_} is no SHA-256 in lower-case hexadecimal digits")
    return faults


def _is_host(text: str) -> bool:
    if is_object_name(text.lower()):
        return True
    try:
        ip_address(text)
    except ValueError:
        return False
    # The zone of an address is any text, and means nothing on another machine.
    return "%" not in text


def _quoted(text: str) -> str:
    """Quote a text of the annotation, shortened; nothing in it controls a terminal."""
    return repr(text[:80])
