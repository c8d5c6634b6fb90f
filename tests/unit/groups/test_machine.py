"""Random changes of pods and objects: the groups always say what a recount says."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from scheduler.groups import GroupKey, MemberState, PodGroups
from tests.unit.groups.objects import member, pod_group

NAMES = st.sampled_from("abcdef")
GROUPS = st.sampled_from(("g", "h", ""))
KEYS = (GroupKey("default", "g"), GroupKey("default", "h"))


class GroupsMachine(RuleBasedStateMachine):
    """Beside the groups, a plain account of every pod: its group, and what was last heard of it."""

    def __init__(self) -> None:
        super().__init__()
        self.groups = PodGroups()
        #: Name to (group, state).
        self.pods: dict[str, tuple[str, MemberState]] = {}
        self.minimum: dict[str, int] = {}

    @rule(
        name=NAMES,
        group=GROUPS,
        kind=st.sampled_from(("pending", "gated", "foreign", "bound")),
    )
    def seen(self, name: str, group: str, kind: str) -> None:
        known = self.pods.get(name)
        settled = known is not None and known[1] in (MemberState.RESERVED, MemberState.BOUND)
        profile = "other" if kind == "foreign" else "kubestow"
        pod = member(
            name,
            group,
            node="n" if kind == "bound" else "",
            gated=kind == "gated",
            profile=profile,
        )
        self.groups.observe(pod, ours=kind != "foreign")
        if settled:
            assert known is not None
            if kind == "bound":
                self.pods[name] = known[0], MemberState.BOUND
        elif group:
            self.pods[name] = group, MemberState(kind)
        else:
            self.pods.pop(name, None)

    @rule(name=NAMES)
    def reserve(self, name: str) -> None:
        self.groups.reserved(f"uid-{name}")
        known = self.pods.get(name)
        if known is not None and known[1] is MemberState.PENDING:
            self.pods[name] = known[0], MemberState.RESERVED

    @rule(name=NAMES)
    def unreserve(self, name: str) -> None:
        self.groups.unreserved(f"uid-{name}")
        known = self.pods.get(name)
        if known is not None and known[1] is MemberState.RESERVED:
            self.pods[name] = known[0], MemberState.PENDING

    @rule(name=NAMES)
    def ends(self, name: str) -> None:
        self.groups.forget(f"uid-{name}")
        self.pods.pop(name, None)

    @rule(group=st.sampled_from("gh"), minimum=st.integers(-1, 5), uid=st.sampled_from("12"))
    def object_written(self, group: str, minimum: int, uid: str) -> None:
        self.groups.set_object(pod_group(minimum, group, uid=uid))
        self.minimum[group] = max(minimum, 1)

    @rule(group=st.sampled_from("gh"))
    def object_deleted(self, group: str) -> None:
        known = self.groups.get(GroupKey("default", group))
        uid = "1" if known is None or known.terms is None else known.terms.uid
        self.groups.remove_object(pod_group(1, group, uid=uid))
        self.minimum.pop(group, None)

    @invariant()
    def nothing_is_broken(self) -> None:
        assert self.groups.validate() == []

    @invariant()
    def a_recount_says_the_same(self) -> None:
        for key in KEYS:
            group = self.groups.get(key)
            mine = [state for name, state in self.pods.values() if name == key.name]
            if group is None:
                assert not mine
                assert key.name not in self.minimum
                continue
            assert sorted(state.value for state in mine) == sorted(
                state.value for state in MemberState for _ in group.members(state)
            )
            placed = sum(each in (MemberState.RESERVED, MemberState.BOUND) for each in mine)
            need = max(self.minimum.get(key.name, 0) - placed, 0)
            assert group.need == need
            pending = mine.count(MemberState.PENDING)
            assert group.ready == (key.name in self.minimum and pending >= need)


GroupsMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestGroups: Any = GroupsMachine.TestCase
