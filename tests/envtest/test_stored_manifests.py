"""Manifests are completed as a real API server completes them, in every field that is read.

Each manifest is sent as a dry run, and read with the types of the scheduler. Those that the server
refuses are left out: validation is not what is compared.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
import pytest

from devtools.control_plane.admin import AdminClient
from devtools.control_plane.control_plane import Binaries, ControlPlane
from scheduler.api.node import HOSTNAME
from scheduler.api.quantity import milli_value
from scheduler.api.stored import Nothing, as_stored
from scheduler.client.kinds import BUILT_IN
from scheduler.client.resources import Resource
from scheduler.client.store import Store
from scheduler.service.manifests import StoredObjects
from simulator.objects import drop_nulls
from tests.unit.api.stored.manifests import drawn_pods, picked
from tests.unit.api.stored.surroundings import NAMESPACES, SURROUNDINGS

JsonObject = dict[str, Any]

pytestmark = pytest.mark.envtest()

DRAWN: Final = 450
LEAST: Final = 300
"""Manifests that the server must have taken, so that the comparison is one."""

_AMOUNTS: Final = frozenset(
    (
        *("allocatable", "capacity", "default", "defaultRequest", "hard", "limits", "max"),
        *("min", "overhead", "podFixed", "requests"),
    )
)
_NOT_COMPARED: Final = [
    "annotations",
    "creationTimestamp",
    "finalizers",
    "generation",
    "namespace",
    "resourceVersion",
    "uid",
]
"""Metadata that only the server gives, or that nobody reads of a new object."""


@pytest.fixture(scope="module")
def admin(
    envtest_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AdminClient]:
    """Run a control plane of its own: a default PriorityClass concerns every pod."""
    with ControlPlane(envtest_binaries, directory=tmp_path_factory.mktemp("stored")) as plane:
        for name in NAMESPACES:
            plane.admin.ensure("/api/v1/namespaces", {"metadata": {"name": name}})
        for each in SURROUNDINGS:
            plane.admin.ensure(_path(each), each)
        yield plane.admin


def _resource(obj: Mapping[str, Any]) -> Resource[Any]:
    return BUILT_IN[obj["apiVersion"].rpartition("/")[0], obj["kind"]]


def _path(obj: Mapping[str, Any]) -> str:
    return _resource(obj).collection_path(obj["metadata"].get("namespace", "default"))


def _existing(admin: AdminClient) -> StoredObjects:
    stores: dict[str, Store[Any]] = {each.plural: Store(each) for each in BUILT_IN.values()}
    for plural in {_resource(each).plural for each in SURROUNDINGS}:
        store = stores[plural]
        found: Any = admin.request("GET", store.resource.collection_path())["items"]
        for each in found:
            item = store.resource.decode(msgspec.json.encode(each))
            store.put(store.resource.key(item), item)
    return StoredObjects(stores, {}, complete=True)


def _read(resource: Resource[Any], obj: Mapping[str, Any]) -> Any:
    """Return what scheduling reads of an object, with amounts as numbers."""
    read = msgspec.to_builtins(resource.decode(msgspec.json.encode(obj)))
    for name in _NOT_COMPARED:
        read["metadata"].pop(name, None)
    if resource.plural != "nodes":
        read.pop("status", None)
    return _plain(read)


def _plain(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        amounts = name in _AMOUNTS
        return {
            key: milli_value(each)
            if amounts and isinstance(each, str | int | float)
            else _plain(each, key)
            for key, each in value.items()
            # Given by the server.
            if key != "timeAdded"
        }
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value


def _compared(admin: AdminClient, manifests: list[JsonObject]) -> int:
    """Compare manifests, and return how many the server took."""
    existing, taken = _existing(admin), 0
    for manifest in manifests:
        status, text = admin.exchange("POST", f"{_path(manifest)}?dryRun=All", manifest)
        if status >= 400:
            continue
        taken += 1
        resource, server = _resource(manifest), json.loads(text)
        # Go writes some empty lists as null.
        drop_nulls(server)
        server |= {"apiVersion": manifest["apiVersion"], "kind": manifest["kind"]}
        stored, again = as_stored(manifest, existing), as_stored(server, existing)
        name = f"{manifest['kind']} {manifest['metadata']['name']}"
        assert _read(resource, stored.obj) == _read(resource, server), name
        # A label of kubelets is no matter of the server.
        assert not [each for each in stored.unknown if HOSTNAME not in each], name
        assert again.obj == server, f"{name} was changed again"
        assert again.filled == again.unknown == (), name
    return taken


def test_manifests_are_completed_as_the_server_does(admin: AdminClient) -> None:
    assert _compared(admin, [*picked(), *drawn_pods(DRAWN)]) >= LEAST


def test_a_default_class_is_given_to_pods_without_one(admin: AdminClient) -> None:
    usual = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "usual"},
        "value": 7,
        "globalDefault": True,
        "preemptionPolicy": "Never",
    }
    admin.ensure(_path(usual), usual)
    assert _compared(admin, list(drawn_pods(60))) >= 30


def test_what_is_not_known_is_what_would_differ(admin: AdminClient) -> None:
    """Without the objects that exist, each difference is announced by what is not known."""
    announced = 0
    for manifest in drawn_pods(60):
        status, text = admin.exchange("POST", f"{_path(manifest)}?dryRun=All", manifest)
        if status < 400:
            stored = as_stored(manifest, Nothing())
            resource = _resource(manifest)
            if _read(resource, stored.obj) != _read(resource, json.loads(text)):
                assert stored.unknown
                announced += 1
    assert announced > 10
