"""Random small clusters, and random changes of them, on which plugins are checked.

Few values are drawn from, so that ties, gaps and equal labels are common. A plugin that reads
labels or annotations of its own would find none of them in a random cluster: `Words` has its keys,
which are found in its source and its arguments.

Every choice comes from the `Random` that is handed in: the same seed, the same cluster. Hypothesis
hands in one that it can shrink (`scheduler.testing.strategies`).
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final

import msgspec

from scheduler.api import is_qualified_name
from scheduler.api.pod import Pod
from scheduler.client.resources import PODS
from scheduler.offline.builders import JsonObject, node, pod
from scheduler.offline.world import World
from scheduler.sanitizing.names import is_label_value

ZONE: Final = "topology.kubernetes.io/zone"
VALUES: Final = ("a", "b", "c", "1", "2", "10", "true", "a,b")
TAINTS: Final = ("dedicated=a:NoSchedule", "dedicated=b:PreferNoSchedule", "spot:NoExecute")
NAMESPACES: Final = ("default", "other")
PRIORITIES: Final = (0, 0, 0, 10, 1000)
CPUS: Final = (1, 2, 4, 8)
MAX_WORDS: Final = 12
"""Keys, and values, that are taken from the source of a plugin."""
MAX_VALUES: Final = 3
"""Different values in one cluster."""
SHARE_OF_KEYS: Final = 0.8
"""How many of the keys an object has."""
SHARE_OF_OBJECTS: Final = 0.7
"""How many of the other objects exist at first."""
SHARE_OF_CHANGES: Final = 0.3
"""How many of the changes concern one of them."""
MAX_WORD: Final = 63
"""Characters of a label's value."""


@dataclass(frozen=True, slots=True)
class Words:
    """Keys and values of the labels and annotations in a random cluster."""

    keys: tuple[str, ...]
    values: tuple[str, ...] = VALUES


def words_of(factory: Any, args: object = None, keys: Iterable[str] = ()) -> Words:
    """Return `keys`, and what the plugin's source and arguments have that could be keys or values.

    A text with a slash counts as a key, every other one as a value; a text among the arguments
    counts as both.
    """
    texts = list(_texts(_source(factory)))
    given = [each for each in _leaves(msgspec.to_builtins(args)) if is_qualified_name(each)]
    name = getattr(factory, "name", "")
    found = [each for each in texts if "/" in each and is_qualified_name(each) and each != name]
    plain = [each for each in texts if "/" not in each and is_qualified_name(each)]
    return Words(
        tuple(dict.fromkeys([*keys, *given, *found[:MAX_WORDS], ZONE, "app"])),
        tuple(dict.fromkeys([*VALUES, *given, *plain[:MAX_WORDS]])),
    )


def _source(factory: Any) -> str:
    try:
        return inspect.getsource(sys.modules[factory.__module__])
    except (OSError, TypeError, KeyError, AttributeError):
        return ""


def _texts(source: str) -> Iterator[str]:
    for each in ast.walk(ast.parse(source)):
        match each:
            case ast.Constant(value=str(text)) if 0 < len(text) <= MAX_WORD:
                yield text


def _leaves(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _leaves(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _leaves(each)


def _name_of(made: JsonObject) -> tuple[str, str]:
    metadata = made["metadata"]
    return made["kind"], f"{metadata.get('namespace', '')}/{metadata['name']}".lstrip("/")


def _full_kind(made: JsonObject) -> str:
    """Return the kind as `World.remove` takes it, with the group of a custom resource."""
    group, _, version = made["apiVersion"].rpartition("/")
    return f"{made['kind']}.{version}.{group}" if "." in group else str(made["kind"])


class RandomCluster:
    """Fills a world, and changes it step by step."""

    def __init__(
        self, world: World, random: Random, words: Words, objects: Sequence[JsonObject] = ()
    ) -> None:
        """`objects` are manifests of what else may exist; of one name the last is there."""
        self._world = world
        self._random = random
        self._keys = words.keys
        # Few, so that nodes and pods often have the same.
        self._values = [random.choice(words.values) for _ in range(MAX_VALUES)]
        # Labels and annotations name the other objects.
        names = sorted({str(each["metadata"]["name"]) for each in objects})
        self._values += random.sample(names, min(len(names), MAX_VALUES))
        self._nodes: dict[str, JsonObject] = {}
        self._objects = objects
        #: The manifest of each that is there, by kind and key.
        self._there: dict[tuple[str, str], JsonObject] = {}
        self._count = 0

    def fill(self, *, nodes: int, running: int, pending: int) -> None:
        """Add nodes, pods that run on them, pods that wait, and some of the other objects."""
        for each in self._objects:
            if self._random.random() < SHARE_OF_OBJECTS:
                self._put_object(each)
        for _ in range(nodes):
            self.add_node()
        for _ in range(running):
            self._add_running_pod()
        for _ in range(pending):
            self.add_pending_pod()

    def change(self) -> str:
        """Change one thing; return what it was."""
        changes = (
            self.add_node,
            self._remove_node,
            self._relabel_node,
            self._taint_node,
            self._cordon_node,
            self._resize_node,
            self._add_running_pod,
            self._remove_running_pod,
            self._relabel_pod,
            self._relabel_pod,
        )
        if self._objects and self._random.random() < SHARE_OF_CHANGES:
            return self._change_object()
        return self._random.choice(changes)()

    # -- other objects ---------------------------------------------------------------------------

    def _change_object(self) -> str:
        """Remove an object if it is there, or add it, in place of another one of its name."""
        made = self._random.choice(self._objects)
        kind, key = _name_of(made)
        if self._there.get((kind, key)) != made:
            self._put_object(made)
            return f"{kind} {key} changed to {made}"
        del self._there[kind, key]
        metadata = made["metadata"]
        self._world.remove(_full_kind(made), metadata["name"], metadata.get("namespace", ""))
        return f"{kind} {key} was removed"

    def _put_object(self, made: JsonObject) -> None:
        self._world.add(made)
        self._there[_name_of(made)] = made

    # -- nodes -----------------------------------------------------------------------------------

    def add_node(self) -> str:
        """Add a node."""
        name = self._name("node")
        made = node(
            name,
            cpu=self._random.choice(CPUS),
            memory=f"{self._random.choice(CPUS)}Gi",
            pods=self._random.choice((2, 10, 110)),
            labels=self._labels(),
            annotations=self._some(),
            taints=tuple(each for each in TAINTS if self._random.random() < 0.15),
            unschedulable=self._random.random() < 0.1,
        )
        self._put_node(made)
        return f"node {name} was added"

    def _remove_node(self) -> str:
        if len(self._nodes) < 2:
            return self.add_node()
        name = self._random.choice(list(self._nodes))
        del self._nodes[name]
        self._world.drop_node(name)
        return f"node {name} was removed with its pods"

    def _relabel_node(self) -> str:
        made = self._any_node()
        metadata = made["metadata"]
        name, what = metadata["name"], self._random.choice(("labels", "annotations"))
        some = self._labels() if what == "labels" else self._some()
        metadata[what] = {"kubernetes.io/hostname": name, **some}
        self._put_node(made)
        return f"the {what} of node {name} changed to {metadata[what]}"

    def _taint_node(self) -> str:
        made = self._any_node()
        taints = tuple(each for each in TAINTS if self._random.random() < 0.3)
        made["spec"]["taints"] = node(taints=taints)["spec"].get("taints", [])
        self._put_node(made)
        return f"the taints of node {made['metadata']['name']} changed to {list(taints)}"

    def _cordon_node(self) -> str:
        made = self._any_node()
        cordoned = made["spec"]["unschedulable"] = not made["spec"].get("unschedulable", False)
        self._put_node(made)
        return f"node {made['metadata']['name']} was {'' if cordoned else 'un'}cordoned"

    def _resize_node(self) -> str:
        made = self._any_node()
        cpu = made["status"]["allocatable"]["cpu"] = self._random.choice(CPUS)
        self._put_node(made)
        return f"the allocatable cpu of node {made['metadata']['name']} changed to {cpu}"

    def _any_node(self) -> JsonObject:
        return self._random.choice(list(self._nodes.values()))

    def _put_node(self, made: JsonObject) -> None:
        self._nodes[made["metadata"]["name"]] = made
        self._world.add(made)

    # -- pods ------------------------------------------------------------------------------------

    def add_pending_pod(self) -> str:
        """Add a pod that waits."""
        return f"pod {self._add_pod('')} was added"

    def _add_running_pod(self) -> str:
        where = self._random.choice(list(self._nodes))
        return f"pod {self._add_pod(where)} appeared on node {where}"

    def _add_pod(self, where: str) -> str:
        tolerations = [{"operator": "Exists"}] if self._random.random() < 0.3 else []
        made = pod(
            self._name("pod"),
            namespace=self._random.choice(NAMESPACES),
            cpu=self._random.choice(("100m", "500m", 1, 2)),
            labels=self._labels(),
            annotations=self._some(),
            priority=self._random.choice(PRIORITIES),
            node=where,
            spec={"tolerations": tolerations},
        )
        return self._world.add_pods(made)[0]

    def _remove_running_pod(self) -> str:
        running = [each for each in self._pods() if each.spec.node_name]
        if not running:
            return self._add_running_pod()
        chosen = self._random.choice(running)
        self._world._take_item(PODS, chosen)
        return f"pod {chosen.key} on node {chosen.spec.node_name} ended"

    def _relabel_pod(self) -> str:
        known = self._pods()
        if not known:
            return self.add_pending_pod()
        chosen = self._random.choice(known)
        what = self._random.choice(("labels", "annotations"))
        some = self._labels() if what == "labels" else self._some()
        old = chosen.metadata
        metadata = (
            msgspec.structs.replace(old, labels=some)
            if what == "labels"
            else msgspec.structs.replace(old, annotations=some)
        )
        self._world._put_item(PODS, msgspec.structs.replace(chosen, metadata=metadata))
        return f"the {what} of pod {chosen.key} changed to {some}"

    def _pods(self) -> list[Pod]:
        found: list[Pod] = list(self._world._assembly.tables.stores["pods"].list())
        return sorted(found, key=lambda each: each.key)

    def _labels(self) -> dict[str, str]:
        """Return labels with values that the API server accepts."""
        return {key: each for key, each in self._some().items() if is_label_value(each)}

    def _some(self) -> dict[str, str]:
        return {
            key: self._random.choice(self._values)
            for key in self._keys
            if self._random.random() < SHARE_OF_KEYS
        }

    def _name(self, kind: str) -> str:
        self._count += 1
        return f"{kind}-{self._count}"
