"""The object of an owner of pods: whether it exists, and why it has fewer pods than it asks for.

One GET to the API server of the leader, as the user of the kubeconfig; one list of at most
`MAX_NAMES` names where it does not exist, and one of at most `MAX_EVENTS` events where it lacks
pods. Without an answer there is nothing to add.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from scheduler.api.scheduler_names import nearest
from scheduler.cli import owner_status
from scheduler.cli.account_faults import DEFAULT_NAME
from scheduler.cli.exit_codes import NO_SUCH_POD, CommandError
from scheduler.cli.hints import kubectl
from scheduler.cli.owner_status import missing
from scheduler.cli.pod_format import at, one_line
from scheduler.explain.records.wording import one_of, shortened
from scheduler.sanitizing.names import is_namespace_name, is_object_name

if TYPE_CHECKING:
    from scheduler.cli.endpoint import Endpoint
    from scheduler.explain.records import OwnerPage

MAX_NAMES: Final = 250
MAX_EVENTS: Final = 250
MAX_SHOWN: Final = 100
"""Characters of a name that somebody wrote."""
_NEAR: Final = 2

_APPS, _BATCH, _CORE = "/apis/apps/v1", "/apis/batch/v1", "/api/v1"
_GROUPS: Final[Mapping[str, str]] = {
    "Deployment": _APPS,
    "ReplicaSet": _APPS,
    "StatefulSet": _APPS,
    "DaemonSet": _APPS,
    "Job": _BATCH,
    "CronJob": _BATCH,
    "ReplicationController": _CORE,
}
NAMES_ONLY: Final = (
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
)

NONE: Final = (
    "there is no {kind} {name} in namespace {namespace}{near}\n"
    "-n NAMESPACE names another namespace. Those of all:  {kubectl} get {plural} -A"
)
NO_NAMESPACE: Final = 'there is no namespace "{namespace}"{near}'
FEWER: Final = (
    "None would wait with {placed} {replicas}:  "
    "{kubectl} -n {namespace} scale deployment {name} --replicas={placed}"
)
FINISHED: Final = "Pods that have finished are not known."
ASKS: Final = '\nIts pods ask for scheduler "{asked}" ({path}){near}'
MADE: Final = "Has it made any?  {kubectl} -n {namespace} describe {word} {name}"


def field_of(kind: str) -> str:
    """Return the path of `schedulerName` in an owner of pods.

    >>> field_of("Deployment"), field_of("CronJob")
    ('spec.template.spec.schedulerName', 'spec.jobTemplate.spec.template.spec.schedulerName')
    >>> field_of("RayCluster")
    'the schedulerName of its pod template'
    """
    if kind not in _GROUPS:
        return "the schedulerName of its pod template"
    above = "spec.jobTemplate." if kind == "CronJob" else ""
    return f"{above}spec.template.spec.schedulerName"


def quoted(name: str) -> str:
    """Return a name that somebody wrote, in one short line."""
    return f'"{one_line(shortened(name, MAX_SHOWN))}"'


def about(endpoint: Endpoint, owner: str) -> str:
    """Say why `NAMESPACE/KIND/NAME` has no pods; empty if the cluster cannot be asked.

    Raises:
        CommandError: it does not exist.
    """
    namespace, kind, name = owner.split("/")
    group = _GROUPS.get(kind)
    if group is None or not (is_namespace_name(namespace) and is_object_name(name)):
        return ""
    plural = f"{kind.lower()}s"
    target = f"{group}/namespaces/{namespace}/{plural}"
    status, found = endpoint.cluster_object(f"{target}/{name}")
    words = {"kind": kind, "name": name, "namespace": namespace, "plural": plural}
    words["kubectl"] = kubectl()
    if status == 404 and found.get("reason") == "NotFound":
        if absent := no_namespace(endpoint, namespace):
            raise CommandError(absent, NO_SUCH_POD)
        near = _near(endpoint, target, name)
        raise CommandError(NONE.format(near=near, **words), NO_SUCH_POD)
    if status != 200 or found.get("kind") != kind:
        return ""
    path = field_of(kind)
    asked = at(found, path)
    if not isinstance(asked, str):
        return ""
    words["word"] = kind.lower()
    events = partial(_refusals, endpoint, found, namespace)
    cause = missing(found, kind, name, namespace, events=events)
    cause = cause or f"{FINISHED} {MADE.format(**words)}"
    # The profiles are not known here.
    meant = nearest(asked, (DEFAULT_NAME,))
    near = f"; did you mean {meant}?" if meant not in ("", asked) else "."
    return cause + ASKS.format(asked=one_line(shortened(asked, MAX_SHOWN)), path=path, near=near)


def no_namespace(endpoint: Endpoint, namespace: str) -> str:
    """Say that there is no such namespace, with one that may be meant; empty if that is not known.

    Users who may not get namespaces learn nothing; those who may not list them, no other name.
    """
    if not is_namespace_name(namespace):
        return ""
    target = f"{_CORE}/namespaces"
    status, found = endpoint.cluster_object(f"{target}/{namespace}")
    if status != 404 or found.get("reason") != "NotFound":
        return ""
    return NO_NAMESPACE.format(namespace=namespace, near=_near(endpoint, target, namespace))


def read(endpoint: Endpoint, page: OwnerPage) -> Any:
    """Return the object of an owner that has pods; an empty one if it cannot be read."""
    kind, _, name = page.owner.partition("/")
    group = _GROUPS.get(kind)
    if group is None or not (is_namespace_name(page.namespace) and is_object_name(name)):
        return {}
    target = f"{group}/namespaces/{page.namespace}/{kind.lower()}s/{name}"
    status, found = endpoint.cluster_object(target)
    return found if status == 200 and found.get("kind") == kind else {}


def lacking(endpoint: Endpoint, found: Any, page: OwnerPage) -> str:
    """Say why the owner `found` has fewer pods than it asks for; empty if it has not."""
    kind, _, name = page.owner.partition("/")
    pods = page.waiting + page.placed + sum(each.pods - each.placed for each in page.others)
    events = partial(_refusals, endpoint, found, page.namespace)
    return missing(found, kind, name, page.namespace, pods, events=events)


def rollout(found: Any, page: OwnerPage) -> str:
    """Say why a Deployment keeps pods of before while new ones wait; empty if it does not."""
    kind, _, name = page.owner.partition("/")
    if kind != "Deployment" or not page.waiting:
        return ""
    return owner_status.rollout(found, name, page.namespace)


def fewer(found: Any, page: OwnerPage) -> str:
    """Return with how many replicas no pod of a Deployment would wait; empty if that is not known.

    A Deployment gives up pods without a node first. In a rollout it has more pods than replicas,
    and fewer replicas may not end the wait.
    """
    kind, _, name = page.owner.partition("/")
    if kind != "Deployment" or not (page.waiting and page.placed) or page.others:
        return ""
    if at(found, "spec.replicas") != page.waiting + page.placed:
        return ""
    replicas = "replica" if page.placed == 1 else "replicas"
    return FEWER.format(
        placed=page.placed,
        replicas=replicas,
        namespace=page.namespace,
        name=name,
        kubectl=kubectl(),
    )


def refusals_target(uid: str, namespace: str) -> str:
    """Return the request for events about pods that could not be created for an object."""
    fields = quote(f"involvedObject.uid={uid},reason=FailedCreate", safe="")
    return f"{_CORE}/namespaces/{namespace}/events?fieldSelector={fields}&limit={MAX_EVENTS}"


def _refusals(endpoint: Endpoint, found: Any, namespace: str) -> list[Any]:
    """Return events about pods that could not be created for an object, in no order."""
    uid = at(found, "metadata.uid")
    if not isinstance(uid, str) or not uid:
        return []
    status, page = endpoint.cluster_object(refusals_target(uid, namespace))
    items = page.get("items") if status == 200 else None
    return items[:MAX_EVENTS] if isinstance(items, list) else []


def _near(endpoint: Endpoint, target: str, name: str) -> str:
    """Ask for names that may be meant."""
    status, found = endpoint.cluster_object(f"{target}?limit={MAX_NAMES}", NAMES_ONLY)
    items = found.get("items") if status == 200 else None
    names = [at(each, "metadata.name") for each in items] if isinstance(items, list) else []
    texts = [each for each in names[:MAX_NAMES] if isinstance(each, str) and is_object_name(each)]
    near = get_close_matches(name, texts, n=_NEAR)
    return f"; did you mean {one_of(near)}?" if near else ""
