"""The API server's audit log, read as it grows: who bound which pod, and who held the Lease when.

The log is written before a response is sent, so a bind that a client saw succeed is in it. One that
was carried out while the API server was killed has its first stage only.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

LEASE_NAME: Final = "kubestow"

POLICY: Final = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "rules": [
        {
            "level": "Request",
            "verbs": ["create"],
            "resources": [{"group": "", "resources": ["pods/binding"]}],
        },
        {
            "level": "Request",
            "verbs": ["create", "update"],
            "resources": [{"group": "coordination.k8s.io", "resources": ["leases"]}],
        },
        {"level": "None"},
    ],
}


@dataclass(frozen=True, slots=True)
class Bind:
    """A Binding that the API server accepted."""

    pod: str
    node: str
    user: str
    received: str
    """Time of the request, RFC 3339 with microseconds: such texts sort as the times do."""


class AuditLog:
    """The events of an audit log so far; `read` adds those written since."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0
        #: By "namespace/name"; names are never used twice.
        self.binds: dict[str, list[Bind]] = defaultdict(list)
        #: Pods for which a Binding was received, whatever became of it.
        self.requested: set[str] = set()
        #: Successful writes of the Lease, in order: time of the response, user, holder.
        self.lease_writes: list[tuple[str, str, str]] = []
        self.conflicts = 0

    @property
    def leader(self) -> str:
        """The user who holds the Lease, "" while it is free."""
        if not self.lease_writes:
            return ""
        _, user, holder = self.lease_writes[-1]
        return user if holder else ""

    @property
    def takeovers(self) -> int:
        """Return the number of changes of the Lease's holder."""
        users = [user for _, user, holder in self.lease_writes if holder]
        return sum(a != b for a, b in pairwise(users))

    def read(self) -> None:
        """Take in every complete line that was added."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._position)
            data = file.read()
        complete = data.rfind(b"\n") + 1
        self._position += complete
        self.add(json.loads(line) for line in data[:complete].splitlines() if line)

    def add(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Take in audit events."""
        for event in events:
            reference = event["objectRef"]
            if reference.get("subresource") == "binding":
                self._add_bind(event, f"{reference['namespace']}/{reference['name']}")
            elif event["stage"] == "ResponseComplete" and _succeeded(event):
                self._add_lease_write(event)

    def _add_lease_write(self, event: Mapping[str, Any]) -> None:
        lease = event["requestObject"]
        if lease["metadata"]["name"] == LEASE_NAME:
            holder = lease["spec"].get("holderIdentity") or ""
            self.lease_writes.append((event["stageTimestamp"], event["user"]["username"], holder))

    def _add_bind(self, event: Mapping[str, Any], pod: str) -> None:
        self.requested.add(pod)
        if event["stage"] != "ResponseComplete":
            return
        if not _succeeded(event):
            self.conflicts += event["responseStatus"]["code"] == HTTPStatus.CONFLICT
            return
        node = event["requestObject"]["target"]["name"]
        user = event["user"]["username"]
        self.binds[pod].append(Bind(pod, node, user, event["requestReceivedTimestamp"]))

    def problems(self) -> list[str]:
        """Pods bound twice, and binds by a replica that did not hold the Lease."""
        twice = [pod for pod, binds in self.binds.items() if len(binds) > 1]
        problems = [f"bound {len(self.binds[pod])} times: {pod}" for pod in twice]
        every = (bind for binds in self.binds.values() for bind in binds)
        for bind in every:
            holder = self._holder_at(bind.received)
            if holder != bind.user:
                who = holder or "no user"
                problems.append(f"{bind.pod} bound by {bind.user} while {who} held the Lease")
        return problems

    def _holder_at(self, time: str) -> str:
        for written, user, holder in reversed(self.lease_writes):
            if written <= time:
                return user if holder else ""
        return ""


def _succeeded(event: Mapping[str, Any]) -> bool:
    code: int = event["responseStatus"]["code"]
    return code < HTTPStatus.BAD_REQUEST
