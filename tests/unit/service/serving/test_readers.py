"""`restrict`: what a user gets who may only read the pods of one namespace.

The property that matters: of a page with a different text in every field, only those are in the
encoded answer that are listed here.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from devtools.filled_records import filled
from scheduler.api.pod import Pod
from scheduler.explain.records import (
    BindingView,
    Decision,
    DecisionList,
    Examination,
    ExplainPage,
    PodState,
    PodView,
    QueuePage,
    QueueState,
    QueueStatistics,
    Rejection,
    SummaryPage,
    WaitingPage,
)
from scheduler.sanitizing.vocabulary import known_words_only
from scheduler.service.serving.json_body import encode
from scheduler.service.serving.readers import (
    MAX_NAMES,
    FindPod,
    Reader,
    namespace_of,
    own_wants,
    own_words,
    restrict,
    restricted,
)
from tests.unit.cache.objects import SIGNATURES

OURS, OTHERS = "team-a", "team-b"
NARROW, WITH_NODES, ALL = Reader(OURS), Reader(OURS, nodes=True), Reader(OURS, True, True)

VIEW: Final = {"name", "uid", "profile", "gating_plugin", "unschedulable_plugins.0",
               "pending_plugins.0"}  # fmt: skip
DECISION: Final = {"uid", "profile", "queue", "rejections.0.plugin", "rejections.0.status"}
POD: Final = {"name", "uid", "profile", "since", "awaits.0.plugin", "awaits.0.events.0",
              "nodes.error_plugin", "nodes.rejections.0.plugin", "nodes.rejections.0.status",
              "nodes.otherwise.0.plugin", "nodes.otherwise.0.status",
              "nodes.skipped_filters.0", "nodes.skipped_scores.0"}  # fmt: skip
GROUP: Final = {"view.group", "view.source", "view.stage", "rules.resource", "rules.required_key",
                "rules.preferred_keys.0", "rules.disruption", "rules.ignored.0",
                "members.0.state", "members.0.examples.0"}  # fmt: skip
SEEN: Final[dict[type[Any], set[str]]] = {
    QueuePage: {*(f"pods.0.{each}" for each in VIEW), "binding.0.name", "binding.0.uid"},
    DecisionList: {f"decisions.0.{each}" for each in DECISION},
    ExplainPage: {
        *(f"decisions.0.{each}" for each in DECISION),
        *(f"pod.{each}" for each in POD),
        *(f"pod.queue.{each}" for each in VIEW),
        *(f"group.{each}" for each in GROUP),
        *("pod.node", "pod.summary", "pod.examined_by"),
    },
    WaitingPage: {
        *("headline", "causes.0.cause", "causes.0.text"),
        *("groups.0.owner", "groups.0.cause", "groups.0.pod"),
        *("pods.0.owner", "pods.0.cause", "others.0.name", "others.0.near"),
        *(f"pods.0.pod.{each}" for each in VIEW),
    },
}
"""The texts that everybody sees who may get the pods of the namespace."""
SEEN_WITH_NODES: Final[dict[type[Any], set[str]]] = {
    QueuePage: {"pods.0.nominated_node", "binding.0.node"},
    WaitingPage: {"pods.0.pod.nominated_node"},
    DecisionList: {"decisions.0.node", "decisions.0.nominated_node"},
    ExplainPage: {
        *("decisions.0.node", "decisions.0.nominated_node"),
        *("pod.queue.nominated_node", "pod.nodes.rejections.0.examples.0"),
        "pod.nodes.otherwise.0.examples.0",
    },
}


def marked(kind: type[Any], variant: int) -> Any:
    """Return a page in which each text is a word that names its field."""

    def text(path: str) -> str:
        if path.endswith("namespace"):
            return OURS
        return f"{OURS}/Q{_coded(path)}Q" if path == "decisions.0.pod" else f"Q{_coded(path)}Q"

    return filled(kind, text, variant=variant)


def _coded(path: str) -> str:
    return path.encode().hex()


def found_in(page: object) -> set[str]:
    """Return the fields of the texts in a page."""
    texts = re.findall(r"Q([0-9a-f]+)Q", encode(page).decode())
    return {bytes.fromhex(each).decode() for each in texts} - {"decisions.0.pod"}


@pytest.mark.parametrize("variant", range(8))
@pytest.mark.parametrize("kind", SEEN, ids=lambda kind: str(kind.__name__))
def test_only_texts_of_listed_fields_are_in_an_answer(kind: type[Any], variant: int) -> None:
    page = marked(kind, variant)
    assert found_in(page) - found_in(restrict(page, WITH_NODES, ()))
    assert found_in(restrict(page, NARROW, ())) <= SEEN[kind]
    assert found_in(restrict(page, WITH_NODES, ())) <= SEEN[kind] | SEEN_WITH_NODES[kind]


@pytest.mark.parametrize("state", PodState)
def test_the_node_is_shown_of_a_bound_pod_alone(state: PodState) -> None:
    page = marked(ExplainPage, 0)
    page = msgspec.structs.replace(page, pod=replace(page.pod, state=state))
    shown: Any = restrict(page, NARROW, ())
    assert bool(shown.pod.node) is (state is PodState.BOUND)


@pytest.mark.parametrize("kind", SEEN, ids=lambda kind: str(kind.__name__))
def test_the_listed_fields_are_shown(kind: type[Any]) -> None:
    """So that the lists above have no field that nobody sees."""
    page = marked(kind, 0)
    assert found_in(restrict(page, NARROW, ())) == SEEN[kind]
    assert found_in(restrict(page, WITH_NODES, ())) == SEEN[kind] | SEEN_WITH_NODES[kind]
    assert found_in(restrict(page, ALL, ())) > SEEN[kind] | SEEN_WITH_NODES[kind]


@pytest.mark.parametrize("reader", [NARROW, WITH_NODES, ALL])
def test_no_number_of_all_pods_is_in_an_answer(reader: Reader) -> None:
    """Positions, sequence numbers and counts: with 1 in every field, none is left."""
    queue = msgspec.to_builtins(restrict(marked(QueuePage, 1), reader, ()))
    (view,) = queue["pods"]
    assert view["position"] is None
    counts = {key: each for key, each in queue["statistics"].items() if each}
    assert len(counts) == 1, "of the one pod"
    decided = msgspec.to_builtins(restrict(marked(DecisionList, 1), reader, ()))
    assert (decided["lastSeq"], decided["rememberedPods"]) == (0, 0)
    (decision,) = decided["decisions"]
    assert decision["seq"] == 0
    assert bool(decision["phases"]) == bool(decision["best"]) == (reader is ALL)


def test_whether_evictions_would_help_is_told_to_who_may_see_all_pods() -> None:
    rejection = Rejection("P", "Unschedulable", ("Insufficient cpu",), 3, ())
    nodes = Examination(3, 0, (rejection,), evictable=0)
    page = marked(ExplainPage, 0)
    queued = replace(page.pod, state=PodState.QUEUED, nodes=nodes)
    assert queued.queue is not None
    view = replace(queued.queue, place=QueueState.UNSCHEDULABLE, nominated_node="")
    page = msgspec.structs.replace(page, pod=replace(queued, queue=view))
    seen: Any = restrict(page, ALL, ())
    assert any("Preemption would not help" in each for each in seen.story)
    for reader in (NARROW, WITH_NODES):
        narrowed: Any = restrict(page, reader, ())
        assert not any("help" in each for each in narrowed.story[:-1])
        assert "pods of lower priority" in narrowed.story[-1]


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("bound to node n1 since noon", "bound to node … since …"),
        ("on ip-10-0-0-1.ec2.internal.", "on …."),
        ("kubernetes.io/hostname=n1", "…=…"),
        ("victims team-b/db-0 and team-b/unknown", "victims … and …"),
        ("our team-a/web-0 and web-0", "… team-a/web-0 and web-0"),
        ("0/3 nodes are available: 1 Insufficient example.com/gpu.",) * 2,
        ("0/3 nodes are available: 1 Insufficient example.com/tpu.",
         "0/3 nodes are available: 1 Insufficient …."),
        ("until PersistentVolumeClaim db-files is provisioned (provisioner x.io/csi)",
         "until PersistentVolumeClaim … is provisioned (provisioner …)"),
        ("nœud-1 节点", "n…… …"),
        ("", ""),
    ],
)  # fmt: skip
def test_texts_keep_our_words_and_those_of_own_pods(given: str, shown: str) -> None:
    own = own_words(queue_of(view("web-0")), OURS, pods_with(requests={"example.com/gpu": "1"}))
    (found,) = pods_of(restrict(queue_of(view("web-0", message=given)), NARROW, own))
    assert found.message == shown
    (whole,) = pods_of(restrict(queue_of(view("web-0", message=given)), ALL, own))
    assert whole.message == given


@given(st.text(), st.lists(st.from_regex(r"q[a-z0-9.-]{0,9}q", fullmatch=True), min_size=2))
def test_a_text_does_not_tell_which_names_exist(text: str, names: list[str]) -> None:
    """Two names that nobody owns are left out in the same way."""
    shown = {known_words_only(f"{text} {name}, {name}/{name}={name}", ()) for name in names}
    assert len(shown) == 1


@pytest.mark.parametrize(
    ("path", "query", "namespace"),
    [
        ("/debug/explain", {"pod": "team-a/web"}, "team-a"),
        ("/debug/decisions", {"pod": "team-a/web"}, "team-a"),
        ("/debug/queue", {"namespace": "team-a"}, "team-a"),
        ("/debug/queue", {"pod": "team-a/web"}, ""),
        ("/debug/queue", {"namespace": "team-a/.."}, ""),
        ("/debug/queue", {"namespace": "x" * 64}, ""),
        ("/debug/explain", {"pod": "/web"}, ""),
        ("/debug/decisions", {}, ""),
        ("/debug/statistics", {"namespace": "team-a"}, ""),
        ("/debug/nodes", {"namespace": "team-a"}, ""),
        ("/debug/bundle", {"namespace": "team-a"}, ""),
        ("/metrics", {"namespace": "team-a"}, ""),
    ],
)
def test_only_three_pages_are_about_one_namespace(
    path: str, query: dict[str, str], namespace: str
) -> None:
    assert namespace_of(path, query) == namespace


def test_a_parameter_that_such_a_page_does_not_know_is_dropped() -> None:
    assert restricted({"pod": "team-a/web", "node": "n1"}) == {"pod": "team-a/web"}


def view(name: str, place: QueueState = QueueState.ACTIVE, **changes: Any) -> PodView:
    """Return a waiting pod of ours."""
    given: dict[str, Any] = {"namespace": OURS, "name": name, "place": place, "position": 41}
    made: PodView = filled(PodView, lambda _: "x")
    return replace(made, **given | changes)


def queue_of(*views: PodView) -> QueuePage:
    statistics = filled(QueueStatistics, lambda _: "x", variant=1)
    return QueuePage(now=1.0, leading=True, namespace="", limit=9, statistics=statistics,
                     pods=list(views))  # fmt: skip


def pods_of(page: object) -> list[PodView]:
    assert isinstance(page, QueuePage)
    return page.pods


def test_a_queue_shows_the_pods_of_the_namespace_and_counts_only_these() -> None:
    page = queue_of(
        view("web-0"), view("db-0", namespace=OTHERS), view("web-1", QueueState.IN_FLIGHT)
    )
    found = restrict(page, NARROW, ())
    assert isinstance(found, QueuePage)
    assert [each.name for each in found.pods] == ["web-0", "web-1"]
    assert {each.position for each in found.pods} == {None}
    assert (found.statistics.active, found.statistics.in_flight) == (1, 1)
    assert (found.statistics.events, found.statistics.scheduling_cycle) == (0, 0)


def pods_with(*, request: int = 1, **spec: Any) -> FindPod:
    """Return how to find pods of ours with this spec; each requests a resource."""
    requests = {f"example.com/r{number}": "1" for number in range(request)}
    container = {"name": "c", "resources": {"requests": spec.pop("requests", requests)}}

    def find(namespace: str, name: str) -> Pod:
        metadata = {"namespace": namespace, "name": name, "uid": name}
        raw = {"metadata": metadata, "spec": {"containers": [container], **spec}}
        made = msgspec.convert(raw, Pod)
        SIGNATURES.intern(made)
        return made

    return find


def explained(name: str) -> ExplainPage:
    page: ExplainPage = filled(ExplainPage, lambda _: "x")
    return msgspec.structs.replace(page, pod=replace(page.pod, namespace=OURS, name=name))


def test_few_names_that_a_pod_requests_are_looked_up() -> None:
    find_pod = pods_with(request=6000)
    assert len(own_words(queue_of(view("web-0")), OURS, find_pod)) == 2 + MAX_NAMES


def _claims(number: int) -> list[dict[str, Any]]:
    named = (f"claim-{at}" for at in range(number))
    return [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in named]


def _required(**term: Any) -> dict[str, Any]:
    terms = {"nodeSelectorTerms": [term]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"volumes": _claims(1)}, {"claim-0"}),
        ({"volumes": [{"name": "scratch", "ephemeral": {}}]}, {"web-0-scratch"}),
        ({"volumes": [{"name": "v", "csi": {"driver": "x.io/csi"}}]}, {"x.io/csi"}),
        ({"schedulingGates": [{"name": "example.com/quota"}]}, {"example.com/quota"}),
        ({"resourceClaims": [{"name": "gpu", "resourceClaimName": "our-gpu"}]}, {"gpu", "our-gpu"}),
        ({"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "made"}]},
         {"gpu", "made"}),
        ({"schedulingGroup": {"podGroupName": "train"}}, {"train"}),
        ({"nodeSelector": {"pool": "gold"}}, {"pool", "gold"}),
        ({"affinity": _required(matchExpressions=[
            {"key": "zone", "operator": "In", "values": ["a1", "b1"]}])}, {"zone", "a1", "b1"}),
        ({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "example.com/rack"}]}}}, {"example.com/rack"}),
        ({"tolerations": [{"key": "team", "value": "pay"}]}, {"team", "pay"}),
        ({"topologySpreadConstraints": [{"topologyKey": "example.com/row"}]}, {"example.com/row"}),
    ],
)  # fmt: skip
def test_the_names_in_the_spec_of_a_pod_are_own_words_of_the_page_about_it(
    spec: dict[str, Any], words: set[str]
) -> None:
    find_pod = pods_with(**spec)
    least = {OURS, "web-0", "example.com/r0"}
    assert own_words(explained("web-0"), OURS, find_pod) - {""} == least | words
    assert own_words(queue_of(view("web-0")), OURS, find_pod) == least


@pytest.mark.parametrize(
    "spec",
    [
        {"volumes": _claims(3000)},
        {"schedulingGates": [{"name": f"g{at}"} for at in range(3000)]},
        {"nodeSelector": {f"k{at}": "v" for at in range(3000)}},
        {"affinity": _required(matchFields=[
            {"key": "metadata.name", "operator": "In", "values": [f"n{at}" for at in range(3000)]}
        ])},
    ],
)  # fmt: skip
def test_few_names_of_each_kind_are_own_words(spec: dict[str, Any]) -> None:
    assert len(own_words(explained("web-0"), OURS, pods_with(**spec))) <= 3 + MAX_NAMES


def _near(kind: str, *terms: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}}


LABELS: Final = "node(s) didn't match Pod's node affinity/selector"
NO_DOMAIN: Final = "node(s) didn't match pod topology spread constraints (missing required label)"
ZONE: Final = "topology.kubernetes.io/zone"
NOT_NEAR: Final = "node(s) didn't match pod affinity rules"
TOO_NEAR: Final = "node(s) didn't match pod anti-affinity rules"
OF_OTHERS: Final = "node(s) didn't satisfy existing pods anti-affinity rules"
UNBOUND: Final = "pod has unbound immediate PersistentVolumeClaims"
CACHE: Final = {"labelSelector": {"matchLabels": {"app": "cache"}}, "topologyKey": "host"}


@pytest.mark.parametrize(
    ("spec", "reason", "wanted"),
    [
        ({"requests": {"cpu": "12"}}, "Insufficient cpu", "wants 12 cpu"),
        ({"requests": {"memory": "6Gi"}}, "Insufficient memory", "wants 6Gi memory"),
        ({"requests": {"example.com/gpu": "2"}}, "Insufficient example.com/gpu",
         "wants 2 example.com/gpu"),
        ({}, "Insufficient cpu", ""),
        ({}, "Insufficient other resources", ""),
        ({}, "Too many pods", ""),
        ({"nodeSelector": {"zone": "a1"}}, LABELS, "wants zone=a1"),
        ({"affinity": _required(matchExpressions=[
            {"key": "zone", "operator": "In", "values": ["a1", "b1"]},
            {"key": "gpu", "operator": "Exists"}])}, LABELS,
         "wants zone In a1, b1; wants gpu Exists"),
        ({"nodeSelector": {f"k{at}": "v" for at in range(3000)}}, LABELS,
         "; ".join(f"wants k{at}=v" for at in range(5))),
        ({"nodeSelector": {f"{ZONE}s": "b"}}, LABELS, f"wants {ZONE}s=b (did you mean {ZONE}?)"),
        ({"nodeSelector": {ZONE: "b", "example.com/zone": "b"}}, LABELS,
         f"wants {ZONE}=b; wants example.com/zone=b"),
        ({"affinity": _required(matchExpressions=[
            {"key": "kubernets.io/arch", "operator": "Exists"}])}, LABELS,
         "wants kubernets.io/arch Exists (did you mean kubernetes.io/arch?)"),
        ({"topologySpreadConstraints": [
            {"topologyKey": "topology.kubernetes.io/zne", "whenUnsatisfiable": "DoNotSchedule"},
            {"topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"},
            {"topologyKey": "row", "whenUnsatisfiable": "ScheduleAnyway"}]}, NO_DOMAIN,
         f"wants label topology.kubernetes.io/zne (did you mean {ZONE}?); wants label rack"),
        (_near("podAffinity", CACHE | {"topologyKey": "kubernetes.io/hostnam"}), NOT_NEAR,
         "wants app=cache by kubernetes.io/hostnam (did you mean kubernetes.io/hostname?)"),
        (_near("podAffinity", CACHE), NOT_NEAR, "wants app=cache by host"),
        (_near("podAntiAffinity", CACHE), TOO_NEAR, "wants no app=cache by host"),
        (_near("podAntiAffinity", CACHE), NOT_NEAR, ""),
        (_near("podAntiAffinity", CACHE), OF_OTHERS, ""),
        ({}, NOT_NEAR, ""),
        (_near("podAffinity", {"topologyKey": "host"},
               {"topologyKey": "rack", "labelSelector": {}}), NOT_NEAR,
         "wants pod of no labelSelector by host; wants pod by rack"),
        (_near("podAffinity", *[{"topologyKey": f"k{at}", "labelSelector": {
            "matchLabels": {f"l{at}": "v" for at in range(3000)}}} for at in range(20)]), NOT_NEAR,
         "; ".join(f"wants l0=v, l1=v, l2=v, l3=v, l4=v by k{at}" for at in range(5))),
        (_near("podAffinity", {"topologyKey": "host", "labelSelector": {"matchExpressions": [
            {"key": "a", "operator": "In", "values": [f"v{at}" for at in range(3000)]},
            {"key": "b", "operator": "Exists"}]}}), NOT_NEAR,
         "wants a In v0, v1, v2, v3, v4, b Exists by host"),
        ({"volumes": _claims(1)}, UNBOUND, "claim claim-0"),
        ({"volumes": [{"name": "scratch", "ephemeral": {}}]}, UNBOUND, "claim web-0-scratch"),
        ({"volumes": _claims(3000)}, UNBOUND,
         "claims claim-0, claim-1, claim-2, claim-3, claim-4"),
        ({}, UNBOUND, ""),
        ({"volumes": _claims(1)}, "node(s) didn't find available persistent volumes to bind",
         "claim claim-0"),
    ],
)  # fmt: skip
def test_a_reason_has_the_own_side_of_the_pod_and_no_number_of_a_node(
    spec: dict[str, Any], reason: str, wanted: str
) -> None:
    rejection = Rejection("P", "Unschedulable", (reason,), 3, ("n1",), detail="most free: 3 (n1)")
    page = explained("web-0")
    nodes = Examination(3, 0, (rejection,), otherwise=(rejection,))
    page = msgspec.structs.replace(page, pod=replace(page.pod, nodes=nodes))
    wants = own_wants(page, pods_with(**spec))
    shown: Any = restrict(page, NARROW, (), wants)
    found = [each.detail for each in (*shown.pod.nodes.rejections, *shown.pod.nodes.otherwise)]
    assert found == [wanted] * 2


def test_rejections_that_are_alike_without_what_is_left_out_are_added_up() -> None:
    first = Rejection("P", "Unschedulable", ("Insufficient cpu",), 4, ("n1",), detail="free: 3")
    nodes = Examination(6, 0, (
        first, replace(first, nodes=1, examples=("n2",), detail="free: 2"),
        replace(first, nodes=1, status="Pending", only_nominated=True),
    ))  # fmt: skip
    page = explained("web-0")
    page = msgspec.structs.replace(page, pod=replace(page.pod, nodes=nodes))
    shown: Any = restrict(page, NARROW, ())
    assert [each.nodes for each in shown.pod.nodes.rejections] == [5, 1]
    whole: Any = restrict(page, ALL, ())
    assert [each.nodes for each in whole.pod.nodes.rejections] == [4, 1, 1]


PROVISIONED: Final = (
    "until PersistentVolumeClaim our-data is provisioned (provisioner x.io/csi), for at most 10m"
)


@pytest.mark.parametrize(
    ("state", "summary", "told"),
    [
        (PodState.BOUND, "bound to node n1 since noon", "Bound to node n1 since noon."),
        (PodState.NOT_OURS, 'not ours: schedulerName is "kubestw"; did you mean "kubestow"?',
         'Not ours: schedulerName is "kubestw"; did you mean "kubestow"?.'),
        (PodState.BINDING, "node n1 was chosen", "A node was chosen; the binding is under way."),
        (PodState.BINDING, f"node n1 was chosen 5s ago; its binding waits {PROVISIONED}",
         f"A node was chosen; its binding waits {PROVISIONED.replace('x.io/csi', '…')}."),
        (PodState.BINDING, "node n1 was chosen; its binding waits for n1 of claim other-data",
         "A node was chosen; its binding waits for … of claim …"),
        (PodState.WAITING_AT_PERMIT, "node n1 was chosen; its binding waits for n1",
         "A node was chosen; the pod waits at Permit."),
        (PodState.TERMINATING, "n1", "Being deleted: it will not be scheduled."),
    ],
)  # fmt: skip
def test_a_story_begins_with_what_the_pod_itself_says(
    state: PodState, summary: str, told: str
) -> None:
    page = explained("web-0")
    pod = replace(page.pod, state=state, summary=summary, node="", queue=None)
    found: Any = restrict(msgspec.structs.replace(page, pod=pod), NARROW, {"our-data"})
    assert found.story[0] == told


def test_a_queue_shows_the_bindings_of_the_namespace_in_known_words() -> None:
    made: BindingView = filled(BindingView, lambda _: "x")
    text = "node n1 was chosen; the binding is under way"
    ours = replace(made, namespace=OURS, name="web-0", node="n1", text=text)
    page = msgspec.structs.replace(queue_of(), binding=[ours, replace(ours, namespace=OTHERS)])
    found = restrict(page, NARROW, ())
    assert isinstance(found, QueuePage)
    (shown,) = found.binding
    assert (shown.namespace, shown.name, shown.node) == (OURS, "web-0", "")
    assert "n1" not in shown.text
    assert shown.text.endswith("was chosen; the binding is under way")


def decided(pod: str) -> Decision:
    victims = (f"{OTHERS}/db-0", f"{OURS}/web-0", f"{OURS}-2/web-0")
    made: Decision = filled(Decision, lambda _: "x")
    return replace(made, pod=pod, victims=victims)


def test_decisions_are_those_of_the_namespace_with_own_victims() -> None:
    decisions = (decided(f"{OURS}/web-0"), decided(f"{OTHERS}/db-0"), decided(f"{OURS}-2/a"))
    page = DecisionList(now=1.0, leading=True, last_seq=9, remembered_pods=9, decisions=decisions)
    found = restrict(page, NARROW, ())
    assert isinstance(found, DecisionList)
    assert [each.pod for each in found.decisions] == [f"{OURS}/web-0"]
    assert found.decisions[0].victims == (f"{OURS}/web-0",)


def test_the_story_of_a_page_is_told_from_what_its_reader_may_know() -> None:
    page = marked(ExplainPage, 0)
    shown = restrict(page, NARROW, ())
    assert isinstance(shown, ExplainPage)
    assert shown.story != page.story
    assert shown.story
    assert shown.remedies is None


@pytest.mark.parametrize(
    "page",
    [
        filled(SummaryPage, lambda _: "x"),
        filled(ExplainPage, lambda _: OTHERS),
        {"kind": "QueueList", "pods": []},
    ],
)
def test_another_page_is_never_shown(page: object) -> None:
    with pytest.raises(ValueError, match="namespace"):
        restrict(page, ALL, ())
