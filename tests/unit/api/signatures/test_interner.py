"""The interners: references, reuse, bounds, sharing. Invariants are checked after every step."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from scheduler.api import Pod, PodSignatures, QuantityError, UnbalancedReleaseError
from tests.unit.api.objects import container, pinned, pod


def template(number: int) -> Pod:
    return pod({"priority": number})


class InternedPods(RuleBasedStateMachine):
    """Pods come and go; a small bound keeps evictions frequent."""

    held = Bundle("held")

    def __init__(self) -> None:
        super().__init__()
        self.max_bytes = 3 * self.size_of_one()
        self.signatures = PodSignatures(self.max_bytes)
        self.model: Counter[int] = Counter()
        self.seen: dict[int, int] = {}

    @staticmethod
    def size_of_one() -> int:
        signatures = PodSignatures()
        signatures.intern(template(1))
        return signatures.statistics().bytes

    @rule(target=held, number=st.integers(1, 6))
    def intern(self, number: int) -> Pod:
        subject = template(number)
        signature = self.signatures.intern(subject)
        if self.model[number]:
            assert signature.id == self.seen[number], "a referenced signature was dropped"
        self.seen[number] = signature.id
        assert signature.priority == number
        self.model[number] += 1
        return subject

    @rule(subject=held)
    def intern_again(self, subject: Pod) -> None:
        assert self.signatures.intern(subject) is subject.signature

    @rule(subject=consumes(held))
    def release(self, subject: Pod) -> None:
        self.signatures.release(subject)
        self.model[subject.priority] -= 1
        assert subject.signature.priority == subject.priority

    @invariant()
    def accounts_are_right(self) -> None:
        now = self.signatures.statistics()
        referenced = sum(1 for count in self.model.values() if count)
        assert now.references == self.model.total()
        assert now.signatures - now.unreferenced == referenced
        assert now.bytes <= self.max_bytes or now.unreferenced == 0

    def teardown(self) -> None:
        assert len(set(self.seen.values())) == len(self.seen), "two templates shared an id"


TestInternedPods = InternedPods.TestCase
TestInternedPods.settings = settings(max_examples=30, stateful_step_count=25, deadline=None)


def test_ids_are_never_given_to_another_signature() -> None:
    signatures = PodSignatures(max_bytes=0)
    first, second = template(1), template(1)
    before = signatures.intern(first)
    signatures.release(first)
    after = signatures.intern(second)
    assert after is not before
    assert after.id != before.id


def test_a_flood_of_distinct_signatures_stays_within_the_bound() -> None:
    signatures = PodSignatures(max_bytes=1_000_000)
    for number in range(2_000):
        subject = template(number)
        signatures.intern(subject)
        signatures.release(subject)
    now = signatures.statistics()
    assert now.bytes <= 1_000_000
    assert 0 < now.signatures < 2_000


def test_the_least_recently_used_signature_goes_first() -> None:
    signatures = PodSignatures(max_bytes=2 * InternedPods.size_of_one())
    old, fresh = template(1), template(2)
    for each in (old, fresh):
        signatures.intern(each)
    for each in (old, fresh):
        signatures.release(each)
    again = template(1)
    assert signatures.intern(again) is old.signature
    signatures.release(again)
    signatures.intern(template(3))
    assert signatures.intern(template(1)) is old.signature
    assert signatures.intern(template(2)) is not fresh.signature


def test_a_surplus_release_is_an_error_without_effect() -> None:
    signatures = PodSignatures()
    subject = template(1)
    signatures.intern(subject)
    signatures.release(subject)
    with pytest.raises(UnbalancedReleaseError, match="default/p"):
        signatures.release(subject)
    assert signatures.statistics().references == 0


def test_a_pod_of_another_interner_cannot_be_released_here() -> None:
    mine, other = PodSignatures(), PodSignatures()
    foreign = template(2)
    other.intern(foreign)
    mine.intern(template(1))
    with pytest.raises(UnbalancedReleaseError):
        mine.release(foreign)


def test_a_pod_that_was_not_interned_has_no_signature() -> None:
    with pytest.raises(RuntimeError, match=r"default/p has no signature"):
        _ = template(1).signature


def test_an_unreadable_pod_is_rejected_and_leaves_no_trace() -> None:
    signatures = PodSignatures()
    bad = pod({"containers": [container(requests={"cpu": "lots"})], "volumes": [{"name": "t"}]})
    with pytest.raises(QuantityError, match="lots"):
        signatures.intern(bad)
    now = signatures.statistics()
    assert now.signatures == now.references == now.bytes == 0
    assert bad.interned is None
    assert len(bad.spec.volumes) == 1


def test_siblings_share_the_heavy_parts_and_keep_what_is_theirs() -> None:
    echo = [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]

    def sibling(number: int) -> Pod:
        owner = {"kind": "ReplicaSet", "name": "r", "uid": "r1", "controller": True}
        return pod(
            {
                "containers": [container(requests={"cpu": "1"})],
                "nodeName": f"n{number}",
                "schedulingGates": [{"name": f"g{number}"}],
                "tolerations": [{"operator": "Exists"}],
                "affinity": {"podAffinity": {}},
                "volumes": [{"name": f"token-{number}"}],
            },
            metadata={
                "name": f"p{number}",
                "labels": {"app": "x"},
                "ownerReferences": [owner],
                "creationTimestamp": f"2026-01-01T00:00:{number // 10:02}Z",
            },
            status={
                "containerStatuses": echo,
                "phase": "Running",
                "startTime": f"{number}",
                "conditions": [{"type": "Ready", "lastTransitionTime": f"2026-{number // 10:02}"}],
            },
        )

    signatures = PodSignatures()
    first, second = sibling(1), sibling(2)
    signatures.intern(first)
    signatures.intern(second)
    for part in ("containers", "tolerations", "affinity", "volumes"):
        assert getattr(first.spec, part) is getattr(second.spec, part)
    assert first.metadata.labels is second.metadata.labels
    assert first.metadata.owner_references is second.metadata.owner_references
    assert first.metadata.creation_timestamp is second.metadata.creation_timestamp
    for name in ("type", "last_transition_time"):
        assert getattr(first.status.conditions[0], name) is getattr(
            second.status.conditions[0], name
        )
    assert first.status.allocated_resources is second.status.allocated_resources
    assert (first.status.start_time, second.status.start_time) == ("1", "2")
    assert second.status.container_statuses == ()
    assert (second.metadata.name, second.spec.node_name) == ("p2", "n2")
    assert [each.name for each in second.spec.scheduling_gates] == ["g2"]
    shared = first.signature.spec
    assert (shared.node_name, shared.scheduling_gates) == ("", ())


def test_statuses_of_a_resize_under_way_are_kept() -> None:
    grown = [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]
    subject = pod(status={"containerStatuses": grown})
    PodSignatures().intern(subject)
    assert len(subject.status.container_statuses) == 1


def test_pods_with_other_labels_do_not_get_those_of_a_sibling() -> None:
    signatures = PodSignatures()
    pods = [pod(metadata={"labels": {"index": str(number)}}) for number in (0, 1, 1, 0)]
    assert len({signatures.intern(each).id for each in pods}) == 1
    assert [each.metadata.labels["index"] for each in pods] == ["0", "1", "1", "0"]


def test_signature_and_pin_never_come_from_json() -> None:
    raw = msgspec.json.encode({"interned": 1, "pin": "n1", "metadata": {"name": "p"}})
    decoded = msgspec.json.decode(raw, type=Pod)
    assert (decoded.interned, decoded.pin) == (None, "")


def test_a_copy_keeps_signature_and_pin_without_a_reference() -> None:
    signatures = PodSignatures()
    subject = pod({"affinity": pinned("n1")})
    signatures.intern(subject)
    copy = msgspec.structs.replace(subject)
    assert (copy.signature, copy.pin) == (subject.signature, "n1")
    assert signatures.statistics().references == 1


def test_a_copy_that_is_a_pod_of_its_own_takes_a_reference() -> None:
    signatures = PodSignatures()
    first = pod({"priority": 1})
    signatures.intern(first)
    second = msgspec.structs.replace(first)
    signatures.intern_copy(second)
    assert signatures.statistics().references == 2
    signatures.release(first)
    signatures.release(second)
    third = msgspec.structs.replace(second)
    signatures.intern_copy(third)
    assert third.signature is first.signature, "it was kept without references"
    assert (signatures.statistics().references, signatures.statistics().unreferenced) == (1, 0)


def test_a_copy_is_interned_anew_where_its_signature_was_dropped_or_its_labels_are_counted() -> (
    None
):
    for signatures, labels in (
        (PodSignatures(max_bytes=0), {}),
        (PodSignatures(), {f"example.com/{number}": "" for number in range(10_000)}),
    ):
        first = pod({"priority": 1}, metadata={"labels": labels})
        signatures.intern(first)
        copy = msgspec.structs.replace(first, metadata=msgspec.structs.replace(first.metadata))
        signatures.release(first)
        signatures.intern_copy(copy)
        assert copy.signature.priority == 1
        assert signatures.statistics().references == 1
        signatures.release(copy)
        assert signatures.statistics().label_bytes == 0
