"""Screening by columns agrees with a dry run of every node."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from plugins import in_tree
from scheduler.api import Pod
from scheduler.engine import FitError
from scheduler.engine.errors import AttemptError
from scheduler.engine.plugin_calls import run_synchronously
from scheduler.engine.preemption.evaluator import NOT_HELPFUL
from scheduler.framework import CycleState, NodeToStatus, NominatingInfo
from scheduler.framework.preemption import PreemptionRules
from tests.unit.engine.harness import PROFILE
from tests.unit.engine.preemption.harness import ALLOCATABLE, Cluster, cluster
from tests.unit.plugins.random_neighbours import NAMES, Maker, seeds

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
def test_screening_of_resources_agrees_with_dry_runs(
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
    except FitError as raised:
        statuses = raised.diagnosis.statuses
    else:
        return
    assert_exhaustive(c, state, pod, statuses, PreemptionRules(own_victims_only=own))


def assert_exhaustive(
    c: Cluster, state: CycleState, pod: Pod, statuses: NodeToStatus, rules: PreemptionRules
) -> bool:
    """Compare the search with dry runs of every node; return whether it found a candidate."""
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


def test_screening_of_neighbours_agrees_with_dry_runs() -> None:
    found = {True: 0, False: 0}

    @settings(max_examples=120, deadline=None, derandomize=True)
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
        except FitError as raised:
            statuses = raised.diagnosis.statuses
        except AttemptError:
            return
        else:
            return
        rules = PreemptionRules(own_victims_only=maker.random.random() < 0.7)
        found[assert_exhaustive(c, state, pod, statuses, rules)] += 1

    check()
    assert min(found.values()) > 5
