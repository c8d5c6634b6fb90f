"""The part of `kubestow check` about what is installed: who leads, and why replicas do not run.

It reads the Lease, and the pods of its namespace. Who may not read them is told nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from scheduler.api.policy import LeaseSpec
from scheduler.cli.hints import kubectl
from scheduler.cli.pod_format import one_line
from scheduler.client.resources import LEASES
from scheduler.explain.records.wording import shortened, span

if TYPE_CHECKING:
    from scheduler.client.rest import ApiClient
    from scheduler.framework import Permission

JsonObject = Mapping[str, Any]

MAX_PODS: Final = 20
MAX_LINES: Final = 5
MAX_TEXT: Final = 300
STALE_SECONDS: Final = 120.0
"""Age of the last renewal from which on nobody leads, whatever the clocks of two machines say."""

PAGE: Final = "docs/install.md has the usual mistakes, and what to do."
NOTHING: Final = "Nobody has led here yet: there is no Lease {lease}."
LOCAL: Final = "Process {pid} of yours on this machine schedules without a Lease, at {url}."
NOBODY: Final = "Nobody leads: the Lease {lease} has no holder that has renewed it."
STALE: Final = "Nobody leads: {holder} has not renewed the Lease {lease} for {age}."
LEADS: Final = "{holder} leads: it renewed the Lease {lease} {age} ago."
NO_IMAGE: Final = (
    "Pod {pod} waits for its image {image} ({reason}): load it into every node, or name the one in "
    "your registry."
)
ENDS: Final = "Pod {pod} ends again and again: {kubectl} -n {namespace} logs {name} --previous"
OTHER: Final = "Pod {pod} does not run: {reason}: {message}"
NOT_READY: Final = (
    "Pod {pod} runs and is not ready, since {time}; {kubectl} -n {namespace} logs {name} says why, "
    "unless it has just started."
)
NO_NODE: Final = "Pod {pod} has no node: {message}"


async def look(client: ApiClient, needed: Sequence[Permission]) -> list[str]:
    """Return lines about the installation whose permissions these are; none without a Lease."""
    from scheduler.client.errors import ApiError
    from scheduler.client.local_address import addresses, folder

    lease = next((each for each in needed if each.resource == "leases" and each.names), None)
    if lease is None:
        return []
    namespace, name = lease.namespace, lease.names[0]
    lines = []
    try:
        found = await client.get(LEASES, name, namespace)
        lines.append(leader(f"{namespace}/{name}", found.spec, time.time()))
    except ApiError as error:
        if error.status == 404:
            lines.append(NOTHING.format(lease=f"{namespace}/{name}"))
    api_server = client.transport.configuration.server
    lines += [
        LOCAL.format(pid=each.pid, url=each.url)
        for each in addresses(folder())
        if (each.api_server, each.lease) == (api_server, "")
    ][:MAX_LINES]
    try:
        pods = await client.request(
            "GET", f"/api/v1/namespaces/{namespace}/pods", query={"limit": str(MAX_PODS)}
        )
        listed = msgspec.json.decode(pods.body).get("items") or ()
    except ApiError:
        listed = ()
    faults = [fault for each in listed for fault in pod_faults(namespace, each)]
    lines += faults[:MAX_LINES]
    return [one_line(each) for each in lines] + [PAGE] * bool(faults)


def leader(lease: str, spec: LeaseSpec, now: float) -> str:
    """Return who leads.

    >>> spec = LeaseSpec(holder_identity="a", renew_time="1970-01-01T00:00:00.000000Z")
    >>> leader("x/y", spec, 2.0)
    'a leads: it renewed the Lease x/y 2s ago.'
    >>> leader("x/y", spec, 3600.0)
    'Nobody leads: a has not renewed the Lease x/y for 1h.'
    """
    age = spec.age(now)
    if age is None:
        return NOBODY.format(lease=lease)
    holder = shortened(spec.holder_identity or "", MAX_TEXT)
    text = STALE if age > STALE_SECONDS else LEADS
    return text.format(holder=holder, lease=lease, age=span(max(0.0, age)))


def pod_faults(namespace: str, pod: JsonObject) -> Iterator[str]:
    """Yield why a pod does not run, at most one line for each container."""
    name = pod["metadata"]["name"]
    about = {"pod": f"{namespace}/{name}", "name": name, "namespace": namespace}
    status = pod.get("status") or {}
    containers = status.get("containerStatuses") or ()
    runs = bool(containers) and all("running" in (each.get("state") or {}) for each in containers)
    for each in status.get("conditions") or ():
        if each.get("status") != "False":
            continue
        if each.get("type") == "PodScheduled":
            yield NO_NODE.format(**about, message=_text(each))
        elif each.get("type") == "Ready" and runs:
            time = shortened(str(each.get("lastTransitionTime")), MAX_TEXT)
            yield NOT_READY.format(**about, time=time, kubectl=kubectl())
    for each in containers:
        waiting = (each.get("state") or {}).get("waiting")
        reason = str((waiting or {}).get("reason") or "")
        if not waiting or reason in {"ContainerCreating", "PodInitializing"}:
            continue
        if "Image" in reason:
            image = shortened(str(each.get("image")), MAX_TEXT)
            yield NO_IMAGE.format(**about, image=image, reason=reason)
        elif reason == "CrashLoopBackOff":
            yield ENDS.format(**about, kubectl=kubectl())
        else:
            yield OTHER.format(**about, reason=reason, message=_text(waiting))


def _text(found: JsonObject) -> str:
    return shortened(str(found.get("message") or "no reason is given"), MAX_TEXT)
