"""The pod of whatever people hand in as "my pod"."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.api.pod_templates import NoPodError, PodCount, pod_count, pod_of

SPEC = {"containers": [{"name": "c"}]}
TEMPLATE = {"metadata": {"labels": {"a": "b"}, "creationTimestamp": None}, "spec": SPEC}
JOB = {"spec": {"template": TEMPLATE}}
HEAD = {"metadata": {"name": "own", "namespace": "team"}}


@pytest.mark.parametrize(
    "manifest",
    [
        {"kind": "Deployment", **HEAD, **JOB},
        {"kind": "Job", **HEAD, **JOB},
        {"kind": "Rollout", "apiVersion": "argoproj.io/v1alpha1", **HEAD, **JOB},
        {"kind": "CronJob", **HEAD, "spec": {"jobTemplate": JOB}},
        {"kind": "PodTemplate", **HEAD, "template": TEMPLATE},
        {**HEAD, **JOB},
    ],
)
def test_a_controller_has_the_pods_of_its_template(manifest: dict[str, Any]) -> None:
    found = pod_of(manifest)
    assert (found.pod["apiVersion"], found.pod["kind"], found.pod["spec"]) == ("v1", "Pod", SPEC)
    metadata = found.pod["metadata"]
    assert (metadata["name"], metadata["namespace"]) == ("own", "team")
    assert metadata["labels"] == {"a": "b"}
    assert found.left_out == ""


@pytest.mark.parametrize(
    "manifest",
    [
        {"kind": "Pod", "metadata": {"generateName": "a-"}, "spec": SPEC},
        {"kind": "Pod"},
        {"spec": SPEC},
        {"kind": "Pod", "metadata": None, "spec": None},
    ],
)
def test_a_pod_is_one_with_or_without_a_name(manifest: dict[str, Any]) -> None:
    before = dict(manifest)
    pod = pod_of(manifest).pod
    assert pod["kind"] == "Pod"
    assert isinstance(pod["metadata"], dict)
    assert manifest == before


@pytest.mark.parametrize(
    ("manifest", "text"),
    [
        (None, "is no Kubernetes object"),
        ([1], "is no Kubernetes object"),
        ({"services": {"web": {"image": "nginx"}}}, "has neither kind nor spec"),
        ({"kind": "Service", "spec": {"selector": {}}}, "is a Service, which has no template"),
        ({"kind": "Certificate", "spec": {"template": {"name": "x"}}}, "is a Certificate, which"),
        ({"kind": "CronJob", "spec": {"jobTemplate": {"spec": 1}}}, "is a CronJob, which has no"),
        ({"kind": "Deployment", "spec": {"template": {"spec": [1]}}}, "must be objects"),
        ({"kind": "Deployment", "metadata": 7, **JOB}, "must be objects"),
        ({"kind": "Pod", "metadata": "x"}, "must be objects"),
        ({"kind": "Pod", "spec": "x"}, "must be objects"),
        ({"kind": ["Pod"], "spec": {}}, "which has no template"),
    ],
)
def test_what_has_no_pod_is_named(manifest: Any, text: str) -> None:
    with pytest.raises(NoPodError, match=text):
        pod_of(manifest)


def test_what_a_pod_lacks_is_said() -> None:
    spec = {"template": TEMPLATE, "volumeClaimTemplates": [{"metadata": {"name": "d"}}]}
    assert "volumeClaimTemplates" in pod_of({"kind": "StatefulSet", "spec": spec}).left_out


@pytest.mark.parametrize(
    ("kind", "fields", "number", "field"),
    [
        ("Deployment", {"replicas": 7}, 7, "spec.replicas"),
        ("StatefulSet", {}, 1, ""),
        ("ReplicationController", {"replicas": 0}, 0, "spec.replicas"),
        ("Rollout", {"replicas": 3}, 3, "spec.replicas"),
        ("Job", {"parallelism": 5}, 5, "spec.parallelism"),
        ("Job", {"parallelism": 5, "completions": 3}, 3, "spec.completions"),
        ("Job", {"parallelism": 2, "completions": 9}, 2, "spec.parallelism"),
        ("Job", {"completions": 9}, 1, ""),
        ("DaemonSet", {}, 1, ""),
    ],
)
def test_a_controller_makes_so_many_pods(
    kind: str, fields: dict[str, Any], number: int, field: str
) -> None:
    manifest = {"kind": kind, "spec": {"template": TEMPLATE, **fields}}
    assert pod_count(manifest) == PodCount(number, field)


@pytest.mark.parametrize("manifest", [None, [1], {"kind": "Pod", "spec": {"replicas": 3}}])
def test_all_else_is_one_pod(manifest: Any) -> None:
    assert pod_count(manifest) == PodCount(1)


@pytest.mark.parametrize("value", ["7", -1, True, 1.5, [3]])
def test_a_number_of_replicas_that_is_none_is_named(value: Any) -> None:
    with pytest.raises(NoPodError, match=r"has spec\.replicas .* must be a number from 0"):
        pod_count({"spec": {"template": TEMPLATE, "replicas": value}})
