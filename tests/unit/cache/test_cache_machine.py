"""Any sequence of events leaves the cache equal to a recount, and the change log complete.

Two things are compared after every step: all columns and indexes with a count made from scratch
over a plain model, and a mirror that looks only at what the change log names. The mirror proves
that a reader who follows the log misses nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from scheduler.api import Node, Pod
from scheduler.api.selectors import compile_map_selector
from scheduler.cache import Cache, NodeTable
from scheduler.cache.cache import CacheError
from scheduler.cache.change_log import ChangeLog
from scheduler.framework import Columns, PodTerm, PotentialVictims
from tests.unit.cache.objects import image, node, pod, taint

NODES = ("a", "b", "c", "d")
UIDS = ("p1", "p2", "p3", "p4", "p5")
KEYS = ("zone", "rack")
SCALARS = ("example.com/x", "example.com/y")
RESOURCES = ("cpu", "memory", "ephemeral-storage", *SCALARS)

nodes = st.fixed_dictionaries(
    {
        "labels": st.dictionaries(st.sampled_from(KEYS), st.sampled_from(["x", "y", "7"])),
        "taints": st.lists(st.builds(taint, st.sampled_from(["t1", "t2"])), max_size=2),
        "unschedulable": st.booleans(),
        "images": st.lists(
            st.builds(
                lambda name, size: image(name, size=size),
                st.sampled_from(["i", "j"]),
                st.integers(1, 3),
            ),
            max_size=2,
        ),
        "declaredFeatures": st.lists(st.sampled_from(["F", "G"]), max_size=2),
        "allocatable": st.dictionaries(
            st.sampled_from(["cpu", "memory", "pods", "example.com/x"]),
            st.sampled_from(["1", "4"]),
        ),
    }
)

_TERM = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "x"}}}
AWAY_FROM_X = {
    "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_TERM, _TERM]},
    "podAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 2, "podAffinityTerm": _TERM}]
    },
}
X = PodTerm(None, compile_map_selector({"app": "x"}))

pods = st.fixed_dictionaries(
    {
        "requests": st.dictionaries(
            st.sampled_from(RESOURCES),
            st.sampled_from(["1", "2"]),
        ),
        "ports": st.lists(
            st.fixed_dictionaries(
                {"hostPort": st.sampled_from([80, 81])},
                optional={"hostIP": st.just("10.0.0.1"), "protocol": st.just("UDP")},
            ),
            max_size=2,
        ),
        "labels": st.dictionaries(st.just("app"), st.sampled_from(["x", "y"])),
    },
    optional={
        "deletionTimestamp": st.just("2025-01-01T00:00:00Z"),
        "priority": st.sampled_from([-1, 7]),
        "schedulerName": st.just("other"),
        "affinity": st.just(AWAY_FROM_X),
    },
)


@dataclass
class Placed:
    pod: Pod
    node: str
    assumed: bool


class CacheMachine(RuleBasedStateMachine):
    """Events as a confused API server might send them."""

    @initialize()
    def begin(self) -> None:
        self.cache = Cache()
        self.cache.table.change_log = ChangeLog(64)
        self.nodes: dict[str, Node] = {}
        self.placed: dict[str, Placed] = {}
        #: Image to the nodes that have it, and to the size that was reported first.
        self.images: dict[str, dict[str, int]] = {}
        self.first_size: dict[str, int] = {}
        self.mirror: dict[int, dict[Columns, Any]] = {}
        self.seen = 0

    # -- nodes -----------------------------------------------------------------------------------

    @rule(name=st.sampled_from(NODES), parts=nodes)
    def set_node(self, name: str, parts: dict[str, Any]) -> None:
        made = node(name, **parts)
        self.cache.set_node(made)
        self.nodes[name] = made
        # Of two images of one name the first counts.
        images = reversed(made.status.images)
        self.note_images(name, {each: i.size_bytes for i in images for each in i.names})

    @rule(name=st.sampled_from(NODES))
    def remove_node(self, name: str) -> None:
        assert self.cache.remove_node(name) == (name in self.nodes)
        self.nodes.pop(name, None)
        self.note_images(name, {})

    def note_images(self, name: str, reported: dict[str, int]) -> None:
        for image_name in list(self.images):
            self.images[image_name].pop(name, None)
            if not self.images[image_name]:
                del self.images[image_name], self.first_size[image_name]
        for image_name, size in reported.items():
            self.images.setdefault(image_name, {})[name] = size
            self.first_size.setdefault(image_name, size)

    @rule(count=st.integers(60, 70))
    def grow(self, count: int) -> None:
        for index in range(count):
            self.cache.set_node(node(f"extra{index}", labels={"rack": str(index)}))
        for index in range(count):
            self.cache.remove_node(f"extra{index}")

    @rule(key=st.sampled_from(KEYS))
    def begin_to_use_a_label(self, key: str) -> None:
        self.cache.table.label_column(key)

    @rule(below=st.sampled_from([0, 8]), schedulers=st.sampled_from([None, frozenset({"other"})]))
    def begin_to_use_a_selector(self, below: int, schedulers: frozenset[str] | None) -> None:
        """From now on `validate` compares these columns with a recount."""
        table = self.cache.table
        table.pod_counts((X,), terminating=bool(below))
        victims = PotentialVictims(below, schedulers)
        table.selector_counts.counts((X,), terminating=True, among=victims)
        for term in table.existing_pod_terms("default", {"app": "x"}, {}):
            assert int(term.counts.sum()) > 0

    # -- pods ------------------------------------------------------------------------------------

    @rule(uid=st.sampled_from(UIDS), name=st.sampled_from(NODES), parts=pods)
    def assume(self, uid: str, name: str, parts: dict[str, Any]) -> None:
        pending = pod(uid, **parts)
        try:
            assumed = self.cache.assume_pod(pending, name)
        except CacheError:
            assert uid in self.placed
        else:
            assert uid not in self.placed
            self.placed[uid] = Placed(assumed, name, assumed=True)

    @rule(uid=st.sampled_from(UIDS))
    def forget(self, uid: str) -> None:
        expected = uid in self.placed and self.placed[uid].assumed
        assert self.cache.forget_pod(uid) == expected
        if expected:
            del self.placed[uid]

    @rule(uid=st.sampled_from(UIDS))
    def confirm(self, uid: str) -> None:
        """The same pod comes back from the API server as it was assumed."""
        if uid in self.placed:
            placed = self.placed[uid]
            self.cache.add_pod(placed.pod)
            placed.assumed = False

    @rule(
        uid=st.sampled_from(UIDS),
        name=st.sampled_from(NODES),
        parts=pods,
        update=st.booleans(),
    )
    def see(self, uid: str, name: str, parts: dict[str, Any], update: bool) -> None:
        """An add or update event, expected or not."""
        seen = pod(uid, name, **parts)
        (self.cache.update_pod if update else self.cache.add_pod)(seen)
        self.placed[uid] = Placed(seen, name, assumed=False)

    @rule(uid=st.sampled_from(UIDS), name=st.sampled_from(NODES))
    def remove(self, uid: str, name: str) -> None:
        assert self.cache.remove_pod(pod(uid, name)) == (uid in self.placed)
        self.placed.pop(uid, None)

    # -- comparison ------------------------------------------------------------------------------

    @invariant()
    def the_cache_agrees_with_itself(self) -> None:
        self.cache.validate()

    @invariant()
    def pods_are_where_the_model_says(self) -> None:
        statistics = self.cache.statistics()
        assert statistics.pods == len(self.placed)
        assert statistics.assumed_pods == sum(each.assumed for each in self.placed.values())
        for uid in UIDS:
            placed = self.placed.get(uid)
            assert self.cache.get_pod(uid) is (placed.pod if placed else None)
            assert self.cache.is_assumed(uid) == (placed is not None and placed.assumed)

    @invariant()
    def columns_equal_a_recount(self) -> None:
        table = self.cache.table
        assert table.node_count == len(self.nodes)
        assert {table.names[row] for row in table.rows.tolist()} == set(self.nodes)
        # Placeholders keep their names while pods are on them; free rows have none.
        expected_names = set(self.nodes) | {each.node for each in self.placed.values()}
        assert {name for name in table.names if name} == expected_names
        for name in NODES:
            row = table.row_of(name)
            assert (row is not None) == (name in self.nodes)
            if row is not None:
                assert observed(table, row) == self.recount(name)

    def recount(self, name: str) -> dict[str, Any]:
        here = [each.pod for each in self.placed.values() if each.node == name]
        requested: dict[str, int] = {}
        ports: dict[tuple[str, int], dict[str, int]] = {}
        for each in here:
            amounts = each.signature.assigned
            for resource, amount in (
                ("cpu", amounts.milli_cpu),
                ("memory", amounts.memory),
                ("ephemeral-storage", amounts.ephemeral_storage),
                *amounts.scalars,
            ):
                requested[resource] = requested.get(resource, 0) + amount
            for ip, protocol, port in each.signature.host_ports:
                counts = ports.setdefault((protocol, port), {})
                counts[ip] = counts.get(ip, 0) + 1
        made = self.nodes[name]
        return {
            "requested": [requested.get(name, 0) for name in RESOURCES],
            "non_zero": [sum(each.signature.non_zero[index] for each in here) for index in (0, 1)],
            "pods": {each.uid: each for each in here},
            "ports": ports,
            "labels": {key: made.metadata.labels.get(key) for key in KEYS},
            "taints": [(each.key, each.effect) for each in made.spec.taints],
            "unschedulable": made.spec.unschedulable,
            "images": {
                each: self.first_size[each] for each, users in self.images.items() if name in users
            },
            "features": set(made.status.declared_features),
            "pod_limit": int(made.status.allocatable.get("pods", 0)),
            "cpu": 1000 * int(made.status.allocatable.get("cpu", 0)),
            "x": int(made.status.allocatable.get("example.com/x", 0)),
        }

    @invariant()
    def who_follows_the_change_log_misses_nothing(self) -> None:
        table = self.cache.table
        changes: dict[int, int] | None = table.change_log.since(self.seen)
        if changes is None:
            self.mirror.clear()
            changes = dict.fromkeys(range(table.capacity), int(Columns.ALL))
        self.seen = table.sequence
        for row, mask in changes.items():
            if not table.valid[row]:
                self.mirror.pop(row, None)
                continue
            fresh = by_group(table, row)
            mine = self.mirror.setdefault(row, fresh)
            for group, value in fresh.items():
                if mask & (group | Columns.EXISTENCE):
                    mine[group] = value
        assert self.mirror == {row: by_group(table, row) for row in table.rows.tolist()}


def observed(table: NodeTable, row: int) -> dict[str, Any]:
    """Return the contents of a row of the table."""
    info = table.node_info(row)
    scalars = [table.scalar_amounts_at(name, row) for name in SCALARS]
    return {
        "requested": [*table.requested[:, row].tolist(), *[used for _, used in scalars]],
        "non_zero": table.non_zero_requested[:, row].tolist(),
        "pods": dict(table.pods[row]),
        "ports": {
            key: dict(holders[row]) for key, holders in table.host_ports.items() if row in holders
        },
        "labels": {key: label(table, key, row) for key in KEYS},
        "taints": [(each.key, each.effect) for each in table.taint_sets[table.taint_set[row]]],
        "unschedulable": bool(table.unschedulable[row]),
        "images": {name: each.size for name, each in table.images.items() if row in each.rows},
        "features": set(info.declared_features),
        "pod_limit": int(table.pod_limit[row]),
        "cpu": int(table.allocatable[0, row]),
        "x": scalars[0][0],
    }


def label(table: NodeTable, key: str, row: int) -> str | None:
    value = int(table.label_column(key)[row])
    return None if value < 0 else table.label_values(key).values[value]


def by_group(table: NodeTable, row: int) -> dict[Columns, Any]:
    """Return the readable values of a row, by the group that announces their changes."""
    seen = observed(table, row)
    return {
        Columns.USAGE: (
            seen["requested"],
            seen["non_zero"],
            int(table.pod_count[row]),
            {
                uid: (each.signature.id, dict(each.metadata.labels), each.terminating)
                for uid, each in seen["pods"].items()
            },
        ),
        Columns.PORTS: seen["ports"],
        Columns.ALLOCATABLE: (seen["cpu"], seen["x"], seen["pod_limit"]),
        Columns.LABELS: seen["labels"],
        Columns.TAINTS: (seen["taints"], seen["unschedulable"]),
        Columns.IMAGES: set(seen["images"]),
        Columns.FEATURES: seen["features"],
        Columns.EXISTENCE: table.names[row],
    }


def test_any_sequence_of_events_leaves_the_cache_right() -> None:
    examples = settings().max_examples
    run_state_machine_as_test(
        CacheMachine, settings=settings(max_examples=examples, stateful_step_count=30)
    )
