"""The search for victims: which nodes help, who is spared, which node is chosen, what it says.

Follows preemption.go: Evaluator. Evictions are tested with the plugin.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plugins import NodePorts, NodeResourcesFit, NodeUnschedulable, in_tree
from scheduler.api import Pod, PodDisruptionBudget
from scheduler.engine import Evaluator, FitError
from scheduler.engine.errors import AttemptError
from scheduler.engine.plugin_calls import run_synchronously
from scheduler.engine.preemption.disruption_budgets import DisruptionBudgets
from scheduler.engine.preemption.evaluator import NOT_HELPFUL
from scheduler.framework import (
    CycleState,
    NodeToStatus,
    NominatingInfo,
    PostFilterOutcome,
    PostFilterResult,
    Status,
    error,
    unresolvable,
    unschedulable,
)
from scheduler.framework.preemption import Candidate, PreemptionFinding, PreemptionRules
from tests.unit.engine.harness import PROFILE, World, plugin
from tests.unit.plugins.random_neighbours import NAMES, Maker, seeds

ANY = PreemptionRules(own_victims_only=False)
ALLOCATABLE = {"cpu": "4", "memory": "8Gi", "pods": "10"}


class Budgets:
    """Listers that know nothing but disruption budgets."""

    def __init__(self, budgets: list[PodDisruptionBudget]) -> None:
        self._budgets = budgets

    def __getitem__(self, plural: str) -> Budgets:
        assert plural == "poddisruptionbudgets"
        return self

    def get(self, name: str, namespace: str = "") -> PodDisruptionBudget | None:
        return None

    def list(self, namespace: str | None = None) -> list[PodDisruptionBudget]:
        return self._budgets


def budget(allowed: int, selector: Any, *disrupted: str) -> PodDisruptionBudget:
    raw = {
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"selector": selector},
        "status": {
            "disruptionsAllowed": allowed,
            "disruptedPods": dict.fromkeys(disrupted, "2025-01-01T00:00:00Z"),
        },
    }
    return msgspec.convert(raw, PodDisruptionBudget)


class Cluster(World):
    """A world whose incoming pods may preempt."""

    def __init__(self, *plugins: type[Any], seed: int = 0) -> None:
        super().__init__(*(plugins or (NodeUnschedulable, NodePorts, NodeResourcesFit)), seed=seed)
        self.budgets: list[PodDisruptionBudget] = []
        self.observed: list[int] = []
        self.evaluator = Evaluator(
            self.framework,
            self.cache.table,
            self.nominations,
            Budgets(self.budgets),
            random=random.Random(seed),
            own_schedulers=[PROFILE],
            observe=self.observed.append,
        )

    def incoming(self, cpu: str = "4", priority: int = 100, name: str = "p", **spec: Any) -> Pod:
        requests = {"resources": {"requests": {"cpu": cpu}}}
        containers = [{"name": "c", **requests, **spec.pop("container", {})}]
        return self.pod(name, containers=containers, priority=priority, **spec)

    def place(
        self,
        name: str,
        node: str,
        cpu: str = "1",
        priority: int = 0,
        start: str = "",
        labels: dict[str, str] | None = None,
        **spec: Any,
    ) -> Pod:
        """A running pod."""
        pod = self.incoming(cpu, priority, name, **spec)
        pod.spec.node_name = node
        pod.status.start_time = f"2025-01-01T00:00:{start}Z" if start else None
        pod.metadata.labels = labels or {}
        self.cache.add_pod(pod)
        return pod

    def statuses(self, pod: Pod, state: CycleState) -> NodeToStatus:
        """Return the statuses of the search."""
        with pytest.raises(FitError) as unfit:
            run_synchronously(self.algorithm.search.find(state, pod))
        return unfit.value.diagnosis.statuses

    def find(self, pod: Pod, rules: PreemptionRules = ANY) -> PreemptionFinding:
        state = CycleState()
        return self.evaluator.find(state, pod, self.statuses(pod, state), rules)

    def decide(self, pod: Pod, rules: PreemptionRules = ANY) -> Candidate:
        found = self.find(pod, rules)
        assert found.chosen is not None, found
        return found.chosen

    def candidates(
        self, pod: Pod, rules: PreemptionRules = ANY
    ) -> dict[str, tuple[list[str], int]]:
        """Node to (names of victims, violations), each node looked at by itself."""
        state = CycleState()
        run = self.evaluator.dry_run(state, pod, self.statuses(pod, state), rules)
        return {
            each.node_name: (names(each.victims), each.pdb_violations) for each in run.candidates
        }


def names(pods: Sequence[Pod]) -> list[str]:
    return [pod.metadata.name for pod in pods]


def cluster(nodes: int = 1, *plugins: type[Any]) -> Cluster:
    made = Cluster(*plugins)
    for number in range(1, nodes + 1):
        made.node(f"n{number}", allocatable=ALLOCATABLE)
    return made


# -- no candidate --------------------------------------------------------------------------------


def test_equal_priority_is_no_victim() -> None:
    c = cluster()
    c.place("a", "n1", priority=100)
    assert c.find(c.incoming()).message == (
        "0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )


def test_nodes_that_no_eviction_helps_are_not_looked_at() -> None:
    c = cluster()
    c.place("a", "n1", "1")
    assert c.find(c.incoming("5")).message == (
        "0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    )
    assert c.find(c.incoming("4")).chosen is not None


def test_reasons_of_emptied_nodes_are_counted_beside_the_unhelpful_ones() -> None:
    c = cluster(2)
    c.node("cordoned", spec={"unschedulable": True}, allocatable=ALLOCATABLE)
    c.node("small", allocatable={"cpu": "1", "pods": "1"})
    for node in ("n1", "n2"):
        c.place(f"low-{node}", node, "1")
        c.place(f"high-{node}", node, "2", priority=100)
    assert c.find(c.incoming()).message == (
        "0/4 nodes are available: 2 Insufficient cpu, 2 Preemption is not helpful for scheduling."
    )


def test_an_empty_cluster_is_an_error() -> None:
    c = Cluster()
    finding = c.evaluator.find(CycleState(), c.incoming(), NodeToStatus(), ANY)
    assert finding.error == "no nodes available"


def test_a_rejection_by_pre_filter_that_may_pass_makes_every_node_a_candidate() -> None:
    c = cluster(2)
    c.place("low", "n2")
    statuses = NodeToStatus(absent=unschedulable("claimed"))
    finding = c.evaluator.find(CycleState(), c.incoming(), statuses, ANY)
    # There is nobody to evict from n1.
    assert finding.chosen is not None
    assert finding.chosen.node_name == "n2"


def test_own_victims_only() -> None:
    c = cluster()
    c.place("theirs", "n1", schedulerName="default-scheduler")
    ours = PreemptionRules()
    assert "1 No preemption victims found" in c.find(c.incoming(), ours).message
    assert names(c.decide(c.incoming()).victims) == ["theirs"]
    c.place("mine", "n1")
    assert "1 Insufficient cpu" in c.find(c.incoming(), ours).message
    assert names(c.decide(c.incoming("3"), ours).victims) == ["mine"]


# -- victims on one node -------------------------------------------------------------------------


def test_a_small_pod_of_low_priority_stays_when_only_the_big_one_matters() -> None:
    c = cluster()
    c.place("big", "n1", "3", priority=50)
    c.place("small", "n1", "1", priority=1)
    assert names(c.decide(c.incoming("3")).victims) == ["big"]


def test_of_equal_pods_the_one_started_last_goes() -> None:
    c = cluster()
    for name, start in (("old", "01"), ("young", "03"), ("middle", "02"), ("unborn", "")):
        c.place(name, "n1", start=start)
    assert names(c.decide(c.incoming("1")).victims) == ["unborn"]
    assert names(c.decide(c.incoming("2")).victims) == ["young", "unborn"]


def test_ports_of_victims_are_free() -> None:
    c = cluster()
    ports = {"ports": [{"containerPort": 80, "hostPort": 80}]}
    c.place("web", "n1", "1", container=ports)
    c.place("other", "n1", "1")
    assert names(c.decide(c.incoming("1", container=ports)).victims) == ["web"]


def test_nominated_pods_of_at_least_equal_priority_count() -> None:
    c = cluster()
    c.place("low", "n1", "4")
    c.nominations.add_nominated_pod(c.incoming("2", 100, "nominee"), NominatingInfo("n1"))
    assert "1 Insufficient cpu" in c.find(c.incoming("3")).message
    assert c.find(c.incoming("2")).chosen is not None
    assert c.find(c.incoming("3", 101, "above")).chosen is not None


# -- disruption budgets --------------------------------------------------------------------------

WEB = {"matchLabels": {"app": "web"}}


@pytest.mark.parametrize(
    ("budgets", "expected"),
    [
        ([], (["a", "b"], 0)),
        ([budget(2, WEB)], (["a", "b"], 0)),
        ([budget(1, WEB)], (["a", "b"], 1)),
        ([budget(0, WEB)], (["a", "b"], 2)),
        ([budget(0, WEB), budget(5, WEB)], (["a", "b"], 2)),
        ([budget(0, WEB, "a", "b")], (["a", "b"], 0)),
        ([budget(0, {})], (["a", "b"], 0)),
        ([budget(0, None)], (["a", "b"], 0)),
        ([budget(0, {"matchLabels": {"app": "db"}})], (["a", "b"], 0)),
        ([budget(0, {"matchExpressions": [{"key": "app", "operator": "Bad"}]})], (["a", "b"], 0)),
    ],
)
def test_budgets(budgets: list[PodDisruptionBudget], expected: tuple[list[str], int]) -> None:
    c = cluster()
    c.budgets += budgets
    c.place("a", "n1", "2", priority=2, labels={"app": "web"})
    c.place("b", "n1", "2", priority=1, labels={"app": "web"})
    assert c.candidates(c.incoming("4")) == {"n1": expected}


def test_protected_pods_are_spared_first() -> None:
    c = cluster()
    c.budgets.append(budget(0, WEB))
    c.place("protected", "n1", "2", priority=1, labels={"app": "web"})
    c.place("important", "n1", "2", priority=50)
    assert c.candidates(c.incoming("2")) == {"n1": (["important"], 0)}


def test_the_search_goes_on_until_a_node_respects_the_budgets() -> None:
    """Two candidates are wanted; whatever comes first, the one that violates nothing is taken."""
    for seed in range(8):
        c = Cluster(seed=seed)
        c.budgets.append(budget(0, WEB))
        for number in range(6):
            c.node(f"n{number}", allocatable=ALLOCATABLE)
            labels = {} if number == 4 else {"app": "web"}
            c.place(f"p{number}", f"n{number}", "4", labels=labels)
        few = PreemptionRules(0, 2, own_victims_only=False)
        assert c.decide(c.incoming(), few).node_name == "n4"


def test_nodes_that_must_violate_budgets_are_not_tried_once_there_are_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same node and victims are chosen as if every node were tried, with fewer tries."""
    tried = 0
    split = DisruptionBudgets.split

    def counted(self: DisruptionBudgets, pods: Sequence[Pod]) -> Any:
        nonlocal tried
        tried += 1
        return split(self, pods)

    def choose(seed: int) -> tuple[str, list[str], int]:
        draw = random.Random(seed)
        c = Cluster(seed=seed)
        c.budgets.append(budget(draw.choice((0, 0, 1)), WEB, *draw.choice(((), (), ("p3-0",)))))
        web = draw.choice((0.7, 1))
        for number in range(12):
            c.node(f"n{number}", allocatable=ALLOCATABLE)
            for each in range(2):
                labels = {"app": "web"} if draw.random() < web else {}
                c.place(f"p{number}-{each}", f"n{number}", "2", draw.randrange(3), labels=labels)
        found = c.decide(c.incoming(), PreemptionRules(0, 2, own_victims_only=False))
        return found.node_name, names(found.victims), found.pdb_violations

    monkeypatch.setattr(DisruptionBudgets, "split", counted)
    chosen = [choose(seed) for seed in range(40)]
    fewer, tried = tried, 0
    monkeypatch.setattr(DisruptionBudgets, "forbid_all", lambda _self, _pods: False)
    assert chosen == [choose(seed) for seed in range(40)]
    assert fewer < tried


# -- the choice ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        ([(10, "01")], [(20, "01")], "lower priority of the most important victim"),
        ([(10, "01"), (5, "01")], [(10, "01"), (6, "01")], "the sum of priorities"),
        ([(10, "05"), (5, "01")], [(10, "04"), (5, "02")], "the most important started later"),
        ([(10, ""), (5, "01")], [(10, "04"), (5, "02")], "not started counts as now"),
    ],
)
def test_the_lesser_harm(
    first: list[tuple[int, str]], second: list[tuple[int, str]], why: str
) -> None:
    for order in (("n1", "n2"), ("n2", "n1")):
        c = cluster(2)
        for node, pods in zip(order, (first, second), strict=True):
            for index, (priority, start) in enumerate(pods):
                c.place(f"{node}-{index}", node, "1", priority, start)
            c.place(f"{node}-rest", node, f"{4 - len(pods)}", 500)
        assert c.decide(c.incoming(f"{len(first)}", 100)).node_name == order[0], why


def test_more_victims_are_a_greater_harm_even_at_negative_priority() -> None:
    c = cluster(2)
    c.place("n1-mid", "n1", "2", 10)
    c.place("n1-neg", "n1", "2", -5)
    c.place("n2-mid", "n2", "2", 10)
    c.place("n2-neg1", "n2", "1", -5)
    c.place("n2-neg2", "n2", "1", -5)
    assert c.decide(c.incoming("4")).node_name == "n1"


def test_ties_are_broken_at_random_and_repeatably() -> None:
    def picks(seed: int) -> list[str]:
        c = Cluster(seed=seed)
        for number in range(5):
            c.node(f"n{number}", allocatable=ALLOCATABLE)
            c.place(f"p{number}", f"n{number}", "4")
        return [c.decide(c.incoming(name=f"in{index}")).node_name for index in range(12)]

    assert picks(1) == picks(1)
    assert len(set(picks(1))) > 1


# -- faults --------------------------------------------------------------------------------------


def keeper(broken: str = "") -> type[Any]:
    """A plugin that allows two pods on a node, by its own state; removals fail on node `broken`."""

    class Kept:
        def __init__(self, counts: dict[str, int]) -> None:
            self.counts = counts

        def clone(self) -> Kept:
            return Kept(dict(self.counts))

    def pre_filter(state: CycleState, pod: Pod, table: Any) -> None:
        counts = {table.names[row]: table.node_info(row).pod_count for row in table.rows.tolist()}
        state.write("kept", Kept(counts))

    def change(by: int) -> Any:
        def changed(state: CycleState, pod: Pod, other: Pod, node: Any) -> Status | None:
            if by < 0 and node.name == broken:
                return error("cannot remove")
            state.read("kept").counts[node.name] += by
            return None

        return changed

    def filter_(state: CycleState, pod: Pod, node: Any) -> Status | None:
        return unschedulable("kept full") if state.read("kept").counts[node.name] >= 2 else None

    return plugin(
        "test-plugin",
        pre_filter=pre_filter,
        add_pod=change(1),
        remove_pod=change(-1),
        filter=filter_,
    )


def test_plugins_with_state_of_their_own_follow_removals_and_reprieves() -> None:
    c = cluster(2, keeper())
    for node in ("n1", "n2"):
        c.place(f"{node}-low", node, priority=1)
        c.place(f"{node}-mid", node, priority=2)
    c.place("n1-high", "n1", priority=100)
    pod = c.incoming("0")
    assert c.candidates(pod) == {
        "n1": (["n1-mid", "n1-low"], 0),
        "n2": (["n2-low"], 0),
    }
    assert c.decide(pod).node_name == "n2"


def test_an_error_on_one_node_does_not_matter_while_another_helps() -> None:
    text = 'running RemovePod on PreFilter plugin "test-plugin": cannot remove'
    c = cluster(2, keeper("n1"))
    for node in ("n1", "n2"):
        for index in range(2):
            c.place(f"{node}-{index}", node)
    assert c.decide(c.incoming()).node_name == "n2"
    c = cluster(1, keeper("n1"))
    for index in range(2):
        c.place(f"{index}", "n1")
    assert c.find(c.incoming()) == PreemptionFinding(error=text)


def test_a_node_that_needs_no_victim_after_all_is_an_error() -> None:
    c = cluster()
    c.place("low", "n1", "1")
    statuses = NodeToStatus({"n1": unschedulable("mistaken")})
    finding = c.evaluator.find(CycleState(), c.incoming("1"), statuses, ANY)
    assert finding.error == 'expected at least one victim pod on node "n1"'


# -- what is remembered --------------------------------------------------------------------------


def test_plugins_that_turn_a_node_down_without_its_victims_are_named() -> None:
    refuses = plugin("Refuses", filter=lambda state, pod, node: unschedulable("refused"))
    c = cluster(2, refuses)
    c.place("high", "n1", "4", priority=100)
    c.place("low", "n2", "4")
    statuses = NodeToStatus({name: unschedulable("Insufficient cpu") for name in ("n1", "n2")})
    findings = [c.evaluator.find(CycleState(), c.incoming(), statuses, ANY) for _ in range(2)]
    # n1 has nobody to evict, which is no plugin's doing.
    assert [each.rejectors for each in findings] == [{"Refuses"}] * 2


def test_a_fruitless_search_is_remembered_until_something_changes() -> None:
    c = cluster(3)
    for node in ("n1", "n2", "n3"):
        c.place(f"high-{node}", node, "4", priority=100)
    message = c.find(c.incoming()).message
    c.evaluator._screening.screen = None  # type: ignore[assignment,method-assign]
    assert c.find(c.incoming(name="another")).message == message
    with pytest.raises(TypeError):
        c.find(c.incoming("3"))
    del c.evaluator._screening.screen
    low = c.place("low", "n2", "1")
    c.cache.remove_pod(c.cache.get_pod("high-n2") or low)
    c.place("mid", "n2", "2", priority=50)
    assert c.decide(c.incoming(name="third")).node_name == "n2"


@pytest.mark.parametrize("told", [False, True])
def test_a_filter_of_unknown_inputs_is_asked_every_time(*, told: bool) -> None:
    asked: list[str] = []

    def filter_(state: CycleState, pod: Pod, node: Any) -> Status | None:
        asked.append(pod.metadata.name)
        return unschedulable("never")

    c = cluster(1, plugin("Unknown", filter=filter_, filter_depends_only_on_table=told))
    c.place("low", "n1")
    state = CycleState()
    statuses = NodeToStatus({"n1": unschedulable("never")})

    def search(name: str, labels: dict[str, str]) -> int:
        pod = c.incoming(name=name)
        pod.metadata.labels = labels
        asked.clear()
        message = c.evaluator.find(state, pod, statuses, ANY).message
        assert message == "0/1 nodes are available: 1 never."
        return len(asked)

    assert search("a", {}) == 1
    assert search("b", {}) == (0 if told else 1)
    assert search("c", {"app": "x"}) == 1
    c.cache.table.bump("services")
    assert search("d", {}) == 1


def test_a_filter_that_reads_a_resource_is_asked_again_when_it_changes() -> None:
    asked: list[str] = []

    def filter_(state: CycleState, pod: Pod, node: Any) -> Status | None:
        asked.append(node.name)
        return unschedulable("never")

    reads = {"filter_depends_only_on_table": True, "required_resources": ("leases",)}
    c = cluster(1, plugin("Reads", filter=filter_, **reads))
    c.place("low", "n1")
    statuses = NodeToStatus({"n1": unschedulable("never")})
    for changed, times in (("", 1), ("events", 0), ("leases", 1)):
        c.cache.table.bump(changed, revise=False)
        asked.clear()
        c.evaluator.find(CycleState(), c.incoming(), statuses, ANY)
        assert len(asked) == times, changed


def test_attempts_are_observed() -> None:
    c = cluster()
    c.evaluator.observe(3)
    assert c.observed == [3]


# -- numbers agree with dry runs -----------------------------------------------------------------

_placed = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.integers(0, 3),
        st.sampled_from([-10, 0, 5, 5, 100]),
        st.booleans(),
        st.booleans(),
    ),
    max_size=24,
)


@settings(max_examples=60, deadline=None)
@given(
    _placed,
    st.integers(1, 5),
    st.sampled_from([0, 6, 100]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_numbers_say_what_a_dry_run_of_every_node_would_say(
    placed: list[tuple[int, int, int, bool, bool]],
    cpu: int,
    priority: int,
    own: bool,
    with_port: bool,
    nominee: bool,
) -> None:
    c = cluster(4)
    c.node("cordoned", spec={"unschedulable": True}, allocatable=ALLOCATABLE)
    ports = {"ports": [{"containerPort": 80, "hostPort": 80}]}
    for index, (node, size, value, mine, port) in enumerate(placed):
        c.place(
            f"p{index}",
            f"n{node + 1}",
            str(size),
            value,
            container=ports if port else {},
            schedulerName=PROFILE if mine else "other",
        )
    if nominee:
        c.nominations.add_nominated_pod(c.incoming("2", 50, "nominee"), NominatingInfo("n1"))
    pod = c.incoming(str(cpu), priority, container=ports if with_port else {})
    state = CycleState()
    try:
        run_synchronously(c.algorithm.search.find(state, pod))
    except FitError as unfit:
        statuses = unfit.diagnosis.statuses
    else:
        return
    assert_exhaustive(c, state, pod, statuses, PreemptionRules(own_victims_only=own))


def assert_exhaustive(
    c: Cluster, state: CycleState, pod: Pod, statuses: NodeToStatus, rules: PreemptionRules
) -> bool:
    """The search finds what trying out every node finds; whether it found anything."""
    finding = c.evaluator.find(state, pod, statuses, rules)
    run = c.evaluator.dry_run(state, pod, statuses, rules)
    if finding.chosen is not None:
        assert finding.chosen in run.candidates
        return True
    assert not run.candidates
    nodes = c.cache.table.node_count
    counts = {NOT_HELPFUL: nodes - len(run.rejected)}
    for status in run.rejected.values():
        for reason in status.reasons:
            counts[reason] = counts.get(reason, 0) + 1
    entries = sorted(f"{count} {reason}" for reason, count in counts.items() if count)
    assert finding.message == f"0/{nodes} nodes are available: {', '.join(entries)}."
    return False


def test_numbers_about_neighbours_say_what_a_dry_run_of_every_node_would_say() -> None:
    found = {True: 0, False: 0}

    @settings(max_examples=300, deadline=None, derandomize=True)
    @given(seeds)
    def check(seed: int) -> None:
        maker = Maker(seed)
        c = Cluster(*in_tree(), seed=seed)
        for name in NAMES:
            maker.set_node(c.cache, name)

        def made(terms: float, schedulers: tuple[str, ...], priorities: tuple[int, ...]) -> Pod:
            pod = maker.pod(terms=terms)
            pod.spec.scheduler_name = maker.random.choice(schedulers)
            pod.spec.priority = maker.random.choice(priorities)
            c.signatures.intern(pod)
            return pod

        for _ in range(maker.random.randint(6, 14)):
            placed = made(0.3, (PROFILE, PROFILE, "other"), (0, 0, 0, 5, 10))
            placed.spec.node_name = maker.random.choice(NAMES)
            c.cache.add_pod(placed)
        if maker.random.random() < 0.3:
            nominee = made(0.5, (PROFILE,), (5, 100))
            c.nominations.add_nominated_pod(nominee, NominatingInfo("n0"))
        pod = made(0.8, (PROFILE,), (5, 10, 100, 100))
        state = CycleState()
        try:
            run_synchronously(c.algorithm.search.find(state, pod))
        except FitError as unfit:
            statuses = unfit.diagnosis.statuses
        except AttemptError:
            return
        else:
            return
        rules = PreemptionRules(own_victims_only=maker.random.random() < 0.7)
        found[assert_exhaustive(c, state, pod, statuses, rules)] += 1

    check()
    assert min(found.values()) > 5


def test_statuses_beyond_the_table_are_understood() -> None:
    """A map that some host made by hand, with a node that is gone."""
    c = cluster(2)
    c.place("low", "n1", "4")
    statuses = NodeToStatus({"n1": unschedulable("x"), "gone": unschedulable("x")})
    statuses.set("n2", unresolvable("y"))
    finding = c.evaluator.find(CycleState(), c.incoming(), statuses, ANY)
    assert finding.chosen is not None
    assert finding.chosen.node_name == "n1"


# -- what the attempt keeps of it ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (None, PostFilterOutcome.NO_PLUGIN),
        (PostFilterResult(None, NominatingInfo("n1")), PostFilterOutcome.NOMINATED),
        (PostFilterResult(unschedulable("no")), PostFilterOutcome.FAILED),
        (PostFilterResult(unresolvable("no")), PostFilterOutcome.FAILED),
        (PostFilterResult(error("broken")), PostFilterOutcome.NOT_RUN),
        (
            PostFilterResult(unschedulable("no"), outcome=PostFilterOutcome.INELIGIBLE),
            PostFilterOutcome.INELIGIBLE,
        ),
    ],
)
def test_the_record_of_the_pod_says_how_post_filter_ended(
    answer: PostFilterResult | None, outcome: PostFilterOutcome
) -> None:
    plugins = [NodeResourcesFit]
    if answer is not None:
        plugins.append(plugin("Last", post_filter=lambda *_: answer))
    world = World(*plugins)
    world.node("n1", allocatable={"cpu": "1", "pods": "10"})
    containers = [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]
    attempt = world.attempt(world.pod(containers=containers))
    assert attempt.failure is not None
    attempt.failure.apply(attempt.info, 0.0)
    assert attempt.info.post_filter is outcome
