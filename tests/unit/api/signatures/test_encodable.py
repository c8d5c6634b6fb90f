"""Interned pods are written as they were read, however large they are."""

from __future__ import annotations

import msgspec
import pytest

from devtools.hostile.catalogue import chosen
from scheduler.api.packed_labels import PackedLabels
from scheduler.api.pod import Pod
from scheduler.api.signatures.encodable import encodable
from scheduler.api.signatures.interner import PodSignatures
from scheduler.api.signatures.packed_spec import PackedSpec
from scheduler.client.clock import SystemClock
from scheduler.client.resources import PODS
from scheduler.explain.what_if.changes import as_json
from scheduler.extenders.transport import HttpExtenderTransport
from scheduler.metrics.scheduler_metrics import SchedulerMetrics
from scheduler.offline.bundles import MALFORMED
from scheduler.recording.objects import encode_object


@pytest.mark.slow
def test_every_pod_that_was_written_is_like_the_one_that_was_read() -> None:
    signatures, packed = PodSignatures(), set()
    for case in chosen(plural="pods"):
        try:
            pod = PODS.decode(
                msgspec.json.encode(case.object(case.full if case.grows else case.small, 1))
            )
            labels = dict(pod.metadata.labels)
            signatures.intern(pod)
        except MALFORMED:
            continue
        packed |= {type(pod.spec), type(pod.metadata.labels)}
        again = PODS.decode(PODS.encode(encodable(pod)))
        assert again.metadata.labels == labels, case.name
        signatures.intern(again)
        assert again.signature is pod.signature, case.name
    assert {PackedSpec, PackedLabels} <= packed


@pytest.fixture
def pod() -> Pod:
    """Return a pod with packed labels and a packed spec."""
    names = {f"key-{number}": "value" * 10 for number in range(1000)}
    spec = {"schedulerName": "kubestow", "nodeSelector": names, "containers": []}
    found = PODS.decode(
        msgspec.json.encode(
            {"metadata": {"name": "p", "namespace": "n", "labels": names}, "spec": spec}
        )
    )
    PodSignatures().intern(found)
    assert isinstance(found.spec, PackedSpec)
    return found


def test_a_recording_an_extender_and_a_question_get_all_of_a_large_pod(pod: Pod) -> None:
    recorded = PODS.decode(encode_object(PODS, pod))
    transport = HttpExtenderTransport(
        [],
        clock=SystemClock(),
        metrics=SchedulerMetrics(),
        failures=1,
        cool_down=1.0,
        stores=lambda _: None,
    )
    sent = PODS.decode(transport.pod_bytes(pod))
    changed = PODS.decode(msgspec.json.encode(as_json(pod)))
    for each in (recorded, sent, changed):
        assert len(each.metadata.labels) == len(each.spec.node_selector or {}) == 1000
