"""The causes why an owner has fewer pods than it should, from its own spec and status.

The controllers of Deployments, ReplicaSets and ReplicationControllers write into the status why a
pod could not be created, such as an exceeded quota; the others only emit events. Everything in an
object and in events was written by somebody else.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from scheduler.api.quantity import NANO, Quantity, parse
from scheduler.cli.hints import kubectl
from scheduler.cli.pod_format import at, one_line
from scheduler.explain.records.wording import counted, shortened

MAX_REASON: Final = 60
MAX_MESSAGE: Final = 400
"""Characters of a condition that are shown."""

NONE_WANTED: Final = "It asks for no pods: {path} is 0."
STOPPED: Final = "It makes no pods: {path} is true."
ENDED: Final = "It has finished{cause}"
NO_REPLICA_SET: Final = "Its ReplicaSet cannot be created{cause}"
WANTED: Final = "{wanted} {are} wanted, {exist}"
NOT_CREATED: Final = "{wanted}: the {creator} {cannot} create {rest}{cause}"
NOT_REPLACED: Final = "The {creator} cannot create pods{cause}"
IN_ORDER: Final = "{wanted}: a StatefulSet creates each after the one before is ready."
SEE_EVENTS: Final = (
    "{wanted}; its events may say why:  {kubectl} -n {namespace} describe {word} {name}"
)
ROLLOUT: Final = (
    "A rollout is under way: {old} of {exist} pods {are} old. No old pod goes before a new one is "
    "available, since of {wanted} wanted {available} {available_are} available and maxUnavailable "
    "is {most}.\n"
    "To delete one first:  {kubectl} -n {namespace} patch deployment {name} -p '{patch}'"
)
_PATCH: Final = '{{"spec":{{"strategy":{{"rollingUpdate":{{"maxUnavailable":{most}}}}}}}}}'

_PERCENT: Final = re.compile(r"([0-9]{1,3})%")
_EXCEEDED: Final = re.compile(
    r"exceeded quota: (\S+), requested: (\S+), used: (\S+), limited: (\S+)"
)
_UNSTATED: Final = re.compile(r"failed quota: \S+: must specify ")
STATE: Final = "\nState them in the containers, or let a LimitRange set defaults."
RAISE: Final = "\nFor the {lack} missing, ResourceQuota {quota} must have at least {raised}{less}."
LESS: Final = ", or each must request at most {rooms}"


class Numbers(NamedTuple):
    """Pods of an owner at a time."""

    wanted: int
    exist: int

    def text(self) -> str:
        """Compare them in words."""
        exist = "none exists" if not self.exist else f"{self.exist} exist{'s' * (self.exist == 1)}"
        are = "is" if self.wanted == 1 else "are"
        return WANTED.format(wanted=counted(self.wanted, "pod"), are=are, exist=exist)


def missing(
    found: Any,
    kind: str,
    name: str,
    namespace: str,
    known: int = 0,
    *,
    events: Callable[[], Any] = tuple,
) -> str:
    """Say why pods do not exist; empty if none lack. The scheduler knows of `known` of them.

    `events` returns those about pods that could not be created; called only if they are needed.

    >>> missing({"spec": {"replicas": 0}}, "Deployment", "web", "shop")
    'It asks for no pods: spec.replicas is 0.'
    """
    if cause := _cause(found, "Progressing", "False", "ReplicaSetCreateError"):
        return NO_REPLICA_SET.format(cause=cause)
    cause = _cause(found, "ReplicaFailure", "True", "FailedCreate")
    if not (known or cause) and (text := _on_purpose(found, kind)):
        return text
    numbers = _numbers(found, kind, known)
    lacks = numbers is not None and numbers.exist < numbers.wanted
    creator = "ReplicaSet" if kind == "Deployment" else kind
    if numbers is None or not lacks:
        # A rollout that cannot go on has the pods of before.
        return NOT_REPLACED.format(creator=creator, cause=cause) + cure(cause) if cause else ""
    wanted, cannot = numbers.text(), "cannot" if cause else "could not"
    if cause := cause or _newest(events()):
        rest = "the others" if numbers.exist else "them"
        text = NOT_CREATED.format(
            wanted=wanted, creator=creator, cannot=cannot, rest=rest, cause=cause
        )
        return text + cure(cause, numbers.wanted - numbers.exist)
    ordered = at(found, "spec.podManagementPolicy") != "Parallel"
    if kind == "StatefulSet" and numbers.exist and ordered:
        return IN_ORDER.format(wanted=wanted)
    return SEE_EVENTS.format(
        wanted=wanted, namespace=namespace, word=kind.lower(), name=name, kubectl=kubectl()
    )


def rollout(found: Any, name: str, namespace: str) -> str:
    """Say why a Deployment keeps pods of before while new ones wait; empty if it does not.

    It deletes no available one while others are missing as allowed: upstream's
    pkg/controller/deployment/rolling.go.
    """
    wanted, exist = _count(at(found, "spec.replicas")), _written(found, "status.replicas")
    updated = _written(found, "status.updatedReplicas")
    available = _written(found, "status.availableReplicas")
    if wanted is None or exist is None or updated is None or available is None:
        return ""
    most = _max_unavailable(found, wanted)
    if most is None or not 0 < updated < exist or available > wanted - most:
        return ""
    seen = at(found, "status.observedGeneration") == at(found, "metadata.generation")
    if not seen or at(found, "spec.strategy.type") == "Recreate" or at(found, "spec.paused"):
        return ""
    old = exist - updated
    return ROLLOUT.format(
        old=old,
        exist=exist,
        are="is" if old == 1 else "are",
        available_are="is" if available == 1 else "are",
        available=available,
        wanted=wanted,
        most=most,
        patch=_PATCH.format(most=wanted - available + 1),
        namespace=namespace,
        name=name,
        kubectl=kubectl(),
    )


def _max_unavailable(found: Any, wanted: int) -> int | None:
    """Return how many pods a rollout may let be missing; None if that cannot be read."""
    update = at(found, "spec.strategy.rollingUpdate")
    most = _part(at(update, "maxUnavailable"), wanted, up=False)
    surge = _part(at(update, "maxSurge"), wanted, up=True)
    # Both 0 would be no rollout at all.
    return 1 if most == surge == 0 else most


def _part(stated: Any, whole: int, *, up: bool) -> int | None:
    """Return a number, or a percentage of a whole: of a Deployment 25 % where none is stated."""
    text = "25%" if stated is None else stated
    found = _PERCENT.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        return _count(stated)
    return (int(found[1]) * whole + (99 if up else 0)) // 100


def cure(message: str, pods: int = 1) -> str:
    """Say with which quota, or requests, the missing pods could be created, in a further line.

    Empty if it is no quota that refuses them, or the message of the API server has no numbers.

    >>> asked = "requested: requests.cpu=4, used: requests.cpu=1, limited: requests.cpu=2"
    >>> cure(f"exceeded quota: q, {asked}", 2)[1:]
    'For the 2 that are missing, ResourceQuota q must have at least requests.cpu=9 (it has 2), \
or each must request at most requests.cpu=500m.'
    """
    if _UNSTATED.search(message):
        return STATE
    found = _EXCEEDED.search(message)
    if found is None:
        return ""
    try:
        # Of each, only the resources for which there is no room.
        wanted, used, hard = map(_amounts, found.groups()[1:])
        raised = [
            f"{name}={Quantity(used[name].nano + pods * each.nano, hard[name].format).canonical()} "
            f"(it has {hard[name].canonical()})"
            for name, each in wanted.items()
        ]
        rooms = {name: _share(name, hard[name] - used[name], pods) for name in wanted}
    except (ValueError, LookupError):
        return ""
    less = LESS.format(rooms=_listed(rooms)) if all(rooms.values()) else ""
    lack = "one that is" if pods == 1 else f"{pods:,} that are"
    return RAISE.format(lack=lack, quota=found[1], raised=", ".join(raised), less=less)


def _amounts(text: str) -> dict[str, Quantity]:
    """Read such as `pods=1,requests.cpu=4`."""
    pairs = (each.split("=") for each in text.rstrip(".,").split(","))
    return {name: parse(amount) for name, amount in pairs}


def _listed(amounts: dict[str, Quantity]) -> str:
    return ", ".join(f"{name}={each.canonical()}" for name, each in amounts.items())


def _share(name: str, room: Quantity, pods: int) -> Quantity:
    """Return what each pod may request of what is left, rounded down; of devices and counts 0."""
    unit = NANO // 1000 if name.endswith("cpu") else NANO << 20
    return Quantity(max(0, room.nano) // pods // unit * unit, room.format)


def _on_purpose(found: Any, kind: str) -> str:
    """Say why an owner without pods is to have none; empty if it is to have some."""
    for each in ("Failed", "Complete") if kind == "Job" else ():
        if cause := _cause(found, each, "True"):
            return ENDED.format(cause=cause)
    for field in ("spec.suspend", "spec.paused"):
        if at(found, field) is True:
            return STOPPED.format(path=field)
    none = "status.desiredNumberScheduled" if kind == "DaemonSet" else "spec.replicas"
    for field in (none, "spec.parallelism"):
        if _count(at(found, field)) == 0:
            return NONE_WANTED.format(path=field)
    return ""


def _numbers(found: Any, kind: str, known: int) -> Numbers | None:
    """Return how many pods an owner wants and has; None if its status does not say it (yet)."""
    if not at(found, "status"):
        return None
    if kind == "DaemonSet":
        wanted = _count(at(found, "status.desiredNumberScheduled"))
        exist = _count(at(found, "status.currentNumberScheduled"))
    elif kind == "Job":
        wanted, exist = _count(at(found, "spec.parallelism")), _written(found, "status.active")
        total, done = _count(at(found, "spec.completions")), _written(found, "status.succeeded")
        if wanted is not None and total is not None and done is not None:
            wanted = min(wanted, max(0, total - done))
    else:
        wanted, exist = _count(at(found, "spec.replicas")), _written(found, "status.replicas")
    if wanted is None or exist is None:
        return None
    return Numbers(wanted, max(exist, known))


def _cause(found: Any, condition: str, status: str, reason: str = "") -> str:
    """Return reason and message of a condition, in one line after a colon; empty if not met."""
    conditions = at(found, "status.conditions")
    for each in conditions if isinstance(conditions, list) else ():
        if at(each, "type") != condition or at(each, "status") != status:
            continue
        if reason and at(each, "reason") != reason:
            continue
        return _told(each) or one_line(f": {condition}")
    return ""


def _newest(events: Any) -> str:
    """Return reason and message of the newest event, as `_cause` of a condition."""
    listed = [each for each in events if isinstance(each, dict)] if events else []
    newest = max(listed, key=_time, default=None)
    return "" if newest is None else _told(newest)


def _time(event: dict[str, Any]) -> str:
    """Return the time of an event; these texts are in the order of time."""
    times = (event.get("lastTimestamp"), event.get("eventTime"))
    return max((each for each in times if isinstance(each, str)), default="")


def _told(entry: Any) -> str:
    """Return reason and message of a condition or event, in one line after a colon."""
    parts = ((at(entry, "reason"), MAX_REASON), (at(entry, "message"), MAX_MESSAGE))
    texts = [shortened(text, limit) for text, limit in parts if isinstance(text, str) and text]
    return one_line(": ".join(["", *texts]))


def _written(found: Any, path: str) -> int | None:
    """Return a count that is left out of JSON if it is 0."""
    value = at(found, path)
    return 0 if value is None else _count(value)


def _count(value: Any) -> int | None:
    valid = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31
    return value if valid else None
