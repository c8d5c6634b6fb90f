"""DefaultPreemption: who may preempt, what is written, what happens to victims, the gate.

Facts 92 to 94 and 104 to 113 of framework-cycle-config.md; the search itself is tested with the
engine.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any

import pytest

from plugins.default_preemption import DefaultPreemption, DefaultPreemptionArgs
from scheduler.api import Pod
from scheduler.api.meta import Condition
from scheduler.framework import (
    CLEAR_NOMINATION,
    ActionType,
    ClusterEvent,
    Code,
    ConfigurationError,
    CycleState,
    EventResource,
    NodeToStatus,
    NominatingInfo,
    PostFilterOutcome,
    PostFilterResult,
    QueuedPodInfo,
    QueueingHint,
    unresolvable,
    unschedulable,
)
from scheduler.framework.preemption import Candidate, PreemptionFinding, PreemptionRules
from tests.unit.plugins.clusters import Cluster, node
from tests.unit.plugins.clusters import pod as plain_pod

DISRUPTED = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
WAITING = "waiting for the preemption for this pod to be finished"


def pod(name: str, priority: int = 0, **parts: Any) -> Pod:
    """A pod called `name`, which is its UID, too."""
    metadata = {"name": name, "namespace": "default", "uid": name, **parts.pop("metadata", {})}
    spec = {"priority": priority, "schedulerName": "kubestow", **parts.pop("spec", {})}
    return plain_pod(spec, metadata=metadata, **parts)


class Waiting:
    """A pod that waits at Permit."""

    def __init__(self, *, over: bool) -> None:
        self.over = over
        self.told: list[str] = []

    def preempt(self, plugin: str, message: str) -> bool:
        self.told.append(f"{plugin}: {message}")
        return not self.over


class Desk:
    """Implements as much of `framework.Handle` as the plugin uses, and writes everything down.

    Background work runs at once, or by `go` when `held`: nothing here ever suspends it.
    """

    def __init__(self, **gates: bool) -> None:
        self.feature_gates: Mapping[str, bool] = gates
        self.cluster = Cluster([node("n1"), node("n2")])
        self.table = self.cluster.table
        self.pods: dict[str, Pod] = {}
        self.nominated: dict[str, list[Pod]] = {}
        self.finding = PreemptionFinding(message="0/2 nodes are available: 2 Full.")
        self.rules: PreemptionRules | None = None
        self.observed: list[int] = []
        self.waiting: dict[str, Waiting] = {}
        self.in_pre_bind: set[str] = set()
        #: By pod name, what the API server makes of an eviction (True) or of a patch (None).
        self.answers: dict[str, bool | Exception] = {}
        #: Everything written, in order.
        self.log: list[str] = []
        self.conditions: list[Condition] = []
        self.problems: list[BaseException] = []
        self.held: list[Coroutine[Any, Any, None]] | None = None
        #: Called before each eviction.
        self.meanwhile: Callable[[], None] = lambda: None
        self.preemption = self.api = self.events = self.nominator = self.listers = self

    # -- listers, nominator ----------------------------------------------------------------------

    def __getitem__(self, plural: str) -> Desk:
        assert plural == "pods"
        return self

    def get(self, name: str, namespace: str = "") -> Pod | None:
        return self.pods.get(name)

    def nominated_pods_for_node(self, node_name: str) -> Sequence[Pod]:
        return self.nominated.get(node_name, [])

    # -- PreemptionSearch ------------------------------------------------------------------------

    def find(
        self, state: CycleState, pod: Pod, statuses: NodeToStatus, rules: PreemptionRules
    ) -> PreemptionFinding:
        self.rules = rules
        return self.finding

    def own(self, pod: Pod) -> bool:
        return pod.spec.scheduler_name != "somebody-else"

    def observe(self, victims: int) -> None:
        self.observed.append(victims)

    # -- writing ---------------------------------------------------------------------------------

    async def evict(
        self, pods: Sequence[Pod], condition: Condition
    ) -> Sequence[bool | BaseException]:
        self.meanwhile()
        self.conditions.append(condition)
        self.log.append("evict " + " ".join(each.metadata.name for each in pods))
        return [self.answers.get(each.metadata.name, True) for each in pods]

    async def patch(
        self, plural: str, name: str, namespace: str, body: Mapping[str, Any], subresource: str = ""
    ) -> None:
        assert (plural, namespace, subresource) == ("pods", "default", "status")
        assert body == {"metadata": {"uid": name}, "status": {"nominatedNodeName": None}}
        self.log.append(f"clear {name}")
        answer = self.answers.get(name)
        if isinstance(answer, Exception):
            raise answer

    def record(self, regarding: Pod, *words: str | Pod) -> None:
        *kind, note, related = words
        assert kind == ["Normal", "Preempted", "Preempting"]
        assert isinstance(related, Pod)
        assert note == f"Preempted by pod {related.metadata.uid} on node n1"
        self.log.append(f"tell {regarding.metadata.name}")

    def activate(self, pods: Iterable[Pod]) -> None:
        self.log += [f"activate {each.metadata.name}" for each in pods]

    # -- pods on their way -----------------------------------------------------------------------

    def waiting_pod(self, uid: str) -> Waiting | None:
        return self.waiting.get(uid)

    def preempt_binding(self, uid: str, message: str) -> bool:
        assert message == "preempted by DefaultPreemption"
        return uid in self.in_pre_bind

    def run_in_background(self, work: Coroutine[Any, Any, None], name: str) -> None:
        if self.held is not None:
            self.held.append(work)
        else:
            self._run(work)

    def go(self) -> None:
        for work in self.held or ():
            self._run(work)
        self.held = None

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            work.send(None)
        except StopIteration:
            return
        except ExceptionGroup as error:
            self.problems.append(error)
            return
        work.close()
        raise AssertionError("background work awaits something that never comes")


def preemptor(desk: Desk, **parts: Any) -> Pod:
    made = pod("p", 100, **parts)
    desk.pods["p"] = made
    return made


def choose(desk: Desk, *victims: Pod) -> None:
    """Let the search find these victims, which the informer knows."""
    desk.pods.update({each.metadata.name: each for each in victims})
    desk.finding = PreemptionFinding(chosen=Candidate("n1", victims, 0))


def build(desk: Desk, args: DefaultPreemptionArgs | None = None) -> DefaultPreemption:
    handle: Any = desk
    return DefaultPreemption(args, handle)


def run(desk: Desk, pod: Pod, statuses: NodeToStatus | None = None) -> PostFilterResult:
    return ask(build(desk), pod, statuses)


def ask(
    plugin: DefaultPreemption, pod: Pod, statuses: NodeToStatus | None = None
) -> PostFilterResult:
    """PostFilter, where no extender has a say."""
    answer = plugin.post_filter(CycleState(), pod, statuses or NodeToStatus())
    assert isinstance(answer, PostFilterResult)
    return answer


# -- answers -------------------------------------------------------------------------------------


def test_success_nominates_and_says_nothing() -> None:
    desk = Desk()
    choose(desk, pod("v"))
    result = run(desk, preemptor(desk))
    assert result == PostFilterResult(None, NominatingInfo("n1"), PostFilterOutcome.NOMINATED)
    assert desk.log == ["evict v", "tell v"]
    assert desk.observed == [1]


def test_no_candidate_clears_the_nomination() -> None:
    desk = Desk()
    result = run(desk, preemptor(desk))
    assert result == PostFilterResult(
        unschedulable("preemption: 0/2 nodes are available: 2 Full."),
        CLEAR_NOMINATION,
        PostFilterOutcome.FAILED,
    )
    assert desk.observed == [0]


def test_errors_leave_the_nomination_alone() -> None:
    desk = Desk()
    desk.finding = PreemptionFinding(error="broken")
    result = run(desk, preemptor(desk))
    assert result.status is not None
    assert (result.status.code, result.status.message) == (Code.ERROR, "preemption: broken")
    assert result.nominating is None


@pytest.mark.parametrize("known", [None, "another UID"])
def test_a_pod_that_is_gone_does_not_preempt(known: str | None) -> None:
    desk = Desk()
    if known:
        desk.pods["p"] = pod("p", metadata={"uid": known})
    result = run(desk, pod("p", 100))
    assert result.status is not None
    assert result.status.message == 'preemption: pod "p" not found'
    assert desk.rules is None
    assert desk.observed == [0]


# -- eligibility ---------------------------------------------------------------------------------


def ending(priority: int = 0, *conditions: Mapping[str, str]) -> Pod:
    return pod(
        "ending",
        priority,
        metadata={"deletionTimestamp": "2025-01-01T00:00:00Z"},
        status={"conditions": list(conditions)},
    )


def test_preemption_policy_never() -> None:
    desk = Desk()
    result = run(desk, preemptor(desk, spec={"preemptionPolicy": "Never"}))
    assert result == PostFilterResult(
        unschedulable("preemption: not eligible due to preemptionPolicy=Never."),
        None,
        PostFilterOutcome.INELIGIBLE,
    )
    assert desk.observed == [0]


U, UU = unschedulable("x"), unresolvable("x")


@pytest.mark.parametrize(
    ("nominated", "status", "there", "eligible"),
    [
        ("n1", U, ending(0, DISRUPTED), False),
        ("n1", UU, ending(0, DISRUPTED), True),
        ("n2", U, ending(0, DISRUPTED), True),
        ("gone", U, ending(0, DISRUPTED), True),
        ("", U, ending(0, DISRUPTED), True),
        ("n1", U, ending(100, DISRUPTED), True),
        ("n1", U, ending(), True),
        ("n1", U, ending(0, {**DISRUPTED, "reason": "DeletionByTaintManager"}), True),
        ("n1", U, ending(0, {**DISRUPTED, "status": "False"}), True),
        ("n1", U, pod("staying", status={"conditions": [DISRUPTED]}), True),
    ],
)
def test_an_ending_victim_on_the_nominated_node_is_waited_for(
    nominated: str, status: Any, there: Pod, *, eligible: bool
) -> None:
    desk = Desk()
    desk.cluster.place(there, "n1")
    incoming = preemptor(desk, status={"nominatedNodeName": nominated})
    result = run(desk, incoming, NodeToStatus(dict.fromkeys(("n1", "n2", "gone"), status)))
    assert (desk.rules is not None) == eligible
    if not eligible:
        assert result == PostFilterResult(
            unschedulable(
                "preemption: not eligible due to a terminating pod on the nominated node."
            ),
            None,
            PostFilterOutcome.NOMINATED,
        )


# -- victims -------------------------------------------------------------------------------------


def test_the_last_victim_goes_after_all_others() -> None:
    desk = Desk()
    choose(desk, pod("a", 3), pod("b", 2), pod("c", 1))
    run(desk, preemptor(desk))
    assert desk.log == ["evict a b", "tell a", "tell b", "evict c", "tell c"]
    assert desk.conditions[0] == Condition(
        type="DisruptionTarget",
        status="True",
        reason="PreemptionByScheduler",
        message="kubestow: preempting to accommodate a higher priority pod",
    )


def test_victims_that_are_leaving_already_are_left_alone() -> None:
    desk = Desk()
    choose(desk, ending())
    plugin, incoming = build(desk), preemptor(desk)
    assert ask(plugin, incoming).nominating == NominatingInfo("n1")
    assert desk.log == []
    assert desk.observed == [0]
    assert plugin.pre_enqueue(incoming) is None
    choose(desk, ending(), pod("v"))
    run(desk, incoming)
    assert desk.log == ["evict v", "tell v"]
    assert desk.observed == [0, 2]


def test_an_eviction_that_fails_spares_the_last_victim_and_retries() -> None:
    desk = Desk()
    choose(desk, pod("a"), pod("b"), pod("c"))
    desk.answers["a"] = RuntimeError("no")
    plugin, incoming = build(desk), preemptor(desk)
    plugin.post_filter(CycleState(), incoming, NodeToStatus())
    assert desk.log == ["evict a b", "tell b", "activate p"]
    assert plugin.pre_enqueue(incoming) is None
    assert "preempting pods on node n1 for default/p" in str(desk.problems[0])


@pytest.mark.parametrize(
    ("failing", "outcome"),
    [
        ("a", PostFilterOutcome.ERROR),
        ("b", PostFilterOutcome.ERROR),
        ("", PostFilterOutcome.NOMINATED),
    ],
)
def test_failed_evictions_change_the_outcome_of_the_attempt(
    failing: str, outcome: PostFilterOutcome
) -> None:
    """KEP-3990 rule S6: known before the pod is activated."""
    desk = Desk()
    choose(desk, pod("a"), pod("b"))
    if failing:
        desk.answers[failing] = RuntimeError("no")
    plugin, incoming, state = build(desk), preemptor(desk), CycleState()
    state.info = QueuedPodInfo(incoming, 0.0, attempts=1, post_filter=PostFilterOutcome.NOMINATED)
    plugin.post_filter(state, incoming, NodeToStatus())
    assert state.info.post_filter is outcome


def test_the_last_eviction_that_fails_retries() -> None:
    desk = Desk()
    choose(desk, pod("a"), pod("b"))
    desk.answers["b"] = RuntimeError("no")
    run(desk, preemptor(desk))
    assert desk.log == ["evict a", "tell a", "evict b", "activate p"]
    assert len(desk.problems) == 1


def test_a_victim_that_is_gone_is_no_failure() -> None:
    """But nobody may hear of its deletion any more, so the preemptor is tried again."""
    desk = Desk()
    choose(desk, pod("a"), pod("b"))
    desk.answers.update(a=False, b=False)
    run(desk, preemptor(desk))
    assert desk.log == ["evict a", "evict b", "activate p"]
    assert desk.problems == []


def test_victims_that_are_not_bound_yet_are_stopped_in_memory() -> None:
    desk = Desk()
    choose(desk, pod("waiting"), pod("late"), pod("binding"))
    desk.waiting = {"waiting": Waiting(over=False), "late": Waiting(over=True)}
    desk.in_pre_bind = {"binding"}
    run(desk, preemptor(desk))
    assert desk.log == ["tell waiting", "evict late", "tell late", "tell binding"]
    assert desk.waiting["waiting"].told == ["DefaultPreemption: preempted"]


def test_lower_nominations_end_first() -> None:
    desk = Desk()
    nominated = {"nominatedNodeName": "n1"}
    desk.nominated["n1"] = [
        pod("lower", 50, status=nominated),
        pod("only-in-memory", 50),
        pod("equal", 100, status=nominated),
        pod("broken", 1, status=nominated),
    ]
    desk.answers["broken"] = RuntimeError("no")
    choose(desk, pod("v"))
    run(desk, preemptor(desk))
    assert desk.log == ["clear lower", "clear broken", "evict v", "tell v", "activate p"]


# -- the gate ------------------------------------------------------------------------------------


def test_the_preemptor_is_held_back_until_its_last_victim_is_going() -> None:
    desk = Desk()
    first, last = pod("first"), pod("last")
    choose(desk, first, last)
    plugin, incoming = build(desk), preemptor(desk)
    desk.held = []
    seen: list[str] = []

    def gate() -> str:
        status = plugin.pre_enqueue(incoming)
        assert plugin.held(last) == ({incoming.uid} if status else set())
        return "" if status is None else status.message

    def look() -> None:
        seen.append(gate())
        desk.pods["last"] = pod("last", metadata={"deletionTimestamp": "2025-01-01T00:00:00Z"})
        seen.append(gate())
        del desk.pods["last"]
        seen.append(gate())
        desk.pods["last"] = pod("last", metadata={"uid": "recreated"})
        seen.append(gate())
        desk.pods["last"] = last

    desk.meanwhile = look
    assert gate() == ""
    plugin.post_filter(CycleState(), incoming, NodeToStatus())
    status = plugin.pre_enqueue(incoming)
    assert status == unresolvable(WAITING)
    assert plugin.pre_enqueue(pod("other")) is None
    desk.go()
    # While the first victim is evicted the gate stays closed, whatever becomes of the last one.
    assert seen == [WAITING] * 4 + [WAITING, "", "", ""]
    assert gate() == ""


def test_of_all_events_the_end_of_its_last_victim_frees_a_preemptor() -> None:
    desk = Desk()
    last, others = pod("last"), pod("others")
    choose(desk, last)
    plugin = build(desk)
    first, second = preemptor(desk), pod("second", 10)
    desk.pods["second"] = second
    desk.held = []
    for incoming in (first, second):
        plugin.post_filter(CycleState(), incoming, NodeToStatus())
    seen: list[set[str]] = []

    def look() -> None:
        seen.append(set(plugin.held(last)))
        del desk.pods["last"]
        seen.extend(set(plugin.held(changed)) for changed in (None, others, last))
        desk.meanwhile = lambda: None

    desk.meanwhile = look
    assert plugin.held(last) == {first.uid, second.uid}
    desk.go()
    both = {first.uid, second.uid}
    assert seen == [both, both, both, {second.uid}]
    assert plugin.held(None) == set()


def test_without_the_feature_nobody_is_held_back() -> None:
    desk = Desk(SchedulerAsyncPreemption=False)
    choose(desk, pod("v"))
    plugin, incoming = build(desk), preemptor(desk)
    desk.held = []
    plugin.post_filter(CycleState(), incoming, NodeToStatus())
    assert plugin.pre_enqueue(incoming) is None
    assert plugin.events_to_register() == ()
    desk.go()
    assert desk.log == ["evict v", "tell v"]


def test_its_own_event_never_wakes() -> None:
    (registered,) = build(Desk()).events_to_register()
    assert registered.event == ClusterEvent(EventResource.POD, ActionType.DELETE)
    assert registered.hint is not None
    assert registered.hint(pod("p"), pod("v"), None) is QueueingHint.SKIP


ZERO = "Invalid value: 0: cannot be zero at the same time as"

# -- arguments -----------------------------------------------------------------------------------


def args(percentage: int = 10, absolute: int = 100) -> DefaultPreemptionArgs:
    return DefaultPreemptionArgs(
        min_candidate_nodes_percentage=percentage, min_candidate_nodes_absolute=absolute
    )


@pytest.mark.parametrize(
    ("given", "problems"),
    [
        (args(0, 1), []),
        (args(100, 0), []),
        (
            args(-1),
            ["minCandidateNodesPercentage: Invalid value: -1: not in valid range [0, 100]"],
        ),
        (
            args(101, -1),
            [
                "minCandidateNodesPercentage: Invalid value: 101: not in valid range [0, 100]",
                "minCandidateNodesAbsolute: Invalid value: -1: not in valid range [0, inf)",
            ],
        ),
        (
            args(0, 0),
            [
                f"minCandidateNodesPercentage: {ZERO} minCandidateNodesAbsolute",
                f"minCandidateNodesAbsolute: {ZERO} minCandidateNodesPercentage",
            ],
        ),
    ],
)
def test_arguments(given: DefaultPreemptionArgs, problems: list[str]) -> None:
    found = [f"{path}: {message}" for path, message in DefaultPreemption.validate_args(given)]
    assert found == problems
    if problems:
        with pytest.raises(ConfigurationError) as refused:
            build(Desk(), given)
        assert list(refused.value.problems) == problems


def test_arguments_reach_the_search() -> None:
    assert build(Desk()).rules == PreemptionRules(10, 100, own_victims_only=True)
    everybody = DefaultPreemptionArgs(victim_schedulers="All", min_candidate_nodes_absolute=7)
    assert build(Desk(), everybody).rules == PreemptionRules(10, 7, own_victims_only=False)
