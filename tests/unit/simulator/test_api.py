"""Verbs on kinds other than pods: preconditions, namespaces, events, apply, scale, defaults."""

from __future__ import annotations

import pytest

from simulator.admission import WriteOptions
from simulator.api import APPLY_PATCH, EVENT_TTL, MERGE_PATCH, Api
from simulator.clock import SimClock
from simulator.errors import ApiError
from simulator.objects import JsonObject, copy_tree, dig
from simulator.resources import Resource
from simulator.store import Version
from simulator.subresources import Reviewer, scale_of, set_scale
from tests.unit.simulator.objects import namespace, node, pod


def _row(api: Api, api_version: str, kind: str) -> Resource:
    return api.resources.of_kind(api_version, kind)


def _configmap(api: Api, name: str, **data: str) -> Version:
    return api.create(
        _row(api, "v1", "ConfigMap"), "default", {"metadata": {"name": name}, "data": data}
    )


def test_an_update_needs_the_current_version_if_it_names_one(api: Api) -> None:
    row = _row(api, "v1", "ConfigMap")
    first = _configmap(api, "a", k="1")
    body: JsonObject = {"metadata": {"name": "a"}, "data": {"k": "2"}}
    second = api.update(row, "default", "a", body)
    assert second.obj["metadata"]["uid"] == first.obj["metadata"]["uid"]
    stale: JsonObject = {"metadata": {"name": "a", "resourceVersion": str(first.rv)}}
    with pytest.raises(ApiError, match="the object has been modified") as raised:
        api.update(row, "default", "a", copy_tree(stale))
    assert raised.value.code == 409
    with pytest.raises(ApiError, match="the object has been modified"):
        api.patch(row, "default", "a", stale, MERGE_PATCH)
    with pytest.raises(ApiError, match="UID in precondition: other"):
        api.update(row, "default", "a", {"metadata": {"name": "a", "uid": "other"}})
    with pytest.raises(ApiError, match="does not match the name on the URL"):
        api.update(row, "default", "a", {"metadata": {"name": "b"}})


def test_the_body_must_match_the_path(api: Api) -> None:
    row = _row(api, "v1", "ConfigMap")
    with pytest.raises(ApiError, match="cannot be handled as a ConfigMap"):
        api.create(row, "default", {"kind": "Secret", "metadata": {"name": "a"}})
    with pytest.raises(ApiError, match="namespace of the provided object does not match"):
        api.create(row, "default", {"metadata": {"name": "a", "namespace": "other"}})
    _configmap(api, "a")
    with pytest.raises(ApiError, match='configmaps "a" already exists') as raised:
        _configmap(api, "a")
    assert raised.value.status["details"] == {"name": "a", "kind": "configmaps"}


def test_nulls_are_dropped(api: Api) -> None:
    made = api.create(_row(api, "v1", "Node"), "", {**node("n"), "spec": {"taints": None}})
    assert made.obj["spec"] == {}
    assert made.obj["status"]["allocatable"] == made.obj["status"]["capacity"]


def test_a_namespace_takes_its_contents_along(api: Api) -> None:
    api.create(_row(api, "v1", "Namespace"), "", namespace("gone"))
    api.create(_row(api, "v1", "Pod"), "gone", pod("a"))
    api.create(_row(api, "v1", "ConfigMap"), "gone", {"metadata": {"name": "c"}})
    _configmap(api, "stays")
    api.delete(_row(api, "v1", "Namespace"), "", "gone")
    assert api.store.items("pods") == []
    assert [version.name for version in api.store.items("configmaps")] == ["stays"]
    assert api.store.get("namespaces", "", "gone") is None


def test_events_are_one_storage_with_two_views_and_do_not_live_for_ever(
    api: Api, clock: SimClock
) -> None:
    new = _row(api, "events.k8s.io/v1", "Event")
    old = _row(api, "v1", "Event")
    body = {
        "metadata": {"name": "e1"},
        "regarding": {"kind": "Pod", "name": "a"},
        "note": "hi",
        "reportingController": "kubestow",
        "reason": "Scheduled",
    }
    api.create(new, "default", body)
    stored = api.get(old, "default", "e1").obj
    assert (stored["apiVersion"], stored["message"]) == ("v1", "hi")
    assert (stored["involvedObject"]["name"], stored["reportingComponent"]) == ("a", "kubestow")
    patched = api.patch(new, "default", "e1", {"note": "ho"}, MERGE_PATCH).obj
    assert patched["message"] == "ho"
    clock.advance(EVENT_TTL)
    api.create(old, "default", {"metadata": {"name": "e2"}, "message": "later"})
    assert [version.name for version in api.store.items("events")] == ["e2"]


def _apply(api: Api, name: str, body: JsonObject, manager: str = "me") -> JsonObject:
    row = _row(api, "v1", "ConfigMap")
    options = WriteOptions(field_manager=manager)
    return api.patch(row, "default", name, body, APPLY_PATCH, options).obj


def test_apply_creates_then_owns(api: Api) -> None:
    made = _apply(api, "a", {"data": {"x": "1", "y": "1"}})
    assert made["data"] == {"x": "1", "y": "1"}
    assert _apply(api, "a", {"data": {"z": "1"}}, "other")["data"] == {"x": "1", "y": "1", "z": "1"}
    assert _apply(api, "a", {"data": {"x": "2"}})["data"] == {"x": "2", "z": "1"}
    with pytest.raises(ApiError, match="fieldManager: Required value"):
        _apply(api, "a", {}, "")


def test_apply_of_an_undeclared_field_is_refused(api: Api) -> None:
    spread = {"topologyKey": "z", "fallbackCriteria": ["x"]}
    body = pod("a", topologySpreadConstraints=[spread])
    options = WriteOptions(field_manager="me")
    with pytest.raises(ApiError, match="fallbackCriteria: field not declared in schema"):
        api.patch(_row(api, "v1", "Pod"), "default", "a", body, APPLY_PATCH, options)


def _deployment(api: Api) -> Version:
    template = {
        "metadata": {"labels": {"app": "d"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    spec = {"selector": {"matchLabels": {"app": "d"}}, "template": template}
    row = _row(api, "apps/v1", "Deployment")
    return api.create(row, "default", {"metadata": {"name": "d"}, "spec": spec})


def test_workloads_get_defaults_and_their_selector_must_match(api: Api) -> None:
    made = _deployment(api).obj
    assert made["spec"]["replicas"] == 1
    assert made["spec"]["strategy"]["rollingUpdate"] == {"maxUnavailable": "25%", "maxSurge": "25%"}
    assert made["spec"]["template"]["spec"]["schedulerName"] == "default-scheduler"
    assert made["status"] == {}
    body = {"metadata": {"name": "e"}, "spec": {"selector": {"matchLabels": {"app": "e"}}}}
    with pytest.raises(ApiError, match="`selector` does not match template `labels`"):
        api.create(_row(api, "apps/v1", "Deployment"), "default", body)


def test_the_selector_of_a_job_follows_from_its_uid(api: Api) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    row = _row(api, "batch/v1", "Job")
    body = {"metadata": {"name": "j"}, "spec": {"template": template}}
    made = api.create(row, "default", body).obj
    uid = made["metadata"]["uid"]
    label = {"batch.kubernetes.io/controller-uid": uid}
    assert made["spec"]["selector"] == {"matchLabels": label}
    assert dig(made, "spec", "template", "metadata", "labels", "job-name") == "j"
    assert (made["spec"]["completions"], made["spec"]["parallelism"]) == (1, 1)


def test_scale_reads_and_writes_replicas(api: Api) -> None:
    row, version = _row(api, "apps/v1", "Deployment"), _deployment(api)
    assert scale_of(row, version)["status"] == {"replicas": 0, "selector": "app=d"}
    scaled = set_scale(api, row, version, {"spec": {"replicas": 4}}, WriteOptions())
    assert scaled["spec"] == {"replicas": 4}
    assert api.get(row, "default", "d").obj["metadata"]["generation"] == 2
    with pytest.raises(ApiError, match=r"spec.replicas: Invalid value: -1"):
        set_scale(api, row, version, {"spec": {"replicas": -1}}, WriteOptions())


def test_a_priority_class_never_changes_its_value(api: Api) -> None:
    row = _row(api, "scheduling.k8s.io/v1", "PriorityClass")
    api.create(row, "", {"metadata": {"name": "p"}, "value": 1})
    with pytest.raises(ApiError, match=r"value: Forbidden: may not be changed in an update\."):
        api.patch(row, "", "p", {"value": 2}, MERGE_PATCH)


def test_reviews_allow_everything_by_default() -> None:
    assert Reviewer().review("TokenReview", {"spec": {"token": "x"}})["status"]["authenticated"]
    assert Reviewer().review("SubjectAccessReview", {})["status"] == {"allowed": True}
    strict = Reviewer(authenticate=lambda _token: None, allow=lambda spec: spec.get("user") == "me")
    assert strict.review("TokenReview", {})["status"] == {"authenticated": False}
    assert not strict.review("SubjectAccessReview", {"spec": {"user": "you"}})["status"]["allowed"]
