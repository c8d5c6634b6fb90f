"""Examinations equal the decisions of a cycle, whatever happens between two of them."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis.stateful import rule, run_state_machine_as_test

from scheduler.api import Pod
from scheduler.explain.examining.examination import examine
from tests.unit.engine import test_reuse

pytestmark = pytest.mark.slow


class ExaminedMachine(test_reuse.ReuseMachine):
    """Examines each pod between the comparisons of two engines."""

    @rule()
    def grow_past_the_capacity(self) -> None:
        # Once is enough; each time doubles the table.
        if self.world.cache.table.capacity < 200:
            super().grow_past_the_capacity()

    def compare(self, pod: Pod) -> None:
        table = self.world.cache.table
        if not table.node_count:
            return
        plain = self.decided(self.plain, pod)
        explanation, _ = examine(
            self.world.framework,
            table,
            self.world.nominations,
            pod,
            now=0.0,
            top=1000,
            examples=1000,
        )
        super().compare(pod)
        if plain.error:
            assert plain.error == explanation.error
        elif plain.nominated:
            assert any(f"nominated to {plain.feasible[0]}," in note for note in explanation.notes)
        elif plain.feasible:
            assert {each.node: each.total for each in explanation.best} == plain.totals
        else:
            assert explanation.feasible == 0
            for rejection in explanation.rejections:
                for node in rejection.examples:
                    status = plain.statuses[node]
                    assert status["code"] == rejection.status
                    assert status.get("reasons", []) == sorted(rejection.reasons)
                    assert status.get("plugin", rejection.plugin) == rejection.plugin
        if not explanation.error:
            rejected = [node for each in explanation.rejections for node in each.examples]
            assert len(rejected) == len(set(rejected)) == explanation.nodes - explanation.feasible


class ExaminedInTree(ExaminedMachine, test_reuse.InTree):
    pass


class ExaminedDifficult(ExaminedMachine, test_reuse.Difficult):
    pass


class ExaminedFailing(ExaminedMachine, test_reuse.Failing):
    pass


class ExaminedWithScalar(ExaminedMachine, test_reuse.WithScalar):
    pass


@pytest.mark.parametrize(
    "machine",
    [ExaminedInTree, ExaminedDifficult, ExaminedFailing, ExaminedWithScalar],
    ids=lambda machine: machine.__name__,
)
def test_an_examination_equals_the_decision_of_a_cycle(machine: type[ExaminedMachine]) -> None:
    examples = max(settings().max_examples // 4, 1)
    run_state_machine_as_test(
        machine, settings=settings(max_examples=examples, stateful_step_count=15)
    )
