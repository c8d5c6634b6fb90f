"""Pods of 1 MB: how little is kept of one, that it reads the same, and that accounts are true.

Memory is measured by tracemalloc, so nothing here depends on the allocator.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest

from scheduler.api import Pod, PodSignatures, QuantityError
from scheduler.api.bounded_cache import BoundedCache
from scheduler.api.packed_labels import PackedLabels, labels_key
from scheduler.api.signatures.packed_spec import PACKED_FIELDS, for_scheduler, replaced
from scheduler.api.signatures.signature import PackedSignature
from scheduler.api.signatures.unpacked_cache import MAX_UNPACKED_BYTES, Packed
from scheduler.cache import Cache, NodeOverlay
from scheduler.cache.cache import with_node
from tests.unit.api.objects import container, node, pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
MB = 1_000_000
DERIVED = (
    "requests",
    "assigned",
    "scoring",
    "required_node_affinity",
    "named_nodes",
    "preferred_node_affinity",
    "host_ports",
    "images",
    "required_features",
)


def _anti_affinity(seed: int) -> dict[str, Any]:
    terms = [
        {
            "topologyKey": "host",
            "labelSelector": {"matchLabels": {f"k{seed}-{i}": f"value-{i:040}"}},
        }
        for i in range(5000)
    ]
    return {"affinity": {"podAntiAffinity": {REQUIRED: terms}}}


def _node_affinity(seed: int) -> dict[str, Any]:
    terms = [
        {"matchExpressions": [{"key": f"k{seed}-{i}", "operator": "In", "values": [f"v-{i:040}"]}]}
        for i in range(7000)
    ]
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}}


def _resources(seed: int) -> dict[str, Any]:
    names = {f"example.com/r{seed}-{i}": "0" for i in range(20_000)}
    return {"containers": [container("c", requests={"cpu": "1m", **names})]}


def _tolerations(seed: int) -> dict[str, Any]:
    return {
        "tolerations": [
            {"key": f"k{seed}-{i}", "value": f"value-{i:040}", "effect": "NoSchedule"}
            for i in range(9000)
        ]
    }


def _node_selector(seed: int) -> dict[str, Any]:
    return {"nodeSelector": {f"label-{seed}-{i}": f"value-{i:040}" for i in range(14_000)}}


LARGE: dict[str, Callable[[int], dict[str, Any]]] = {
    "anti-affinity": _anti_affinity,
    "node affinity": _node_affinity,
    "resources": _resources,
    "tolerations": _tolerations,
    "nodeSelector": _node_selector,
}
kinds = pytest.mark.parametrize("spec", LARGE.values(), ids=LARGE)


def small(seed: int) -> dict[str, Any]:
    """A signature as people write it, though not of any template that was seen before."""
    term = {"topologyKey": "host", "labelSelector": {"matchLabels": {"app": f"app-{seed}"}}}
    return {
        "containers": [container("c", requests={"cpu": "100m", "memory": f"{seed}Mi"})],
        "affinity": {"podAntiAffinity": {REQUIRED: [term]}},
        "nodeSelector": {"disk": "ssd"},
    }


@contextmanager
def traced() -> Iterator[Callable[[], int]]:
    """Give a function that returns the bytes allocated within that are still held."""
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    try:
        yield lambda: tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


def derive(signature: Any) -> None:
    for name in DERIVED:
        getattr(signature, name)


@kinds
def test_a_large_pod_reads_as_it_was_written(spec: Callable[[int], dict[str, Any]]) -> None:
    subject, plain = pod(spec(1)), pod(spec(1))
    signature = PodSignatures().intern(subject)
    assert isinstance(signature, PackedSignature)
    for name in PACKED_FIELDS:
        assert getattr(subject.spec, name) == getattr(plain.spec, name)
        assert getattr(signature.spec, name) == getattr(plain.spec, name)
    with pytest.raises(AttributeError):
        _ = subject.spec.no_such_field  # type: ignore[attr-defined]
    placed = with_node(subject, "n")
    assert placed.spec.node_name == "n"
    assert placed.spec.tolerations == plain.spec.tolerations
    assert placed.spec != subject.spec
    assert replaced(placed.spec, node_name="") == subject.spec
    other = for_scheduler(subject.spec, "other")
    assert other.scheduler_name == "other"
    assert other.tolerations == plain.spec.tolerations
    assert for_scheduler(other, subject.spec.scheduler_name) == subject.spec


@kinds
def test_values_derived_from_a_large_pod_are_the_same_after_eviction(
    spec: Callable[[int], dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = PodSignatures().intern(pod(spec(1)))
    monkeypatch.setattr("scheduler.api.signatures.interner.PACK_BYTES", 1 << 30)
    plain = PodSignatures().intern(pod(spec(1)))
    assert not isinstance(plain, PackedSignature)
    for _ in range(2):
        for name in DERIVED:
            assert getattr(packed, name) == getattr(plain, name)
        assert packed.non_zero == plain.non_zero
        assert isinstance(packed, PackedSignature)
        packed.packed.forget()


def test_a_dry_run_of_preemption_unpacks_no_victim(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = container("c", ports=[{"hostPort": 80}], requests={"cpu": "1", "example.com/gpu": "2"})
    victims = [
        pod({**_anti_affinity(seed), "containers": [gpu]}, metadata={"uid": f"{seed}"})
        for seed in (1, 2)
    ]
    signatures, cluster = PodSignatures(), Cache()
    cluster.set_node(node("n"))
    for each in victims:
        signatures.intern(each)
        assert isinstance(each.signature, PackedSignature)
        each.signature.packed.forget()
    monkeypatch.setattr(Packed, "unpack", lambda _self: pytest.fail("unpacked"))
    overlay = NodeOverlay(cluster.table, 0)
    for each in victims:
        overlay.add_pod(each)
    assert overlay.requested.scalars == (("example.com/gpu", 4),)
    overlay.remove_pod(victims[0])
    overlay.add_pod(victims[0])
    assert overlay.requested.milli_cpu == 2000
    assert overlay.used_ports == {("TCP", 80): {"0.0.0.0": 2}}


@pytest.mark.slow
@kinds
def test_live_large_pods_hold_a_fraction_of_their_json(
    spec: Callable[[int], dict[str, Any]],
) -> None:
    signatures, live = PodSignatures(), []
    signatures.intern(pod(spec(0)))
    with traced() as held:
        for seed in range(1, 5):
            live.append(pod(spec(seed)))
            derive(signatures.intern(live[-1]))
        statistics = signatures.statistics()
        assert statistics.packed == 5
        accounted = statistics.bytes + statistics.unpacked_bytes
        assert statistics.unpacked_bytes <= MAX_UNPACKED_BYTES
        assert held() / 1.5 < accounted < held() * 1.5
        for each in live:
            signature = each.signature
            assert isinstance(signature, PackedSignature)
            signature.packed.forget()
        assert signatures.statistics().unpacked_bytes < 15 * MB
        assert held() < 4 * 0.5 * MB


@pytest.mark.slow
@kinds
def test_large_pods_that_come_and_go_leave_nothing(
    spec: Callable[[int], dict[str, Any]],
) -> None:
    signatures = PodSignatures()
    signatures.intern(pod(spec(0)))
    with traced() as held:
        for seed in range(1, 5):
            subject = pod(spec(seed))
            derive(signatures.intern(subject))
            signatures.release(subject)
        del subject
        assert (signatures.statistics().signatures, signatures.statistics().unreferenced) == (1, 0)
        assert held() < MB


@pytest.mark.slow
def test_the_account_of_ordinary_signatures_is_true() -> None:
    signatures, live = PodSignatures(), []
    derive(signatures.intern(pod(small(0))))
    before = signatures.statistics().bytes
    with traced() as held:
        for seed in range(1, 1001):
            live.append(pod(small(seed)))
            derive(signatures.intern(live[-1]))
        accounted = signatures.statistics().bytes - before
        assert held() / 1.5 < accounted < held() * 1.5
    assert signatures.statistics().packed == 0


def test_a_large_signature_goes_with_its_last_pod() -> None:
    signatures = PodSignatures()
    first, second, ordinary = pod(_tolerations(1)), pod(_tolerations(1)), pod({"priority": 1})
    assert signatures.intern(first) is signatures.intern(second)
    signatures.intern(ordinary)
    signatures.release(ordinary)
    signatures.release(first)
    assert signatures.statistics().packed == 1
    signatures.release(second)
    assert (signatures.statistics().packed, signatures.statistics().signatures) == (0, 1)
    assert len(second.spec.tolerations) == 9000, "a late reader still finds all"
    assert signatures.intern(pod(_tolerations(1))) is not first.signature


def test_a_large_pod_with_unreadable_amounts_is_left_as_it_was() -> None:
    names: dict[str, Any] = {f"example.com/r{i}": "0" for i in range(3000)}
    subject = pod({"containers": [container("c", requests={**names, "cpu": "much"})]})
    signatures = PodSignatures()
    with pytest.raises(QuantityError):
        signatures.intern(subject)
    assert subject.interned is None
    assert signatures.statistics().signatures == 0


def test_a_key_of_many_labels_is_small_and_differs_with_them() -> None:
    labels = {f"key-{i}": f"value-{i}" for i in range(1000)}
    key = labels_key(labels)
    assert len(key) == 32
    assert key == labels_key(dict(reversed(labels.items())))
    assert key != labels_key(labels | {"key-1": "other"})
    assert labels_key({"a": "b", "c": "d"}) == labels_key({"c": "d", "a": "b"})


def test_a_bounded_cache_is_cleared_when_it_exceeds_its_bytes() -> None:
    cache: BoundedCache[str, int] = BoundedCache(100)
    cache.put("a", 1, 60)
    cache.put("b", 2, 40)
    assert (cache.get("a"), cache.get("b"), cache.nbytes) == (1, 2, 100)
    cache.put("c", 3, 1)
    assert (cache.get("a"), cache.get("c"), cache.nbytes, len(cache)) == (None, 3, 1, 1)
    cache.put("d", 4, 101)
    assert (cache.get("d"), len(cache), cache.nbytes) == (None, 0, 0)


def test_a_large_pod_is_decoded_as_any_other() -> None:
    text = msgspec.json.encode({"metadata": {"name": "p"}, "spec": _tolerations(1)})
    subject = msgspec.json.decode(text, type=Pod)
    PodSignatures().intern(subject)
    assert len(subject.spec.tolerations) == 9000


def _labels(seed: int) -> dict[str, str]:
    return {f"{seed}{i:x}": f"{i:x}" for i in range(50_000)}


def test_very_many_labels_read_as_they_were_written() -> None:
    plain = _labels(1)
    first, second = (pod(metadata={"labels": plain}) for _ in range(2))
    signatures = PodSignatures()
    for each in (first, second):
        signatures.intern(each)
    labels: Any = first.metadata.labels
    assert isinstance(labels, PackedLabels)
    assert second.metadata.labels is first.metadata.labels
    assert (dict(labels), len(labels)) == (plain, 50_000)
    assert dict(labels.items()) == plain
    assert labels == plain
    assert labels != plain | {"1ff": "other"}
    assert (labels["1ff"], labels.get("1ff"), labels.get("none")) == ("ff", "ff", None)
    assert "1ff" in labels
    assert "none" not in labels
    assert labels_key(labels) == labels_key(plain)
    with pytest.raises(KeyError):
        labels["none"]


@pytest.mark.slow
def test_live_pods_with_very_many_labels_hold_little_more_than_their_json() -> None:
    signatures, live = PodSignatures(), [pod(metadata={"labels": _labels(0)})]
    signatures.intern(live[0])
    json = len(msgspec.json.encode(_labels(1)))
    with traced() as held:
        for seed in range(1, 4):
            live.append(pod(metadata={"labels": _labels(seed)}))
            signatures.intern(live[-1])
            # Lookups by selectors unpack nothing.
            assert live[-1].metadata.labels.get("app") is None
            if seed == 1:
                first = held()
        statistics = signatures.statistics()
        assert statistics.unpacked_bytes == 0
        assert held() / 1.5 < statistics.label_bytes < held() * 1.5
        # Eight bytes a label beside its text, where JSON has five: the shortest labels there are.
        assert held() - first < 2 * 1.3 * json


def test_labels_that_pods_share_are_accounted_for_once_and_until_the_last_has_gone() -> None:
    signatures = PodSignatures()
    pods = [pod(metadata={"labels": _labels(1)}) for _ in range(3)]
    for each in pods:
        signatures.intern(each)
    held = signatures.statistics().label_bytes
    labels: Any = pods[0].metadata.labels
    assert held == labels.nbytes > 200_000
    for each in pods:
        assert signatures.statistics().label_bytes == held
        signatures.release(each)
    assert signatures.statistics().label_bytes == 0


def test_versions_of_a_pod_share_their_labels_whatever_came_between_them() -> None:
    signatures = PodSignatures()
    first, other, second = (pod(metadata={"labels": _labels(seed)}) for seed in (1, 2, 1))
    for each in (first, other, second):
        signatures.intern(each)
    assert second.metadata.labels is first.metadata.labels
    assert other.metadata.labels != first.metadata.labels


def test_a_signature_without_pods_keeps_the_labels_of_none() -> None:
    signatures = PodSignatures()
    first, second = (pod(metadata={"labels": {"app": "a"}}) for _ in range(2))
    signature = signatures.intern(first)
    signatures.release(first)
    assert signatures.intern(second) is signature
    assert second.metadata.labels is not first.metadata.labels


def test_of_thousands_of_owners_the_controller_is_kept() -> None:
    owners: list[dict[str, Any]] = [
        {"kind": "ConfigMap", "name": f"o{i}", "uid": f"u{i}"} for i in range(1000)
    ]
    owners.append({"kind": "ReplicaSet", "name": "rs", "uid": "rs", "controller": True})
    subject = pod(metadata={"ownerReferences": owners, "finalizers": ["example.com/f"] * 1000})
    signature = PodSignatures().intern(subject)
    assert [each.name for each in subject.metadata.owner_references] == ["rs"]
    assert signature.controller_owner is not None
    assert len(subject.metadata.finalizers) == 64
