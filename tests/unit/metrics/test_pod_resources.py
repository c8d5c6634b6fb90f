"""`kube_pod_resource_request` and `_limit`, as kube-scheduler serves them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families as parse

from scheduler.api.pod import Pod
from scheduler.metrics.pod_resources import render_pod_resources

CONTAINER: dict[str, Any] = {
    "name": "c",
    "resources": {
        "requests": {"cpu": "250m", "memory": "64Mi", "example.com/gpu": "2", "hugepages-2Mi": "0"},
        "limits": {"cpu": "1", "hugepages-2Mi": "4Mi"},
    },
}


def pod(phase: str = "Running", **spec: Any) -> Pod:
    return msgspec.convert(
        {
            "metadata": {"name": "p", "namespace": "ns", "uid": "1"},
            "spec": {"schedulerName": "kubestow", "containers": [CONTAINER], **spec},
            "status": {"phase": phase},
        },
        Pod,
    )


def samples(*pods: Pod) -> dict[tuple[str, str, str], tuple[float, dict[str, str]]]:
    """Value and labels by metric, pod and resource."""
    found = {}
    for family in parse(render_pod_resources(pods).decode()):
        assert family.type == "gauge"
        for sample in family.samples:
            labels = dict(sample.labels)
            found[sample.name, labels["pod"], labels["resource"]] = (sample.value, labels)
    return found


def test_requests_and_limits_that_are_not_zero_are_listed() -> None:
    found = {key: value for key, (value, _) in samples(pod()).items()}
    assert found == {
        ("kube_pod_resource_request", "p", "cpu"): 0.25,
        ("kube_pod_resource_request", "p", "memory"): 64 * 2**20,
        ("kube_pod_resource_request", "p", "example.com/gpu"): 2,
        ("kube_pod_resource_limit", "p", "cpu"): 1,
        ("kube_pod_resource_limit", "p", "hugepages-2Mi"): 4 * 2**20,
    }


@pytest.mark.parametrize(
    ("spec", "node", "priority"),
    [({}, "", ""), ({"nodeName": "n", "priority": 0}, "n", "0"), ({"priority": 7}, "", "7")],
)
def test_labels(spec: dict[str, Any], node: str, priority: str) -> None:
    _, labels = samples(pod(**spec))["kube_pod_resource_request", "p", "cpu"]
    assert labels == {
        "namespace": "ns",
        "pod": "p",
        "node": node,
        "scheduler": "kubestow",
        "priority": priority,
        "resource": "cpu",
        "unit": "cores",
    }


@pytest.mark.parametrize(
    ("phase", "node", "listed"),
    [
        ("Running", "n", True),
        ("Pending", "", True),
        ("Succeeded", "n", False),
        ("Failed", "n", False),
        ("Failed", "", True),
    ],
)
def test_pods_that_ended_on_a_node_are_left_out(phase: str, node: str, listed: bool) -> None:
    assert bool(samples(pod(phase, nodeName=node))) is listed


def test_without_pods_the_text_is_empty() -> None:
    assert render_pod_resources([]) == b""


def test_a_pod_that_cannot_be_read_does_not_hide_the_others() -> None:
    bad = {"name": "c", "resources": {"requests": {"cpu": "many"}}}
    assert samples(pod(containers=[bad]), pod()) == samples(pod())


def test_texts_of_users_are_escaped_in_labels() -> None:
    hostile = 'x"} 1\nforged{a="\\'
    _, labels = samples(pod(schedulerName=hostile))["kube_pod_resource_request", "p", "cpu"]
    assert labels["scheduler"] == hostile
