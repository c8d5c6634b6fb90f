"""VolumeBinding: nodes where volumes are, can be bound or provisioned."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from plugins import VolumeBinding
from plugins.volume_binding import volumes
from plugins.volume_binding.arguments import SCORING_GATE, VolumeBindingArgs
from scheduler.api import Pod
from scheduler.api.storage import PersistentVolume
from scheduler.framework import (
    SKIP,
    ActionType,
    ClusterEvent,
    ConfigurationError,
    CycleState,
    PluginError,
    Status,
    unresolvable,
)
from tests.unit.plugins.clusters import Cluster, hint, node, pod, rejected
from tests.unit.plugins.volume_objects import (
    SELECTED,
    add,
    capacity,
    claim,
    csi_driver,
    csi_node,
    ephemeral,
    owned,
    storage_class,
    using,
    volume,
    with_volumes,
)

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
WRONG = "node(s) didn't match PersistentVolume's node affinity"
NONE = "node(s) didn't find available persistent volumes to bind"
FULL = "node(s) did not have enough free storage"
GONE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
LOCAL = storage_class("local", "kubernetes.io/no-provisioner")
EBS = {"awsElasticBlockStore": {"volumeID": "vol-1"}}


def cluster_with(*objects: Any) -> Cluster:
    """Nodes `a` and `b` of zones of the same names."""
    cluster = Cluster(node(name, labels={HOST: name, ZONE: name}) for name in "ab")
    add(cluster, *objects)
    return cluster


def on(name: str, host: str, size: str = "1Gi", **more: Any) -> Any:
    """A local volume."""
    return volume(name, class_name="local", size=size, nodes={HOST: [host]}, **more)


def wants(name: str = "c", size: str = "1Gi", class_name: str = "local", **more: Any) -> Any:
    """An unbound claim that waits."""
    return claim(name, class_name=class_name, size=size, **more)


def plans(cluster: Cluster, asking: Pod) -> dict[str, dict[str, str]]:
    """By passing node, claim to the volume it gets, "+" when one is made. Both forms agree."""
    plugin, state = VolumeBinding(None, cluster.handle()), CycleState()
    refused = rejected(plugin, cluster, asking)
    assert plugin.pre_filter(state, asking, cluster.table) is None
    found = {}
    for row in cluster.table.rows.tolist():
        info = cluster.table.node_info(row)
        plan = plugin.plan(state, info)
        assert bool(plan.code) is (info.name in refused)
        if not plan.code:
            found[info.name] = {c.metadata.name: v.metadata.name for c, v in plan.bindings}
            found[info.name] |= {each.claim.metadata.name: "+" for each in plan.provisions}
    return found


def reasons(cluster: Cluster, asking: Pod) -> dict[str, tuple[str, ...]]:
    return rejected(VolumeBinding(None, cluster.handle()), cluster, asking)


# -- PreFilter -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asking", "objects", "found"),
    [
        (pod(), (), SKIP),
        (with_volumes({"csi": {"driver": "d"}}), (), SKIP),
        (using("c"), (), unresolvable('persistentvolumeclaim "c" not found')),
        (using("b", "c"), (claim("b", "v"),), unresolvable('persistentvolumeclaim "c" not found')),
        (
            ephemeral("e"),
            (),
            unresolvable(
                'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-e"'
            ),
        ),
        (
            ephemeral("e"),
            (owned("p-e", "other"),),
            unresolvable("PVC default/p-e was not created for pod default/p (pod is not owner)"),
        ),
        (ephemeral("e"), (owned("p-e", volume="v"),), None),
        (
            using("c"),
            (claim("c", "v", phase="Lost"),),
            unresolvable('persistentvolumeclaim "c" bound to non-existent persistentvolume "v"'),
        ),
        (
            using("c"),
            (claim("c", "v", deletionTimestamp="2030-01-01T00:00:00Z"),),
            unresolvable('persistentvolumeclaim "c" is being deleted'),
        ),
        *[
            pytest.param(
                using("c"),
                objects,
                unresolvable("pod has unbound immediate PersistentVolumeClaims"),
                id=label,
            )
            for label, objects in {
                "no class": (claim("c"),),
                "class missing": (claim("c", class_name="gone"),),
                "immediate": (
                    claim("c", class_name="now"),
                    storage_class("now", mode="Immediate"),
                ),
                "pre-bound, not completed": (
                    claim("c", "v", class_name="local", annotations={}),
                    LOCAL,
                ),
            }.items()
        ],
        (using("c"), (wants(), LOCAL), None),
        (using("c"), (claim("c", "v"),), None),
    ],
)
def test_pre_filter(asking: Pod, objects: tuple[Any, ...], found: Status | None) -> None:
    cluster = cluster_with(*objects)
    plugin = VolumeBinding(None, cluster.handle())
    assert plugin.pre_filter(CycleState(), asking, cluster.table) == found


@pytest.mark.parametrize(
    "plural", ["persistentvolumes", "persistentvolumeclaims", "storageclasses"]
)
def test_pods_with_claims_wait_while_they_cannot_be_read(plural: str) -> None:
    cluster = cluster_with(wants(), LOCAL)
    cluster.forbidden.add(("list", plural))
    plugin = VolumeBinding(None, cluster.handle())
    reason = f"the scheduler may not list {plural}, so pods with PersistentVolumeClaims wait"
    state = CycleState()
    assert plugin.pre_filter(state, using("c"), cluster.table) == unresolvable(reason)
    assert plugin.pre_filter(state, using(), cluster.table) == SKIP
    cluster.forbidden.clear()
    assert plugin.pre_filter(state, using("c"), cluster.table) is None


def test_a_class_without_binding_mode_is_an_error() -> None:
    cluster = cluster_with(claim("c", class_name="s"), storage_class("s", mode=None))
    with pytest.raises(PluginError, match='VolumeBindingMode not set for StorageClass "s"'):
        VolumeBinding(None, cluster.handle()).pre_filter(CycleState(), using("c"), cluster.table)


# -- bound claims --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("objects", "refused"),
    [
        ((volume("v"),), {}),
        ((volume("v", nodes={ZONE: ["a"]}),), {"b": (WRONG,)}),
        ((volume("v", nodes={ZONE: ["a", "b"]}),), {}),
        ((), {"a": (GONE,), "b": (GONE,)}),
        ((volume("v", labels={ZONE: "a"}, spec=EBS),), {}),
        (
            (
                volume("v", labels={ZONE: "x"}, spec=EBS),
                csi_node("a", migrated="kubernetes.io/aws-ebs,other"),
            ),
            {"a": (WRONG,)},
        ),
    ],
)
def test_bound_claims(objects: tuple[Any, ...], refused: dict[str, tuple[str, ...]]) -> None:
    assert reasons(cluster_with(claim("c", "v"), *objects), using("c")) == refused


def test_reasons_come_in_the_order_of_the_table() -> None:
    cluster = cluster_with(claim("bound", "v"), volume("v", nodes={ZONE: ["a"]}), wants("c"), LOCAL)
    assert reasons(cluster, using("bound", "c")) == {"a": (NONE,), "b": (WRONG, NONE)}


def test_the_first_bound_claim_that_fails_decides() -> None:
    cluster = cluster_with(
        claim("one", "v"), volume("v", nodes={ZONE: ["a"]}), claim("two", "missing")
    )
    assert reasons(cluster, using("one", "two")) == {"a": (GONE,), "b": (WRONG,)}


# -- static matching -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("volumes", "found"),
    [
        ((on("v", "a"),), {"a": {"c": "v"}}),
        ((on("large", "a", "9Gi"), on("right", "a", "2Gi")), {"a": {"c": "right"}}),
        ((on("small", "a", "1Mi"),), {}),
        ((on("v", "a", claimed_by="other"),), {}),
        ((on("v", "a", "9Gi", claimed_by="c"), on("w", "a"), on("x", "b")), {"a": {"c": "v"}}),
        ((on("v", "a", phase="Released"),), {}),
        ((on("v", "a", deletionTimestamp="2030-01-01T00:00:00Z"),), {}),
        ((on("v", "a", modes=("ReadOnlyMany",)),), {}),
        ((on("v", "a", modes=("ReadOnlyMany", "ReadWriteOnce")),), {"a": {"c": "v"}}),
        ((on("v", "a", spec={"volumeMode": "Block"}),), {}),
        ((on("v", "a", spec={"volumeAttributesClassName": "gold"}),), {}),
        ((volume("v", nodes={HOST: ["a"]}),), {}),
        ((volume("v", class_name="local"),), {"a": {"c": "v"}, "b": {"c": "v"}}),
    ],
)
def test_one_claim(volumes: tuple[Any, ...], found: dict[str, dict[str, str]]) -> None:
    assert plans(cluster_with(wants(), LOCAL, *volumes), using("c")) == found


def test_a_claims_selector_is_heeded() -> None:
    selector = {"selector": {"matchLabels": {"tier": "gold"}}}
    volumes = (on("v", "a"), on("w", "b", labels={"tier": "gold"}))
    assert plans(cluster_with(wants(spec=selector), LOCAL, *volumes), using("c")) == {
        "b": {"c": "w"}
    }


@pytest.mark.parametrize("order", [("big", "small"), ("small", "big")])
def test_claims_are_matched_by_size_whatever_their_order(order: tuple[str, str]) -> None:
    cluster = cluster_with(
        wants("big", "5Gi"),
        wants("small", "1Gi"),
        LOCAL,
        on("v5", "a", "5Gi"),
        on("v6", "a", "6Gi"),
    )
    assert plans(cluster, using(*order)) == {"a": {"small": "v5", "big": "v6"}}


def test_two_claims_need_two_volumes() -> None:
    cluster = cluster_with(wants("one"), wants("two"), LOCAL, on("v", "a"), on("w", "b"))
    assert reasons(cluster, using("one", "two")) == {"a": (NONE,), "b": (NONE,)}


def test_candidates_follow_the_watch() -> None:
    cluster = cluster_with(wants(), LOCAL, on("v", "a"))
    plugin = VolumeBinding(None, cluster.handle())
    fits = [set("ab") - set(rejected(plugin, cluster, using("c")))]
    for change in (
        on("w", "b"),
        on("v", "a", claimed_by="other"),
        on("w", "b", size="1Mi"),
        on("v", "a"),
    ):
        add(cluster, change)
        fits.append(set("ab") - set(rejected(plugin, cluster, using("c"))))
    cluster.delete_object("persistentvolumes", on("v", "a"))
    fits.append(set("ab") - set(rejected(plugin, cluster, using("c"))))
    assert fits == [{"a"}, {"a", "b"}, {"b"}, set(), {"a"}, set()]


# -- provisioning --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "refused"),
    [
        (storage_class(), {}),
        (storage_class(provisioner=""), {"a": (NONE,), "b": (NONE,)}),
        (storage_class(topologies=[{ZONE: ["a"]}]), {"b": (NONE,)}),
        (storage_class(topologies=[{ZONE: ["a"]}, {HOST: ["b"]}]), {}),
        (storage_class(topologies=[{ZONE: ["a"], HOST: ["b"]}]), {"a": (NONE,), "b": (NONE,)}),
        (storage_class(topologies=[{}]), {"a": (NONE,), "b": (NONE,)}),
    ],
)
def test_classes(made: Any, refused: dict[str, tuple[str, ...]]) -> None:
    assert reasons(cluster_with(wants(class_name="wait"), made), using("c")) == refused


@pytest.mark.parametrize(
    ("capacities", "refused"),
    [
        ((), "ab"),
        ((capacity(topology={}, capacity="1Gi"),), ""),
        ((capacity(topology={HOST: "a"}, capacity="1Gi"),), "b"),
        ((capacity("x", topology={HOST: "a"}, capacity="1Gi"),
          capacity("y", topology={HOST: "b"}, capacity="9Gi")), ""),
        ((capacity(topology=None, capacity="1Gi"),), "ab"),
        ((capacity(class_name="other", topology={}, capacity="1Gi"),), "ab"),
        ((capacity(topology={}, capacity="1Mi"),), "ab"),
        ((capacity(topology={}, capacity="9Gi", maximumVolumeSize="1Mi"),), "ab"),
        ((capacity(topology={}, capacity="0"),), "ab"),
        ((capacity(topology={}),), "ab"),
    ],
)  # fmt: skip
def test_capacity(capacities: tuple[Any, ...], refused: str) -> None:
    objects = (wants(class_name="wait"), storage_class(), *capacities)
    opted_in = cluster_with(*objects, csi_driver(storageCapacity=True))
    assert reasons(opted_in, using("c")) == dict.fromkeys(refused, (FULL,))
    assert reasons(cluster_with(*objects, csi_driver()), using("c")) == {}
    assert reasons(cluster_with(*objects), using("c")) == {}


def test_a_claim_without_size_needs_no_capacity() -> None:
    sizeless = claim(class_name="wait", size=None)
    cluster = cluster_with(sizeless, storage_class(), csi_driver(storageCapacity=True))
    assert reasons(cluster, using("c")) == {}


def test_some_claims_match_and_others_are_provisioned() -> None:
    cluster = cluster_with(
        wants("static", class_name="wait"),
        wants("dynamic", "5Gi", class_name="wait"),
        claim("bound", "b"),
        volume("b"),
        storage_class(),
        volume("v", class_name="wait", nodes={HOST: ["a"]}),
    )
    assert plans(cluster, using("static", "dynamic", "bound")) == {
        "a": {"static": "v", "dynamic": "+"},
        "b": {"static": "+", "dynamic": "+"},
    }


def test_a_claim_with_a_chosen_node_is_provisioned_there_and_nowhere_else() -> None:
    chosen = wants(class_name="wait", annotations={SELECTED: "b"})
    cluster = cluster_with(chosen, storage_class(), volume("v", class_name="wait"))
    assert plans(cluster, using("c")) == {"b": {"c": "+"}}
    assert reasons(cluster, using("c")) == {"a": (NONE,)}


# -- Score ---------------------------------------------------------------------------------------


def scores(cluster: Cluster, asking: Pod, *points: tuple[int, int]) -> list[int] | None:
    """Scores of a and b; None when PreScore skips."""
    shape = [{"utilization": u, "score": s} for u, s in points] or None
    args = msgspec.convert({"shape": shape}, VolumeBindingArgs)
    plugin = VolumeBinding(args, cluster.handle(**{SCORING_GATE: True}))
    state, table = CycleState(), cluster.table
    plugin.pre_filter(state, asking, table)
    if plugin.pre_score(state, asking, table, table.rows) is SKIP:
        return None
    found: list[int] = plugin.score_rows(state, asking, table, table.rows).tolist()
    assert found == [plugin.score(state, asking, table.node_info(row)) for row in table.rows]
    return found


def test_score_of_static_bindings() -> None:
    cluster = cluster_with(
        wants("c", "50Gi"), wants("d", "80Gi"), LOCAL, on("v", "a", "200Gi"), on("w", "a", "200Gi"),
        on("x", "b", "100Gi"), on("y", "b", "100Gi"),
    )  # fmt: skip
    rising = ((0, 0), (100, 10))
    assert scores(cluster, using("c"), *rising) == [25, 50]
    assert scores(cluster, using("c", "d"), *rising) == [32, 65]
    assert scores(cluster, using("c")) == [75, 50], "by default emptier storage is better"


def test_score_of_provisioning() -> None:
    cluster = cluster_with(
        wants("c", "10Gi", class_name="wait"),
        wants("d", "10Gi", class_name="wait"),
        storage_class(),
        csi_driver(storageCapacity=True),
        capacity("x", topology={HOST: "a"}, capacity="100Gi"),
        capacity("y", topology={HOST: "b"}, capacity="10Gi"),
    )
    assert scores(cluster, using("c"), (0, 0), (100, 10)) == [10, 100]
    assert scores(cluster, using("c", "d"), (0, 0), (100, 10)) == [20, 100]


def test_score_is_skipped_without_gate_or_work() -> None:
    cluster = cluster_with(claim("c", "v"), volume("v"))
    assert scores(cluster, using("c")) is None
    plugin = VolumeBinding(None, cluster.handle())
    assert plugin.pre_score_reusable
    assert plugin.pre_score(CycleState(), using("c"), cluster.table, cluster.table.rows) is SKIP


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ({"bind_timeout_seconds": -1}, "should not be a negative value"),
        ({"shape": ()}, "at least one point must be specified"),
    ],
)
def test_arguments_are_checked(args: dict[str, Any], text: str) -> None:
    found = list(VolumeBinding.validate_args(VolumeBindingArgs(**args)))
    assert [text in message for _, message in found] == [True]


def test_a_shape_needs_its_gate() -> None:

    args = msgspec.convert({"shape": [{"utilization": 0, "score": 1}]}, VolumeBindingArgs)
    with pytest.raises(ConfigurationError, match="unexpected field `shape`"):
        VolumeBinding(args, Cluster().handle())
    VolumeBinding(args, Cluster().handle(**{SCORING_GATE: True}))


# -- hints ---------------------------------------------------------------------------------------

STORAGE = "storage.k8s.io/"
INLINE = with_volumes({"csi": {"driver": "csi.example.com"}})
MIGRATED = csi_node("n", migrated="x")
BIG, SMALL = capacity(capacity="20Gi"), capacity(capacity="10Gi")


@pytest.mark.parametrize(
    ("resource", "asking", "old", "new", "wakes"),
    [
        ("StorageClass", using("c"), None, storage_class(), True),
        ("StorageClass", using("c"), storage_class(), storage_class(provisioner="x"), False),
        ("StorageClass", using("c"), storage_class(), storage_class(topologies=[{}]), True),
        ("CSINode", using("c"), None, csi_node("n"), True),
        ("CSINode", using("c"), csi_node("n"), MIGRATED, True),
        ("CSINode", using("c"), MIGRATED, MIGRATED, False),
        ("CSIDriver", INLINE, csi_driver(storageCapacity=True), csi_driver(), True),
        ("CSIDriver", INLINE, csi_driver(), csi_driver(storageCapacity=True), False),
        ("CSIDriver", using("c"), csi_driver(storageCapacity=True), csi_driver(), True),
        ("CSIStorageCapacity", using("c"), None, SMALL, True),
        ("CSIStorageCapacity", using("c"), SMALL, BIG, True),
        ("CSIStorageCapacity", using("c"), BIG, SMALL, False),
        ("CSIStorageCapacity", using("c"), SMALL, capacity(), False),
        ("CSIStorageCapacity", using("c"), capacity(), SMALL, True),
        ("PersistentVolumeClaim", using("c"), None, claim("c"), True),
        ("PersistentVolumeClaim", using("c"), claim("c"), claim("c", "v"), True),
        ("PersistentVolumeClaim", ephemeral("e"), None, claim("p-e"), True),
        ("PersistentVolumeClaim", using("c"), None, claim("d"), False),
        ("PersistentVolumeClaim", using("c"), None, claim("c", namespace="x"), False),
        ("PersistentVolume", using("c"), None, volume(), True),
        ("PersistentVolume", using("c"), volume(), volume(), True),
    ],
)
def test_hints(resource: str, asking: Pod, old: Any, new: Any, wakes: bool) -> None:
    prefix = "" if resource.startswith("Persistent") else STORAGE
    action = ActionType.ADD if old is None else ActionType.UPDATE
    plugin = VolumeBinding(None, Cluster().handle())
    assert hint(plugin, ClusterEvent(f"{prefix}{resource}", action), asking, old, new) is wakes


def test_claims_that_ask_for_the_same_are_compared_with_the_volumes_once_until_one_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared: list[str] = []
    fits = volumes._fits

    def counted(one: PersistentVolume, asks: Any) -> bool:
        compared.append(one.metadata.name)
        return fits(one, asks)

    monkeypatch.setattr(volumes, "_fits", counted)
    names = ["c1", "c2", "c3", "c4"]
    cluster = cluster_with(LOCAL, *map(wants, names), *(on(f"v{n}", "a") for n in range(20)))
    plugin = VolumeBinding(None, cluster.handle())

    def chosen(asking: Pod) -> set[str]:
        state = CycleState()
        assert plugin.pre_filter(state, asking, cluster.table) is None
        plugin.filter_rows(state, asking, cluster.table, cluster.table.rows)
        bindings = plugin.plan(state, cluster.table.node_info(0)).bindings
        return {found.metadata.name for _, found in bindings}

    assert chosen(using(*names)) == {"v0", "v1", "v2", "v3"}
    assert chosen(using(*names, uid="other")) == {"v0", "v1", "v2", "v3"}
    assert len(compared) == 20

    add(cluster, on("v1", "b"))
    assert chosen(using(*names)) == {"v0", "v2", "v3", "v4"}
    assert len(compared) == 40

    state, asking = CycleState(), using("c1")
    assert plugin.pre_filter(state, asking, cluster.table) is None
    assert plugin.filter(state, asking, cluster.table.node_info(0)) is None
    assert plugin.reserve(state, asking, "a") is None
    assert chosen(using("c2", "c3")) == {"v2", "v3"}, "v0 is assumed to be taken"
    plugin.unreserve(state, asking, "a")
    assert chosen(using("c2", "c3")) == {"v0", "v2"}
