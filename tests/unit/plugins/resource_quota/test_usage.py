"""B11: usage equals upstream's quota evaluator. Sums also against the conformance vectors."""

from __future__ import annotations

import gzip
from typing import Any

import msgspec
import pytest

from devtools.conformance.units import VECTOR_DIRECTORY
from plugins.resource_quota.usage import UsageCache, pod_usage
from scheduler.api import Pod, PodSignatures
from scheduler.api.quantity import parse
from tests.unit.api.objects import container, pod

ALWAYS = {"restartPolicy": "Always"}


def resized(name: str, spec: str, actual: str, allocated: str, **parts: Any) -> Pod:
    status = {
        "name": name,
        "resources": {"requests": {"cpu": actual}, "limits": {"cpu": actual}},
        "allocatedResources": {"cpu": allocated},
    }
    sizes = {"requests": {"cpu": spec}, "limits": {"cpu": spec}}
    return pod(
        {"containers": [container(name, **sizes)]},
        status={"containerStatuses": [status], **parts},
    )


INFEASIBLE = {"conditions": [{"type": "PodResizePending", "reason": "Infeasible"}]}


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        pytest.param(pod(), {}, id="nothing stated"),
        pytest.param(
            pod({"containers": [container(requests={"cpu": "0"})]}), {}, id="zero is no usage"
        ),
        pytest.param(
            pod({"containers": [container(requests={"cpu": "100m"}, limits={"cpu": "1"})] * 2}),
            {"cpu": "200m", "requests.cpu": "200m", "limits.cpu": "2"},
            id="containers add up",
        ),
        pytest.param(
            pod(
                {
                    "initContainers": [container("i", requests={"memory": "3Gi"})],
                    "containers": [container(requests={"memory": "1Gi"})],
                }
            ),
            {"memory": "3Gi", "requests.memory": "3Gi"},
            id="largest init container",
        ),
        pytest.param(
            pod(
                {
                    "initContainers": [
                        container("s", requests={"cpu": "1"}, **ALWAYS),
                        container("i", requests={"cpu": "3"}),
                    ],
                    "containers": [container(requests={"cpu": "2"})],
                }
            ),
            {"cpu": "4", "requests.cpu": "4"},
            id="init container beside an earlier sidecar",
        ),
        pytest.param(
            pod(
                {
                    "containers": [container(requests={"cpu": "1"}, limits={"memory": "1Gi"})],
                    "overhead": {"cpu": "250m", "memory": "64Mi"},
                }
            ),
            {
                "cpu": "1250m",
                "requests.cpu": "1250m",
                "memory": "64Mi",
                "requests.memory": "64Mi",
                "limits.memory": "1088Mi",
            },
            id="overhead raises limits that exist",
        ),
        pytest.param(
            pod(
                {
                    "containers": [
                        container(requests={"cpu": "1", "nvidia.com/gpu": "1"}),
                    ],
                    "resources": {"requests": {"cpu": "3"}, "limits": {"cpu": "5"}},
                }
            ),
            {
                "cpu": "3",
                "requests.cpu": "3",
                "limits.cpu": "5",
                "requests.nvidia.com/gpu": "1",
            },
            id="pod level replaces CPU, memory and huge pages only",
        ),
        pytest.param(
            pod(
                {
                    "containers": [
                        container(
                            requests={"hugepages-2Mi": "4Mi", "ephemeral-storage": "1Gi"},
                            limits={"hugepages-2Mi": "4Mi", "nvidia.com/gpu": "2"},
                        )
                    ]
                }
            ),
            {
                "hugepages-2Mi": "4Mi",
                "requests.hugepages-2Mi": "4Mi",
                "limits.hugepages-2Mi": "4Mi",
                "ephemeral-storage": "1Gi",
                "requests.ephemeral-storage": "1Gi",
                "limits.nvidia.com/gpu": "2",
            },
            id="huge pages under two names",
        ),
        pytest.param(
            resized("c", "1", "2", "3"),
            {"cpu": "3", "requests.cpu": "3", "limits.cpu": "2"},
            id="resize: the largest counts; limits know no allocation",
        ),
        pytest.param(
            resized("c", "5", "2", "3"),
            {"cpu": "5", "requests.cpu": "5", "limits.cpu": "5"},
            id="resize up is charged at once",
        ),
        pytest.param(
            resized("c", "5", "2", "2", **INFEASIBLE),
            {"cpu": "2", "requests.cpu": "2", "limits.cpu": "2"},
            id="infeasible resize: the spec does not count",
        ),
        pytest.param(
            pod(
                {
                    "containers": [
                        container(
                            requests={
                                "deviceclass.resource.kubernetes.io/gpu": "1",
                                "storage": "1Gi",
                            }
                        )
                    ]
                }
            ),
            {"requests.deviceclass.resource.kubernetes.io/gpu": "1"},
            id="device class counts as extended, storage does not",
        ),
    ],
)
def test_b11_usage(subject: Pod, expected: dict[str, str]) -> None:
    found = dict(pod_usage(subject))
    assert found.pop("pods") == found.pop("count/pods") == parse("1").nano
    assert found == {name: parse(amount).nano for name, amount in expected.items()}


def test_b11_usage_agrees_with_every_vector_of_pod_requests() -> None:
    seen = 0
    with gzip.open(VECTOR_DIRECTORY / "pod_requests.jsonl.gz") as lines:
        for vector in map(msgspec.json.decode, lines):
            subject = msgspec.convert(vector["input"], Pod)
            usage = pod_usage(subject)
            # The vectors' running pod has whole bytes and millicores.
            assigned = vector["expected"]["asAssigned"]
            assert -(-usage.get("requests.cpu", 0) // 10**6) == assigned["cpuMilli"], vector["id"]
            assert -(-usage.get("memory", 0) // 10**9) == assigned["memory"], vector["id"]
            for name, amount in vector["expected"]["limits"].items():
                if not (subject.status.container_statuses or subject.status.resources):
                    assert usage.get(f"limits.{name}", 0) == parse(amount).nano, vector["id"]
            seen += 1
    assert seen > 50


def test_pods_of_one_signature_share_one_usage() -> None:
    signatures, cache = PodSignatures(), UsageCache()
    spec = {"containers": [container(requests={"cpu": "1"})]}
    first, second = (pod(spec, metadata={"name": name, "uid": name}) for name in "ab")
    for each in (first, second):
        signatures.intern(each)
    assert cache.of(first) is cache.of(second)


def test_limits_that_differ_in_the_status_are_not_shared() -> None:
    signatures, cache = PodSignatures(), UsageCache()
    plain = pod(
        {"containers": [container(requests={"cpu": "1"}, limits={"cpu": "1"})]},
        metadata={"uid": "a"},
    )
    status = {"name": "c", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}
    shrinking = pod(
        {"containers": [container(requests={"cpu": "1"}, limits={"cpu": "1"})]},
        metadata={"uid": "b"},
        status={"containerStatuses": [status]},
    )
    for each in (plain, shrinking):
        signatures.intern(each)
    assert cache.of(plain)["limits.cpu"] == parse("1").nano
    assert cache.of(shrinking)["limits.cpu"] == parse("2").nano
