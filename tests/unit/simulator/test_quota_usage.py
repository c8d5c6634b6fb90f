"""Quota usage of a pod."""

from __future__ import annotations

import pytest

from simulator.objects import JsonObject, format_time
from simulator.quota_evaluators import evaluator_of
from simulator.quota_usage import counts_for_quota, pod_usage, texts
from simulator.resources import ResourceTable
from simulator.store import Store
from tests.unit.simulator.objects import START


def _container(name: str = "c", **requests: str) -> JsonObject:
    return {"name": name, "resources": {"requests": requests}}


def _pod(*containers: JsonObject, status: JsonObject | None = None, **spec: object) -> JsonObject:
    return {
        "metadata": {},
        "spec": {"containers": list(containers), **spec},
        "status": status or {},
    }


_STATUS = {"name": "c", "resources": {"requests": {"cpu": "3"}}, "allocatedResources": {"cpu": "2"}}
_INFEASIBLE = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}


@pytest.mark.parametrize(
    ("pod", "cpu"),
    [
        (_pod(_container(cpu="1"), _container("d", cpu="500m")), "1500m"),
        (_pod(_container(cpu="1"), initContainers=[_container("i", cpu="3")]), "3"),
        (
            _pod(
                _container(cpu="1"),
                initContainers=[_container("s", cpu="2") | {"restartPolicy": "Always"}],
            ),
            "3",
        ),
        (
            _pod(
                _container(cpu="1"),
                initContainers=[
                    _container("s", cpu="2") | {"restartPolicy": "Always"},
                    _container("i", cpu="5"),
                ],
            ),
            "7",
        ),
        (_pod(_container(cpu="1"), overhead={"cpu": "250m"}), "1250m"),
        (_pod(_container(cpu="1"), resources={"requests": {"cpu": "4"}}), "4"),
        (_pod(_container(cpu="1"), status={"containerStatuses": [_STATUS]}), "3"),
        (_pod(_container(cpu="5"), status={"containerStatuses": [_STATUS]}), "5"),
        (
            _pod(
                _container(cpu="5"),
                status={"containerStatuses": [_STATUS], "conditions": [_INFEASIBLE]},
            ),
            "3",
        ),
    ],
    ids=[
        "containers are added",
        "an init container counts if larger",
        "sidecars stay",
        "an init container runs beside sidecars before it",
        "overhead",
        "pod-level resources replace the sum",
        "shrinking holds what is actual",
        "growing asks for what is wanted",
        "infeasible growth asks for nothing",
    ],
)
def test_cpu_of_a_pod(pod: JsonObject, cpu: str) -> None:
    assert texts(pod_usage(pod, START))["requests.cpu"] == cpu


def test_names_of_keys() -> None:
    pod = _pod(_container(**{"memory": "1Gi", "hugepages-2Mi": "4Mi", "nvidia.com/gpu": "2"}))
    pod["spec"]["containers"][0]["resources"]["limits"] = {"memory": "2Gi", "nvidia.com/gpu": "2"}
    assert texts(pod_usage(pod, START)) == {
        "pods": "1",
        "count/pods": "1",
        "memory": "1Gi",
        "requests.memory": "1Gi",
        "limits.memory": "2Gi",
        "hugepages-2Mi": "4Mi",
        "requests.hugepages-2Mi": "4Mi",
        "requests.nvidia.com/gpu": "2",
    }


def test_an_ended_pod_is_an_object_only() -> None:
    pod = _pod(_container(cpu="1"), status={"phase": "Succeeded"})
    assert texts(pod_usage(pod, START)) == {"count/pods": "1"}


def test_a_deletion_stops_counting_a_whole_grace_period_late() -> None:
    pod = _pod(_container(cpu="1"))
    pod["metadata"] = {
        "deletionTimestamp": format_time(START + 30),
        "deletionGracePeriodSeconds": 30,
    }
    assert counts_for_quota(pod, START + 60)
    assert not counts_for_quota(pod, START + 61)


def test_devices_of_claims_count_by_class_and_alternatives_by_the_largest() -> None:
    def of(class_name: str, **more: object) -> JsonObject:
        return {"deviceClassName": class_name, **more}

    requests = [
        {"name": "one", "exactly": of("gpu", count=2)},
        {"name": "all", "exactly": of("nic", allocationMode="All")},
        {"name": "some", "firstAvailable": [of("gpu", count=3), of("gpu"), of("tpu", count=1)]},
    ]
    claim = {"metadata": {}, "spec": {"devices": {"requests": requests}}}
    resource = ResourceTable().of_kind("resource.k8s.io/v1", "ResourceClaim")
    evaluator = evaluator_of(resource, Store())
    used = texts(evaluator.usage(claim, START))
    assert used == {
        "count/resourceclaims.resource.k8s.io": "1",
        "gpu.deviceclass.resource.k8s.io/devices": "5",
        "nic.deviceclass.resource.k8s.io/devices": "32",
        "tpu.deviceclass.resource.k8s.io/devices": "1",
        "requests.deviceclass.resource.kubernetes.io/gpu": "5",
        "requests.deviceclass.resource.kubernetes.io/nic": "32",
        "requests.deviceclass.resource.kubernetes.io/tpu": "1",
    }
    assert all(evaluator.matches(key) for key in used)
