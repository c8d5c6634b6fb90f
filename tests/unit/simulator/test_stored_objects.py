"""The embedded API server stores what `scheduler.api.stored` says, and nothing else is read of it.

That this is what kube-apiserver stores is compared in `tests/envtest/test_stored_manifests.py`.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.api.stored import as_stored
from scheduler.client.kinds import BUILT_IN
from simulator import EmbeddedCluster
from simulator.admission import Personality, WriteOptions
from simulator.api import MERGE_PATCH, Api
from simulator.errors import ApiError
from simulator.objects import JsonObject, copy_tree
from tests.unit.api.stored.manifests import drawn_pods, picked
from tests.unit.api.stored.surroundings import NAMESPACES, SURROUNDINGS


def _create(api: Api, obj: JsonObject, *, dry_run: bool = False) -> JsonObject:
    resource = api.resources.of_kind(obj["apiVersion"], obj["kind"])
    namespace = obj["metadata"].get("namespace", "default") if resource.namespaced else ""
    return api.create(resource, namespace, copy_tree(obj), WriteOptions(dry_run=dry_run)).obj


@pytest.fixture
def furnished(api: Api) -> Api:
    for name in NAMESPACES:
        if api.store.get("namespaces", "", name) is None:
            _create(api, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    for each in SURROUNDINGS:
        _create(api, each)
    return api


def _read(obj: JsonObject) -> Any:
    resource = BUILT_IN[obj["apiVersion"].rpartition("/")[0], obj["kind"]]
    read = msgspec.to_builtins(resource.decode(msgspec.json.encode(obj)))
    for name in ("uid", "creation_timestamp", "generation", "namespace", "finalizers"):
        read["metadata"].pop(name, None)
        read["metadata"].pop("creationTimestamp", None)
    if resource.plural != "nodes":
        read.pop("status", None)
    return read


def test_what_is_stored_is_what_is_completed(furnished: Api) -> None:
    compared = 0
    for manifest in [*picked(), *drawn_pods(200)]:
        try:
            made = _create(furnished, manifest, dry_run=True)
        except ApiError:
            continue
        compared += 1
        stored = as_stored(manifest, furnished.around.existing)
        assert _read(made) == _read(stored.obj), manifest
        again = as_stored(made, furnished.around.existing)
        assert (again.filled, again.unknown) == ((), ())
    assert compared > 200


def test_an_update_fills_in_defaults_and_no_more(furnished: Api) -> None:
    pods = furnished.resources.of_kind("v1", "Pod")
    made = _create(furnished, next(drawn_pods(1)))
    name, namespace = made["metadata"]["name"], made["metadata"]["namespace"]
    patch = {"metadata": {"labels": {"rev": "9"}}}
    patched = furnished.patch(pods, namespace, name, patch, MERGE_PATCH).obj
    assert patched["spec"] == made["spec"]


def test_a_template_is_no_pod(furnished: Api) -> None:
    """Requests and host ports are those of pods, as on kube-apiserver."""
    container = {
        "name": "c",
        "image": "x",
        "ports": [{"containerPort": 80}],
        "resources": {"limits": {"cpu": "1"}},
    }
    labels = {"app": "w"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"hostNetwork": True, "containers": [container]},
    }
    manifest = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }
    made = _create(furnished, manifest)["spec"]["template"]["spec"]["containers"][0]
    assert made["resources"] == {"limits": {"cpu": "1"}}
    assert made["ports"] == [{"containerPort": 80, "protocol": "TCP"}]


def _grouped() -> JsonObject:
    spec = {"containers": [{"name": "c", "image": "x"}], "schedulingGroup": {"podGroupName": "g"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


@pytest.mark.parametrize(
    ("gates", "kept"), [({}, False), ({"GenericWorkload": True}, True)], ids=str
)
@pytest.mark.parametrize("personality", ["stock", "native"])
def test_the_group_of_a_pod_is_kept_with_its_gate(
    personality: Personality, gates: dict[str, bool], kept: bool
) -> None:
    cluster = EmbeddedCluster(personality=personality, feature_gates=gates)
    assert ("schedulingGroup" in cluster.create(_grouped())["spec"]) is kept
    row = cluster.resources.find("scheduling.k8s.io", "v1beta1", "podgroups")
    assert (row is not None) is kept
