"""pods/binding, pods/eviction, scale, and the reviews that are created but never stored.

Texts and effects as observed from kube-apiserver v1.37. A binding to a node that does not exist
succeeds there, and here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from simulator import errors
from simulator.admission import WriteOptions
from simulator.api import Api
from simulator.metadata import uid_mismatch
from simulator.objects import JsonObject, copy_tree, dig, format_time
from simulator.resources import Resource
from simulator.selectors import matches_selector, selector_text
from simulator.store import Version

SUCCESS: Final[JsonObject] = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Success",
    "code": 201,
}
_EVICTION_RETRY: Final = 10


def set_condition(conditions: list[JsonObject], new: JsonObject, now: float) -> list[JsonObject]:
    """Return a copy of `conditions` with `new` in it.

    Its transition time moves only when its status does.
    """
    for place, condition in enumerate(conditions):
        if condition.get("type") == new["type"]:
            moved = condition.get("status") != new["status"]
            since = format_time(now) if moved else condition.get("lastTransitionTime")
            merged = {**new, "lastProbeTime": None, "lastTransitionTime": since}
            return [*conditions[:place], merged, *conditions[place + 1 :]]
    merged = {**new, "lastProbeTime": None, "lastTransitionTime": format_time(now)}
    return [*conditions, merged]


def bind(
    api: Api, pods: Resource, namespace: str, name: str, binding: JsonObject, options: WriteOptions
) -> Version:
    """Bind a pod to the node a Binding names. Raises 404, or 409 with upstream's reasons."""
    meta = binding.get("metadata") or {}
    target = binding.get("target") or {}
    if meta.get("name", name) != name:
        raise errors.bad_request("name in URL does not match name in Binding object")
    if not target.get("name"):
        cause = errors.required_field("target.name")
        raise errors.invalid("Binding", "", name, [cause])
    if target.get("kind", "Node") not in ("Node", ""):
        cause = errors.unsupported_value("target.kind", target["kind"], ["Node", "<empty>"])
        raise errors.invalid("Binding", "", name, [cause])
    current = api.get(pods, namespace, name)
    old = current.obj
    if meta.get("uid") and meta["uid"] != old["metadata"].get("uid"):
        raise uid_mismatch(pods, current, meta["uid"])
    refusal = _why_not_bindable(old, name)
    if refusal:
        raise errors.conflict("pods/binding", "", name, refusal)
    bound_meta = dict(old["metadata"])
    for part in ("annotations", "labels"):
        if meta.get(part):
            bound_meta[part] = {**(bound_meta.get(part) or {}), **meta[part]}
    status = dict(old.get("status") or {})
    status.pop("nominatedNodeName", None)
    status["conditions"] = set_condition(
        status.get("conditions") or [], {"type": "PodScheduled", "status": "True"}, api.clock.now()
    )
    spec = {**old["spec"], "nodeName": target["name"]}
    return api.replace(
        pods, current, {**old, "metadata": bound_meta, "spec": spec, "status": status}, options
    )


def _why_not_bindable(pod: JsonObject, name: str) -> str:
    if pod["metadata"].get("deletionTimestamp"):
        return f"pod {name} is being deleted, cannot be assigned to a host"
    node = pod["spec"].get("nodeName")
    if node:
        return f'pod {name} is already assigned to node "{node}"'
    if pod["spec"].get("schedulingGates"):
        return f"pod {name} has non-empty .spec.schedulingGates"
    return ""


def evict(
    api: Api, pods: Resource, namespace: str, name: str, body: JsonObject, options: WriteOptions
) -> None:
    """Delete a pod if its disruption budgets allow. Raises 429 where they do not."""
    pod = api.get(pods, namespace, name)
    wanted = body.get("deleteOptions") or {}
    finished = dig(pod.obj, "status", "phase") in ("Succeeded", "Failed", "Pending")
    budgets = api.resources.find("policy", "v1", "poddisruptionbudgets")
    if budgets is not None and not finished:
        for budget in api.store.items(budgets.table, namespace):
            selector = dig(budget.obj, "spec", "selector")
            if matches_selector(selector, pod.obj["metadata"].get("labels")):
                _charge(api, budgets, budget, name, options)
    api.delete(pods, namespace, name, wanted, options)


def _charge(api: Api, budgets: Resource, budget: Version, pod: str, options: WriteOptions) -> None:
    status = budget.obj.get("status") or {}
    allowed = int(status.get("disruptionsAllowed") or 0)
    if allowed <= 0:
        cause = {
            "reason": "DisruptionBudget",
            "message": f"The disruption budget {budget.name} needs "
            f"{status.get('desiredHealthy', 0)} healthy pods and has "
            f"{status.get('currentHealthy', 0)} currently",
        }
        message = "Cannot evict pod as it would violate the pod's disruption budget."
        raise errors.too_many_requests(message, _EVICTION_RETRY, [cause])
    disrupted = {**(status.get("disruptedPods") or {}), pod: format_time(api.clock.now())}
    charged = {**status, "disruptionsAllowed": allowed - 1, "disruptedPods": disrupted}
    api.replace(budgets, budget, {**budget.obj, "status": charged}, options)


def scale_of(resource: Resource, version: Version) -> JsonObject:
    """Return the Scale of a workload."""
    obj = version.obj
    selector = dig(obj, "spec", "selector")
    if resource.kind == "ReplicationController":
        selector = {"matchLabels": selector or {}}
    meta = obj["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: meta[key] for key in kept if key in meta},
        "spec": {"replicas": dig(obj, "spec", "replicas") or 0},
        "status": {
            "replicas": dig(obj, "status", "replicas") or 0,
            "selector": selector_text(selector),
        },
    }


def set_scale(
    api: Api, resource: Resource, version: Version, scale: JsonObject, options: WriteOptions
) -> JsonObject:
    """Write the replicas of a Scale into the workload; returns the new Scale."""
    replicas = dig(scale, "spec", "replicas")
    if not isinstance(replicas, int) or replicas < 0:
        cause = errors.invalid_value(
            "spec.replicas", str(replicas), "must be a number of at least 0"
        )
        raise errors.invalid("Scale", "autoscaling", version.name, [cause])
    body = copy_tree(version.obj)
    body["spec"]["replicas"] = replicas
    written = api.update(resource, version.namespace, version.name, body, options)
    return scale_of(resource, written)


@dataclass(frozen=True, slots=True)
class Reviewer:
    """Answers reviews of tokens and of access.

    Both parts may be replaced; by default all is allowed.
    """

    authenticate: Callable[[str], JsonObject | None] = lambda _token: {
        "username": "kubestow:anyone",
        "groups": ["system:masters", "system:authenticated"],
    }
    """Gives the `user` of a token, or None for an unknown token."""
    allow: Callable[[JsonObject], bool] = lambda _spec: True
    """Whether the `spec` of an access review is allowed."""

    def review(self, kind: str, body: JsonObject) -> JsonObject:
        """Fill in the status of a review."""
        spec = body.get("spec") or {}
        if kind == "TokenReview":
            user = self.authenticate(str(spec.get("token", "")))
            status: JsonObject = {"authenticated": user is not None}
            if user is not None:
                status["user"] = user
        else:
            status = {"allowed": self.allow(spec)}
        return {**body, "status": status}
