"""Fault rules: what they match, how often, in which order."""

from __future__ import annotations

import pytest

from simulator.faults import FaultError, FaultRule, Faults, parse_rule


def _act(faults: Faults, name: str = "a", verb: str = "create") -> str | None:
    rule = faults.take(verb, "pods/binding", "ns", name)
    return rule.action if rule else None


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (FaultRule(action="cut"), True),
        (FaultRule(action="cut", verb="create"), True),
        (FaultRule(action="cut", verb="get"), False),
        (FaultRule(action="cut", resource="pods"), False),
        (FaultRule(action="cut", resource="pods/*"), True),
        (FaultRule(action="cut", name="a*"), True),
        (FaultRule(action="cut", name="b*"), False),
        (FaultRule(action="cut", namespace="other"), False),
    ],
)
def test_what_a_rule_matches(rule: FaultRule, expected: bool) -> None:
    faults = Faults()
    faults.add(rule)
    assert (_act(faults) == "cut") is expected


def test_a_rule_passes_some_and_then_acts_some_times() -> None:
    faults = Faults()
    faults.add(FaultRule(action="error", after=2, times=2))
    assert [_act(faults) for _ in range(6)] == [None, None, "error", "error", None, None]
    (listed,) = faults.describe()
    assert (listed["matched"], listed["acted"]) == (6, 2)


def test_the_first_rule_that_acts_wins_and_a_spent_one_makes_way() -> None:
    faults = Faults()
    faults.add(FaultRule(action="error", times=1))
    faults.add(FaultRule(action="cut"))
    assert [_act(faults), _act(faults)] == ["error", "cut"]


def test_rules_are_removed_by_identity_and_listeners_called() -> None:
    faults = Faults()
    listed: list[int] = []
    faults.on_change.subscribe(lambda: listed.append(len(faults.describe())))
    first = faults.add(FaultRule(action="cut"))
    faults.add(FaultRule(action="delay"))
    assert faults.remove(first)
    assert not faults.remove(first)
    faults.clear()
    assert listed == [1, 2, 1, 1, 0]


def test_only_rules_without_a_name_stand_over_a_whole_stream() -> None:
    faults = Faults()
    faults.add(FaultRule(action="cut", verb="watch", name="a"))
    assert faults.standing("watch", "pods", "") is None
    rule = FaultRule(action="cut", verb="watch", resource="pods", times=1)
    faults.add(rule)
    assert faults.standing("watch", "nodes", "") is None
    assert faults.standing("watch", "pods", "") is rule
    faults.count_standing(rule)
    assert faults.standing("watch", "pods", "") is None


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"action": "explode"}, "actions are error, delay"),
        ({"action": "cut", "verbs": ["get"]}, "unknown field `verbs`"),
        ({"action": "error", "code": 200}, "code 200 is no HTTP error"),
        ({}, "missing required field `action`"),
        ("cut", "Expected `object`"),
    ],
)
def test_an_invalid_rule_is_rejected_with_the_reason(data: object, message: str) -> None:
    with pytest.raises(FaultError, match=message):
        parse_rule(data)
