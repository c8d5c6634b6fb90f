"""Users who may not read all debug pages, and what they get instead: answers about one namespace.

Who may not get `/debug/explain` may still be allowed to get pods of a namespace. They get the pages
that have a `namespace` in `PAGES`, for that one. `restrict` builds such a page anew from the fields
named here, so that a field that is added to a record is left out until somebody decides about it:

- of pods of the namespace the state, the plugins and codes, times, and numbers of nodes, all of
  which their conditions and events have as well;
- names of nodes in their fields, if the user may list nodes, and the node of a bound pod;
- of what is behind a reason, what the pod itself wants;
- what tells about pods of others (scores, details, the event that woke a pod, durations), if the
  user may get the pods of all namespaces;
- never a position in the queue, a sequence number, or a count of all pods.

A text of a plugin keeps the words that are kubestow's own or of the user's pods. Every other word
is left out in the same way, whether or not there is anything of that name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from itertools import chain, islice
from typing import Any, Final, TypeVar

from scheduler.api.meta import LabelSelectorRequirement
from scheduler.api.pod import NodeSelectorRequirement, Pod, PodAffinityTerm
from scheduler.explain.records import (
    BindingView,
    Decision,
    DecisionList,
    Examination,
    ExplainPage,
    GroupExplanation,
    NodeScore,
    OtherScheduler,
    PodExplanation,
    PodState,
    PodView,
    QueuePage,
    QueueState,
    QueueStatistics,
    Rejection,
    RejectionCount,
    WaitingGroup,
    WaitingPage,
    WaitingPod,
)
from scheduler.explain.records.page_table import PAGES
from scheduler.explain.records.story import tell
from scheduler.explain.records.wording import quantity
from scheduler.framework.near_labels import nearest_key
from scheduler.sanitizing.vocabulary import known_words_only

PARAMETERS: Final = frozenset(
    {"pod", "namespace", "nodes", "examples", "limit", "since", "groups", "owner", "cause", "words",
     "placed"}
)  # fmt: skip
"""The parameters that such a page gets. Another one could be used to guess names; `owner`, `cause`
and `words` select among the pods of the namespace only, and `placed` counts those of the owner."""

MAX_OWN_PODS: Final = 1000
"""Pods of a page whose words are looked up: a millisecond of work."""
MAX_NAMES: Final = 20
"""Names of one kind, such as resources, in the spec of a pod: it may have thousands."""

COUNTED_PLACES: Final = {
    QueueState.ACTIVE: "active",
    QueueState.BACKOFF: "backoff",
    QueueState.UNSCHEDULABLE: "unschedulable",
    QueueState.GATED: "gated",
    QueueState.IN_FLIGHT: "in_flight",
}
"""Fields of the statistics by the place of a pod."""

MAX_WANTED: Final = 5
"""Conditions and claims, and values of one, that are shown as what a pod wants."""
NO_WANTS: Final[Mapping[str, str]] = {}

INSUFFICIENT: Final = "Insufficient "
OTHER_LABELS: Final = "node(s) didn't match Pod's node affinity/selector"
"""Reasons of NodeResourcesFit and NodeAffinity."""
NO_DOMAIN: Final = "node(s) didn't match pod topology spread constraints (missing required label)"
"""Reason of PodTopologySpread for a topologyKey of the pod."""
NOT_NEAR: Final = "node(s) didn't match pod affinity rules"
TOO_NEAR: Final = "node(s) didn't match pod anti-affinity rules"
"""Reasons of InterPodAffinity for terms of the pod itself."""
OF_CLAIMS: Final = frozenset(
    {
        "pod has unbound immediate PersistentVolumeClaims",
        "PersistentVolumeClaim had no pv name and storageClass name",
        "PersistentVolume had no name",
        "node(s) didn't find available persistent volumes to bind",
        "node(s) didn't match PersistentVolume's node affinity",
        "node(s) had no available volume zone",
        "node(s) did not have enough free storage",
        "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
        (
            "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
            "already in-use by another pod"
        ),
    }
)
"""Reasons of the volume plugins that speak of claims of the pod and name none."""

WELL_KNOWN: Final = frozenset(
    {
        "kubernetes.io/arch",
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "node.kubernetes.io/instance-type",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
    }
)
"""Labels of nodes that everybody knows; see "Well-Known Labels" in the reference of Kubernetes."""

FindPod = Callable[[str, str], Pod | None]
"""`find_pod(namespace, name)` returns the newest known version of a pod, or None."""

_Rejected = TypeVar("_Rejected", Rejection, RejectionCount)

_NAMESPACE: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Reader:
    """A user who gets answers about one namespace."""

    namespace: str
    #: Whether the user may list nodes.
    nodes: bool = False
    #: Whether the user may get the pods of all namespaces.
    pods: bool = False


def namespace_of(path: str, query: Mapping[str, str]) -> str:
    """Return the namespace that a request is about; empty if it is not about a single one.

    >>> namespace_of("/debug/explain", {"pod": "team-a/web"}), namespace_of("/debug/queue", {})
    ('team-a', '')
    """
    entry = PAGES.get(path)
    found = "" if entry is None or entry.namespace is None else entry.namespace(query)
    return found if _NAMESPACE.fullmatch(found) else ""


def restricted(query: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters that a page for one namespace gets, each once."""
    return {key: query[key] for key in PARAMETERS if key in query}


def own_words(page: object, namespace: str, find_pod: FindPod) -> frozenset[str]:
    """Return the names of the pods of a namespace on a page, and of what they request.

    Of a page about one pod, the other names in its spec as well.
    """
    match page:
        case QueuePage():
            found = [(each.namespace, each.name) for each in page.pods[:MAX_OWN_PODS]]
            found += [(each.namespace, each.name) for each in page.binding[:MAX_OWN_PODS]]
        case ExplainPage():
            found = [(page.pod.namespace, page.pod.name)]
        case WaitingPage():
            found = [(each.pod.namespace, each.pod.name) for each in page.pods[:MAX_OWN_PODS]]
            found += [(each.namespace, each.pod) for each in page.groups[:MAX_OWN_PODS]]
        case _:
            found = []
    names = [name for of, name in found if of == namespace]
    pods = [pod for name in names if (pod := find_pod(namespace, name)) is not None]
    kinds: list[Iterable[str]] = [
        (name for name, _ in pod.signature.requests.scalars) for pod in pods
    ]
    if isinstance(page, ExplainPage):
        kinds += chain.from_iterable(map(_kinds_of_names, pods))
    return frozenset((namespace, *names, *chain.from_iterable(_first(each) for each in kinds)))


def _first(names: Iterable[str]) -> Iterable[str]:
    return islice(names, MAX_NAMES)


def _kinds_of_names(pod: Pod) -> Iterator[Iterator[str]]:
    """Yield the names in the spec of a pod that messages about it may have, by kind."""
    spec = pod.spec
    volumes = spec.volumes
    yield from _kinds_of_claims(pod)
    yield (each.csi.driver for each in volumes if each.csi is not None)
    yield (each.name for each in spec.scheduling_gates)
    yield (each.name for each in spec.resource_claims)
    yield (each.resource_claim_name or "" for each in spec.resource_claims)
    yield (each.resource_claim_template_name or "" for each in spec.resource_claims)
    yield (each.resource_claim_name or "" for each in pod.status.resource_claim_statuses)
    if spec.scheduling_group is not None:
        yield iter((spec.scheduling_group.pod_group_name,))
    yield chain.from_iterable((spec.node_selector or {}).items())
    yield chain.from_iterable((each.key, each.value) for each in spec.tolerations)
    yield (each.topology_key for each in spec.topology_spread_constraints)
    affinity = spec.affinity
    if affinity is None:
        return
    if affinity.node_affinity is not None and affinity.node_affinity.required is not None:
        yield chain.from_iterable(
            (each.key, *each.values[:MAX_NAMES])
            for term in affinity.node_affinity.required.node_selector_terms
            for each in (*term.match_expressions, *term.match_fields)
        )
    for pods in filter(None, (affinity.pod_affinity, affinity.pod_anti_affinity)):
        yield (each.topology_key for each in pods.required)


def _kinds_of_claims(pod: Pod) -> Iterator[Iterator[str]]:
    """Yield the names of the claims in the spec of a pod: named ones, and ephemeral ones."""
    volumes, name = pod.spec.volumes, pod.metadata.name
    claims = (each.persistent_volume_claim for each in volumes)
    yield (each.claim_name for each in claims if each is not None)
    yield (f"{name}-{each.name}" for each in volumes if each.ephemeral is not None)


def own_wants(page: object, find_pod: FindPod) -> dict[str, str]:
    """Return what the pod of a page wants, by the reason for which nodes reject it."""
    if not isinstance(page, ExplainPage) or page.pod.nodes is None:
        return {}
    pod = find_pod(page.pod.namespace, page.pod.name)
    if pod is None:
        return {}
    rejections = (*page.pod.nodes.rejections, *page.pod.nodes.otherwise)
    reasons = chain.from_iterable(each.reasons for each in rejections)
    some = dict.fromkeys(_first(reasons))
    return {each: text for each in some if (text := _wants(pod, each))}


def _wants(pod: Pod, reason: str) -> str:
    if reason.startswith(INSUFFICIENT):
        resource, requests = reason.removeprefix(INSUFFICIENT), pod.signature.requests
        plain = {
            "cpu": requests.milli_cpu / 1000,
            "memory": requests.memory,
            "ephemeral-storage": requests.ephemeral_storage,
        }
        amount = plain.get(resource) or requests.scalar(resource)
        return f"wants {quantity(resource, amount)} {resource}" if amount else ""
    affinity = pod.spec.affinity
    wanted: Iterable[str] = ()
    if reason in OF_CLAIMS:
        claims = list(islice(chain.from_iterable(_kinds_of_claims(pod)), MAX_WANTED))
        # Which of several it is would have to be read from the claims.
        return f"{'claim' if len(claims) == 1 else 'claims'} {', '.join(claims)}" if claims else ""
    if reason == OTHER_LABELS:
        wanted = _node_labels(pod)
    elif reason == NO_DOMAIN:
        wanted = (f"label {key}{_meant(key)}" for key in _hard(pod))
    elif reason == NOT_NEAR and affinity is not None and affinity.pod_affinity is not None:
        wanted = map(_near, affinity.pod_affinity.required)
    elif reason == TOO_NEAR and affinity is not None and affinity.pod_anti_affinity is not None:
        wanted = (f"no {_near(each)}" for each in affinity.pod_anti_affinity.required)
    return "; ".join(f"wants {each}" for each in islice(wanted, MAX_WANTED))


def _node_labels(pod: Pod) -> Iterator[str]:
    affinity = pod.spec.affinity
    node = None if affinity is None else affinity.node_affinity
    terms = () if node is None or node.required is None else node.required.node_selector_terms
    for key, value in (pod.spec.node_selector or {}).items():
        yield f"{key}={value}{_meant(key)}"
    for each in chain.from_iterable(term.match_expressions for term in terms):
        yield f"{_condition(each)}{_meant(each.key)}"


def _hard(pod: Pod) -> Iterator[str]:
    """Yield the topologyKeys by which the pod must be spread."""
    for each in pod.spec.topology_spread_constraints:
        if each.when_unsatisfiable == "DoNotSchedule":
            yield each.topology_key


def _meant(key: str) -> str:
    """Return a hint for what looks like a misspelt label that nodes usually have."""
    near = "" if key in WELL_KNOWN else nearest_key(key, WELL_KNOWN)
    return f" (did you mean {near}?)" if near else ""


def _near(term: PodAffinityTerm) -> str:
    """Return which pods a term of the pod itself selects, and by which label of nodes."""
    selector, key = term.label_selector, f"{term.topology_key}{_meant(term.topology_key)}"
    if selector is None:
        # As upstream: such a term matches none.
        return f"pod of no labelSelector by {key}"
    labels = (f"{key}={value}" for key, value in selector.match_labels.items())
    conditions = chain(labels, map(_condition, selector.match_expressions))
    pods = ", ".join(islice(conditions, MAX_WANTED)) or "pod"
    return f"{pods} by {key}"


def _condition(each: NodeSelectorRequirement | LabelSelectorRequirement) -> str:
    return f"{each.key} {each.operator} {', '.join(each.values[:MAX_WANTED])}".rstrip()


def restrict(
    page: object, reader: Reader, own: Container[str], wants: Mapping[str, str] = NO_WANTS
) -> object:
    """Return a page with nothing that the reader may not know.

    `own` are words of their pods; `wants` is what their pod wants, by the reason of a rejection.

    Raises:
        ValueError: it is no page of the reader's namespace.
    """
    restriction = _Restriction(reader, own, wants)
    match page:
        case QueuePage():
            return restriction.queue(page)
        case DecisionList():
            return restriction.decision_list(page)
        case WaitingPage():
            return restriction.waiting(page)
        case ExplainPage():
            return restriction.explanation(page)
    raise ValueError(f"{type(page).__name__} is not served for one namespace")


OWN_SUMMARIES: Final = frozenset({PodState.BOUND, PodState.NOT_OURS})
"""States whose summaries say only what is in the pod, and the schedulerNames of this scheduler."""

SUMMARIES: Final = {
    PodState.BINDING: "a node was chosen; the binding is under way",
    PodState.WAITING_AT_PERMIT: "a node was chosen; the pod waits at Permit",
    PodState.QUEUED: "waits to be scheduled",
    PodState.TERMINATING: "being deleted: it will not be scheduled",
    PodState.UNKNOWN: "in no queue at this moment",
}
"""The summaries of pods for users who may not know all that the summary of a page has."""


AWAITS: Final = "; its binding waits "
"""What comes before it in the summary of a pod names the node."""

LEFT_OUT: Final = (
    "Scores, what nodes have free, durations, and whether there are pods of lower priority are "
    "left out here: they are for who may list nodes and get the pods of all namespaces. Remedies "
    "are for who may get /debug/explain."
)
"""The last sentence of such a story."""


class _Restriction:
    """Builds the pages of one reader."""

    def __init__(self, reader: Reader, own: Container[str], wants: Mapping[str, str]) -> None:
        self._reader = reader
        self._own = own
        self._wants = wants
        self._everything = reader.nodes and reader.pods

    def queue(self, page: QueuePage) -> QueuePage:
        namespace = self._reader.namespace
        pods = [self._view(each) for each in page.pods if each.namespace == namespace]
        return QueuePage(
            now=page.now,
            leading=page.leading,
            namespace=namespace,
            limit=page.limit,
            statistics=_counted(pods),
            pods=pods,
            binding=[
                BindingView(
                    namespace=namespace,
                    name=each.name,
                    uid=each.uid,
                    node=self._node(each.node),
                    since=each.since,
                    text=self._text(each.text),
                )
                for each in page.binding
                if each.namespace == namespace
            ],
        )

    def waiting(self, page: WaitingPage) -> WaitingPage:
        namespace = self._reader.namespace
        if page.namespace != namespace:
            raise ValueError("the counts are of another namespace")
        return WaitingPage(
            now=page.now,
            leading=page.leading,
            namespace=namespace,
            total=page.total,
            headline=page.headline,
            causes=page.causes,
            selected=page.selected,
            group_total=page.group_total,
            groups=[
                WaitingGroup(
                    namespace=namespace,
                    owner=each.owner,
                    cause=each.cause,
                    pods=each.pods,
                    pod=each.pod,
                    waiting_since=each.waiting_since,
                    # It has the details of rejections, which tell about pods of others.
                    text=each.text if self._everything else "",
                )
                for each in page.groups
                if each.namespace == namespace
            ],
            pods=[
                WaitingPod(self._view(each.pod), each.owner, each.cause)
                for each in page.pods
                if each.pod.namespace == namespace
            ],
            placed=page.placed,
            ending=page.ending,
            # What their own pods name, and a profile only if they have nearly named it.
            others=[
                OtherScheduler(each.name, each.pods, each.placed, each.near) for each in page.others
            ],
        )

    def decision_list(self, page: DecisionList) -> DecisionList:
        prefix = f"{self._reader.namespace}/"
        return DecisionList(
            now=page.now,
            leading=page.leading,
            last_seq=0,
            remembered_pods=0,
            decisions=tuple(
                self._decision(each) for each in page.decisions if each.pod.startswith(prefix)
            ),
        )

    def explanation(self, page: ExplainPage) -> ExplainPage:
        if page.pod.namespace != self._reader.namespace:
            raise ValueError("the pod is of another namespace")
        pod = self._pod(page.pod)
        decisions = [self._decision(each) for each in page.decisions]
        story = tell(pod, decisions, page.not_remembered)
        return ExplainPage(
            leading=page.leading,
            pod=pod,
            story=story if self._everything else [*story, LEFT_OUT],
            decisions=decisions,
            not_remembered=page.not_remembered,
            group=None if page.group is None else self._group(page.group),
            restricted=True,
        )

    # -- records ---------------------------------------------------------------------------------

    def _pod(self, pod: PodExplanation) -> PodExplanation:
        return PodExplanation(
            namespace=pod.namespace,
            name=pod.name,
            uid=pod.uid,
            profile=pod.profile,
            priority=pod.priority,
            state=pod.state,
            summary=self._summary(pod),
            now=pod.now,
            # Who may get a bound pod sees its node there.
            node=pod.node if pod.state is PodState.BOUND else self._node(pod.node),
            since=pod.since,
            queue=None if pod.queue is None else self._view(pod.queue),
            nodes=None if pod.nodes is None else self._examination(pod.nodes),
            awaits=pod.awaits,
            examined_by=pod.examined_by,
        )

    def _summary(self, pod: PodExplanation) -> str:
        if self._everything or pod.state in OWN_SUMMARIES:
            return pod.summary
        _, awaits, what = pod.summary.partition(AWAITS)
        if pod.state is PodState.BINDING and awaits:
            return f"a node was chosen{awaits}{self._text(what)}"
        return SUMMARIES[pod.state]

    def _group(self, group: GroupExplanation) -> GroupExplanation:
        """Return what is known of members, and the room of nodes to those who may see all pods."""
        if self._everything:
            return group
        attempt, coming = group.attempt, group.next
        return GroupExplanation(
            view=replace(group.view, text=self._text(group.view.text)),
            need=group.need,
            rules=group.rules,
            members=group.members,
            attempt=None
            if attempt is None
            else replace(attempt, message=self._text(attempt.message), place="", seconds=0.0),
            next=None if coming is None else replace(coming, text=self._text(coming.text)),
        )

    def _view(self, view: PodView) -> PodView:
        return PodView(
            namespace=view.namespace,
            name=view.name,
            uid=view.uid,
            profile=view.profile,
            place=view.place,
            position=None,
            attempts=view.attempts,
            timestamp=view.timestamp,
            next_retry=view.next_retry,
            next_retry_reason=self._text(view.next_retry_reason),
            gating_plugin=view.gating_plugin,
            message=self._text(view.message),
            unschedulable_plugins=view.unschedulable_plugins,
            pending_plugins=view.pending_plugins,
            nominated_node=self._node(view.nominated_node),
            last_event=self._of_others(view.last_event),
            last_hint=self._of_others(view.last_hint),
            waiting_since=view.waiting_since,
        )

    def _decision(self, decision: Decision) -> Decision:
        return Decision(
            seq=0,
            pod=decision.pod,
            uid=decision.uid,
            profile=decision.profile,
            attempt=decision.attempt,
            time=decision.time,
            queue=decision.queue,
            event=self._of_others(decision.event),
            hint_plugin=self._of_others(decision.hint_plugin),
            result=decision.result,
            node=self._node(decision.node),
            message=self._text(decision.message),
            nodes=decision.nodes,
            evaluated=decision.evaluated,
            feasible=decision.feasible,
            rejections=_merged(map(self._count, decision.rejections)),
            best=self._best(decision.best),
            victims=tuple(filter(self._is_own, decision.victims)),
            nominated_node=self._node(decision.nominated_node),
            phases=decision.phases if self._everything else {},
            bound=decision.bound,
        )

    def _count(self, count: RejectionCount) -> RejectionCount:
        return RejectionCount(
            plugin=count.plugin,
            status=count.status,
            reason=self._text(count.reason),
            nodes=count.nodes,
            detail=count.detail if self._everything else "",
        )

    def _examination(self, found: Examination) -> Examination:
        shown = Examination(
            nodes=found.nodes,
            feasible=found.feasible,
            rejections=_merged(map(self._rejection, found.rejections)),
            otherwise=_merged(map(self._rejection, found.otherwise)),
            best=self._best(found.best),
            skipped_filters=found.skipped_filters,
            skipped_scores=found.skipped_scores,
            error=self._text(found.error),
            error_plugin=found.error_plugin,
        )
        if not self._everything:
            return shown
        return replace(
            shown,
            tied=found.tied,
            weights=found.weights,
            notes=found.notes,
            explanations=found.explanations,
            evictable=found.evictable,
        )

    def _rejection(self, rejection: Rejection) -> Rejection:
        return Rejection(
            plugin=rejection.plugin,
            status=rejection.status,
            reasons=tuple(map(self._text, rejection.reasons)),
            nodes=rejection.nodes,
            examples=rejection.examples if self._reader.nodes else (),
            detail=rejection.detail if self._everything else self._own_side(rejection.reasons),
        )

    def _own_side(self, reasons: Iterable[str]) -> str:
        return "; ".join(self._wants[each] for each in reasons if each in self._wants)

    # -- values ----------------------------------------------------------------------------------

    def _node(self, name: str) -> str:
        return name if self._reader.nodes else ""

    def _best(self, best: tuple[NodeScore, ...]) -> tuple[NodeScore, ...]:
        """Return scores, which tell how busy nodes are."""
        return best if self._everything else ()

    def _of_others(self, event: str) -> str:
        return event if self._reader.pods else ""

    def _is_own(self, pod: str) -> bool:
        return self._reader.pods or pod.startswith(f"{self._reader.namespace}/")

    def _text(self, text: str) -> str:
        return text if self._everything else known_words_only(text, self._own)


def _merged(rejections: Iterable[_Rejected]) -> tuple[_Rejected, ...]:
    """Add up the nodes of rejections between which only what was left out made a difference."""
    found: dict[_Rejected, _Rejected] = {}
    for each in rejections:
        key = replace(each, nodes=0)
        same = found.get(key)
        found[key] = each if same is None else replace(same, nodes=same.nodes + each.nodes)
    return tuple(found.values())


def _counted(pods: Iterable[PodView]) -> QueueStatistics:
    """Return statistics of these pods alone; what cannot be told from them is 0 or empty."""
    counts: dict[str, Any] = {each.name: 0 for each in fields(QueueStatistics)}
    counts |= {"closed": False, "deferred_namespaces": ()}
    for pod in pods:
        counts[COUNTED_PLACES[pod.place]] += 1
    return QueueStatistics(**counts)
