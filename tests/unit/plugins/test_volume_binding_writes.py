"""VolumeBinding from Reserve to the end of PreBind: assumptions, patches, and the wait."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import msgspec
import pytest

from plugins import VolumeBinding
from plugins.volume_binding.arguments import VolumeBindingArgs
from scheduler.api import Pod
from scheduler.framework import SKIP, Code, CycleState, ObjectKey, PreBindPreFlightResult
from tests.unit.plugins.clusters import Cluster, node, rejected
from tests.unit.plugins.volume_objects import (
    BOUND,
    PLURALS,
    SELECTED,
    add,
    claim,
    storage_class,
    using,
    volume,
)

HOST = "kubernetes.io/hostname"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"


class Api:
    """Applies patches and serves waits: each step changes objects, then calls `check`."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.patches: list[tuple[str, str, Any]] = []
        self.steps: list[Callable[[], None]] = []
        self.waited_for: list[set[str]] = []
        #: The watch lags behind: patches are answered but not shown yet.
        self.lagging = False

    async def patch(
        self, plural: str, name: str, namespace: str, body: Mapping[str, Any], subresource: str = ""
    ) -> Any:
        self.patches.append((plural, name, body))
        known = self.cluster.objects[plural].get(name, namespace)
        raw = msgspec.to_builtins(known)
        _merge(raw, body)
        raw["metadata"]["resourceVersion"] = "2"
        changed = msgspec.convert(raw, type(known))
        if not self.lagging:
            add(self.cluster, changed)
        return changed

    async def wait_for(self, look: Callable[[], Collection[ObjectKey]], seconds: float) -> bool:
        for step in [*self.steps, None]:
            keys = look()
            if not keys:
                return True
            self.waited_for.append({key.name for key in keys})
            if step is None:
                return False
            step()
        raise AssertionError("unreachable")


def _merge(target: dict[str, Any], patch: Mapping[str, Any]) -> None:
    for key, value in patch.items():
        if isinstance(value, Mapping):
            _merge(target.setdefault(key, {}), value)
        else:
            target[key] = value


class Attempt:
    """A pod with a local claim `s` and a provisioned one `d`, reserved on node `a`."""

    def __init__(self, *claims: str) -> None:
        self.cluster = Cluster(node(name, labels={HOST: name}) for name in "ab")
        add(
            self.cluster,
            storage_class("local", "kubernetes.io/no-provisioner"),
            storage_class("wait"),
            claim("s", class_name="local"),
            claim("d", class_name="wait"),
            volume("v", class_name="local", nodes={HOST: ["a"]}),
        )
        self.pod = using(*claims)
        add(self.cluster, self.pod)
        self.api = Api(self.cluster)
        args = VolumeBindingArgs(bind_timeout_seconds=7)
        self.plugin = VolumeBinding(args, self.cluster.handle(api=self.api))
        self.state = CycleState()

    def reserve(self) -> Any:
        assert self.plugin.pre_filter(self.state, self.pod, self.cluster.table) is None
        return self.plugin.reserve(self.state, self.pod, "a")

    def replace(self, plural: str, name: str, **parts: Mapping[str, Any]) -> None:
        """The controller changes an object."""
        space = "default" if plural == "persistentvolumeclaims" else ""
        known = self.cluster.objects[plural].get(name, space)
        raw = msgspec.to_builtins(known)
        _merge(raw, parts)
        raw["metadata"]["resourceVersion"] = "3"
        add(self.cluster, msgspec.convert(raw, type(known)))

    def bind_claim(self, name: str, volume_name: str) -> None:
        self.replace(
            "persistentvolumeclaims",
            name,
            metadata={"annotations": BOUND},
            spec={"volumeName": volume_name},
        )


def refused(attempt: Attempt, asking: Pod) -> set[str]:
    return set(rejected(attempt.plugin, attempt.cluster, asking))


def test_a_reserved_volume_is_not_available_to_others() -> None:
    attempt = Attempt("s")
    other = using("s2", uid="other")
    add(attempt.cluster, claim("s2", class_name="local"))
    assert refused(attempt, other) == {"b"}
    assert attempt.reserve() is None
    assert refused(attempt, other) == {"a", "b"}

    attempt.plugin.unreserve(attempt.state, attempt.pod, "a")
    attempt.plugin.unreserve(attempt.state, attempt.pod, "a")
    assert refused(attempt, other) == {"b"}


def test_pods_that_share_a_claim_share_its_volume() -> None:
    """The watch shows the reserved volume as free until the patch has landed."""
    attempt = Attempt("s")
    add(attempt.cluster, volume("larger", size="5Gi", class_name="local", nodes={HOST: ["b"]}))
    attempt.reserve()
    second = using("s", uid="second")
    assert refused(attempt, second) == {"b"}
    state = CycleState()
    attempt.plugin.pre_filter(state, second, attempt.cluster.table)
    assert attempt.plugin.reserve(state, second, "a") is None


@pytest.mark.parametrize("ending", ["bound", "deleted"])
async def test_an_assumption_that_the_watch_has_overtaken_is_forgotten(ending: str) -> None:
    attempt = Attempt("s", "d")
    attempt.reserve()
    kept = attempt.plugin._matcher
    assert (len(kept.volumes), len(kept.claims)) == (1, 1)
    if ending == "bound":
        attempt.api.steps = [
            lambda: attempt.bind_claim("s", "v"),
            lambda: attempt.bind_claim("d", "made"),
            lambda: add(attempt.cluster, volume("made", nodes={HOST: ["a"]})),
        ]
        assert await attempt.plugin.pre_bind(attempt.state, attempt.pod, "a") is None
    else:
        objects = attempt.cluster.objects
        attempt.cluster.delete_object("persistentvolumes", objects["persistentvolumes"].get("v"))
        claims = "persistentvolumeclaims"
        attempt.cluster.delete_object(claims, objects[claims].get("d", "default"))
    assert (len(kept.volumes), len(kept.claims)) == (0, 0)


def test_the_watch_beats_an_assumption() -> None:
    attempt = Attempt("s")
    attempt.reserve()
    attempt.replace("persistentvolumes", "v", metadata={"labels": {"changed": "yes"}})
    add(attempt.cluster, claim("s2", class_name="local"))
    assert refused(attempt, using("s2")) == {"b"}


def test_a_reservation_is_released_by_its_owner_only() -> None:
    first = Attempt("d")
    first.reserve()
    second = CycleState()
    first.plugin.pre_filter(second, using("d", uid="other"), first.cluster.table)
    assert first.plugin.reserve(second, using("d", uid="other"), "a") is None

    first.plugin.unreserve(first.state, first.pod, "a")
    assert refused(first, using("d", uid="third")) == {"b"}, "the second still holds it"
    first.plugin.unreserve(second, first.pod, "a")
    assert refused(first, using("d", uid="third")) == set()


def test_pods_with_nothing_to_bind_skip_pre_bind() -> None:
    attempt = Attempt("done")
    add(attempt.cluster, claim("done", "v"))
    assert attempt.reserve() is None
    assert attempt.plugin.pre_bind_pre_flight(attempt.state, attempt.pod, "a") is SKIP


async def test_what_is_written_and_in_which_order() -> None:
    attempt = Attempt("d", "s")
    attempt.reserve()
    flight = attempt.plugin.pre_bind_pre_flight(attempt.state, attempt.pod, "a")
    assert flight == PreBindPreFlightResult(allow_parallel=True)
    attempt.api.steps = [
        lambda: attempt.bind_claim("s", "v"),
        lambda: attempt.bind_claim("d", "made"),
        lambda: add(attempt.cluster, volume("made", nodes={HOST: ["a"]})),
    ]

    assert await attempt.plugin.pre_bind(attempt.state, attempt.pod, "a") is None
    (first, second) = attempt.api.patches
    reference = {
        "kind": "PersistentVolumeClaim",
        "apiVersion": "v1",
        "namespace": "default",
        "name": "s",
        "uid": "uid-s",
        "resourceVersion": "1",
    }
    assert first == (
        "persistentvolumes",
        "v",
        {
            "metadata": {"resourceVersion": "1", "annotations": {BOUND_BY_CONTROLLER: "yes"}},
            "spec": {"claimRef": reference},
        },
    )
    annotations = {SELECTED: "a"}
    assert second == (
        "persistentvolumeclaims",
        "d",
        {"metadata": {"resourceVersion": "1", "annotations": annotations}},
    )
    assert attempt.api.waited_for == [
        {"v", "s", "d", "p", "a"}, {"d", "p", "a"}, {"d", "made", "p", "a"},
    ]  # fmt: skip


async def test_what_pre_bind_waits_for_is_explained() -> None:
    attempt = Attempt("d", "s")
    assert attempt.plugin.explain_pre_bind(attempt.state, attempt.pod, "a") == ""
    attempt.reserve()
    told: list[str] = []

    def explain() -> None:
        told.append(attempt.plugin.explain_pre_bind(attempt.state, attempt.pod, "a"))

    attempt.api.steps = [
        explain,
        lambda: attempt.bind_claim("s", "v"),
        explain,
        lambda: attempt.bind_claim("d", "made"),
        explain,
        lambda: add(attempt.cluster, volume("made", nodes={HOST: ["a"]})),
    ]
    assert await attempt.plugin.pre_bind(attempt.state, attempt.pod, "a") is None
    provisioned = (
        "PersistentVolumeClaim d is provisioned (StorageClass wait, provisioner csi.example.com)"
    )
    assert told == [
        f"until PersistentVolumeClaim s is bound to volume v and {provisioned}, for at most 7s",
        f"until {provisioned}, for at most 7s",
        "for at most 7s",
    ]


async def test_a_volume_the_user_reserved_is_only_completed() -> None:
    attempt = Attempt("s")
    add(attempt.cluster, volume("v", class_name="local", claimed_by="s"))
    attempt.replace("persistentvolumes", "v", spec={"claimRef": {"uid": ""}})
    attempt.reserve()
    attempt.api.steps = [lambda: attempt.bind_claim("s", "v")]
    assert await attempt.plugin.pre_bind(attempt.state, attempt.pod, "a") is None
    ((_, _, body),) = attempt.api.patches
    assert "annotations" not in body["metadata"]


async def test_a_claim_that_was_sent_to_the_node_before_is_only_waited_for() -> None:
    attempt = Attempt("d")
    add(attempt.cluster, claim("d", class_name="wait", annotations={SELECTED: "a"}))
    attempt.reserve()
    attempt.api.steps = [
        lambda: add(attempt.cluster, volume("made")),
        lambda: attempt.bind_claim("d", "made"),
    ]
    assert await attempt.plugin.pre_bind(attempt.state, attempt.pod, "a") is None
    assert attempt.api.patches == []


async def test_a_watch_that_lags_behind_the_write_is_no_failure() -> None:
    attempt = Attempt("d")
    attempt.reserve()
    attempt.api.lagging = True
    status = await attempt.plugin.pre_bind(attempt.state, attempt.pod, "a")
    assert status is not None
    assert status.code is Code.ERROR
    assert status.message == ("binding volumes: default/d not bound within bindTimeoutSeconds (7)")


@pytest.mark.parametrize(
    ("claims", "fault", "text"),
    [
        pytest.param(
            "s", {"persistentvolumes": {"spec": {"claimRef": None}}},
            'ClaimRef got reset for pv "v"', id="volume freed",
        ),
        pytest.param(
            "d", {"persistentvolumeclaims": {"metadata": {"annotations": {SELECTED: "b"}}}},
            'provisioning failed for PVC "d"', id="another node chosen",
        ),
        pytest.param(
            "d", {"persistentvolumeclaims": {"metadata": {"annotations": None}}},
            'selectedNode annotation reset for PVC "d"', id="annotation gone",
        ),
        pytest.param(
            "s", {"persistentvolumeclaims": {"spec": {"volumeName": "elsewhere"}}},
            'claim "s" was bound to pv "elsewhere" instead of "v"', id="bound to another",
        ),
        pytest.param(
            "d", {"persistentvolumeclaims": {"spec": {"volumeName": "elsewhere"}}},
            'pv "elsewhere" node affinity doesn\'t match node "a"', id="made elsewhere",
        ),
    ],
)  # fmt: skip
async def test_failures(claims: str, fault: dict[str, Any], text: str) -> None:
    attempt = Attempt(claims)
    add(attempt.cluster, volume("elsewhere", nodes={HOST: ["b"]}))
    attempt.reserve()
    ((plural, parts),) = fault.items()

    def happens() -> None:
        name = "v" if plural == "persistentvolumes" else claims
        space = "" if name == "v" else "default"
        known = attempt.cluster.objects[plural].get(name, space)
        raw = msgspec.to_builtins(known)
        _merge(raw, parts)
        raw["metadata"]["resourceVersion"] = "3"
        cleaned = {k: {n: v for n, v in part.items() if v is not None} for k, part in raw.items()}
        add(attempt.cluster, msgspec.convert(cleaned, type(known)))

    attempt.api.steps = [happens]
    status = await attempt.plugin.pre_bind(attempt.state, attempt.pod, "a")
    assert status is not None
    assert status.code is Code.ERROR
    assert status.message == f"binding volumes: {text}"


@pytest.mark.parametrize(
    ("kind", "name", "text"),
    [
        ("pods", "p", "pod does not exist any more"),
        ("nodes", "a", 'node "a" not found'),
        ("persistentvolumes", "v", 'failed to check binding: persistentvolume "v" not found'),
        (
            "persistentvolumeclaims",
            "s",
            'failed to check binding: persistentvolumeclaim "s" not found',
        ),
    ],
)
async def test_what_vanishes_ends_the_wait(kind: str, name: str, text: str) -> None:
    attempt = Attempt("s")
    attempt.reserve()
    assert kind in {*PLURALS.values(), "nodes"}
    space = "" if kind == "persistentvolumes" else "default"

    def vanishes() -> None:
        if kind == "nodes":
            attempt.cluster.cache.remove_node(name)
            return
        attempt.cluster.delete_object(kind, attempt.cluster.objects[kind].get(name, space))

    attempt.api.steps = [vanishes]
    status = await attempt.plugin.pre_bind(attempt.state, attempt.pod, "a")
    assert status is not None
    assert status.message == f"binding volumes: {text}"
