"""`/metrics/resources`: requests and limits of every pod, as upstream's `kube_pod_resource_*`.

Computed per scrape, for up to 150,000 pods: written directly as text, in a worker thread. Pods are
only read. A pod with an unreadable quantity is omitted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from scheduler.api.pod import Pod
from scheduler.api.quantity import NANO, Quantity, QuantityError
from scheduler.api.requests import pod_limits, pod_requests

REQUEST: Final = "kube_pod_resource_request"
LIMIT: Final = "kube_pod_resource_limit"

_HELP: Final = {
    REQUEST: "[STABLE] Resources a pod requests, as its scheduling and its node see it.",
    LIMIT: "[STABLE] Resources a pod is limited to, as its scheduling and its node see it.",
}
_TERMINAL: Final = frozenset({"Succeeded", "Failed"})
_UNITS: Final = {
    "cpu": "cores",
    "memory": "bytes",
    "storage": "bytes",
    "ephemeral-storage": "bytes",
}
_ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


def render_pod_resources(pods: Iterable[Pod]) -> bytes:
    """Return both metrics of all pods that have not finished; empty without any."""
    lines: dict[str, list[str]] = {LIMIT: [], REQUEST: []}
    for pod in pods:
        if pod.spec.node_name and pod.status.phase in _TERMINAL:
            continue
        try:
            amounts = {REQUEST: pod_requests(pod), LIMIT: pod_limits(pod)}
        except QuantityError:
            continue
        head, tail = _labels(pod)
        for name, by_resource in amounts.items():
            lines[name] += _samples(name, head, tail, by_resource)
    return "".join(_metric(name, found) for name, found in lines.items() if found).encode()


def unit(resource: str) -> str:
    """Return the unit of a resource's samples; empty for counts of devices.

    >>> unit("cpu"), unit("hugepages-2Mi"), unit("attachable-volumes-x"), unit("example.com/gpu")
    ('cores', 'bytes', 'integer', '')
    """
    if resource.startswith("hugepages-"):
        return "bytes"
    if resource.startswith("attachable-volumes-"):
        return "integer"
    return _UNITS.get(resource, "")


def _metric(name: str, lines: list[str]) -> str:
    return f"# HELP {name} {_HELP[name]}\n# TYPE {name} gauge\n{''.join(lines)}"


def _labels(pod: Pod) -> tuple[str, str]:
    """Return the labels shared by all samples of a pod, before and after the resource's own."""
    labels = {
        "namespace": pod.metadata.namespace,
        "node": pod.spec.node_name,
        "pod": pod.metadata.name,
        "priority": "" if pod.spec.priority is None else str(pod.spec.priority),
    }
    head = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
    return head, f'scheduler="{_escaped(pod.spec.scheduler_name)}"'


def _samples(name: str, head: str, tail: str, amounts: Mapping[str, Quantity]) -> Iterator[str]:
    for resource, amount in sorted(amounts.items()):
        if amount:
            own = f'resource="{_escaped(resource)}",{tail},unit="{unit(resource)}"'
            yield f"{name}{{{head},{own}}} {amount.nano / NANO}\n"


def _escaped(text: str) -> str:
    return text.translate(_ESCAPES)
