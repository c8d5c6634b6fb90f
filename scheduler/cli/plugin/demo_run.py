"""A plugin on the cluster of the demo: its verdicts, its scores, and where pods go.

The nodes get the labels that the plugin's source names, in turn, unless they have them; so do the
sample pods, with annotations as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from scheduler.offline.builders import JsonObject, pod
from scheduler.offline.world import World
from scheduler.testing.answers import answers, is_async, passes
from scheduler.testing.enabling import Arguments, EnabledPlugin, world_with
from scheduler.testing.examination import default_arguments
from scheduler.testing.random_clusters import ZONE, Words, words_of
from simulator.demos.morning.objects import ZONES, demo_cluster

SAMPLES: Final = 7
"""Sample pods."""


@dataclass(frozen=True, slots=True)
class PodOutcome:
    """The answers of the plugin about one pod, and what became of the pod."""

    pod: str
    words: Mapping[str, str]
    """Those of its labels and annotations that the plugin may read."""
    accepted: int
    """Nodes that the plugin accepts."""
    reasons: Mapping[str, int]
    """The reasons of the plugin, by number of nodes; of a gate or PreFilter 1."""
    scores: tuple[int, int] | None
    """The lowest and the highest raw score; None: the plugin scores nothing."""
    node: str
    """Where the pod went; empty: it waits."""
    waits: str
    """Why it waits."""


def demo_run(
    plugin: Any, args: Arguments | None = None, pods: Iterable[JsonObject] = ()
) -> list[PodOutcome]:
    """Place `pods`, or sample pods, on the nodes of the demo with the plugin.

    Raises:
        ConfigurationError: the class or its arguments have faults.
        WorldError: a manifest is malformed.
    """
    words = words_of(plugin, default_arguments(plugin, args))
    with world_with([EnabledPlugin(plugin, args)]) as world:
        _add_nodes(world, words)
        manifests = list(pods) or list(_samples(words))
        keys = [key for each in manifests for key in world.add_pods(_ours(each))]
        world._settle()
        instance = next(iter(world._assembly.profiles.frameworks.values())).plugins[plugin.name]
        before = {key: _verdict(world, instance, key) for key in keys}
        world.schedule()
        waiting = {each.pod: each.reason for each in world.waiting()}
        placements = world.placements()
        return [
            PodOutcome(
                key,
                _words(world, key, words),
                *before[key],
                placements.get(key, ""),
                waiting.get(key, ""),
            )
            for key in keys
        ]


def _add_nodes(world: World, words: Words) -> None:
    for number, manifest in enumerate(demo_cluster().base):
        if manifest["kind"] == "Node":
            labels = manifest["metadata"]["labels"]
            for key in words.keys:
                labels.setdefault(key, words.values[number % len(words.values)])
        if manifest["kind"] != "PriorityClass":
            world.add(manifest)


def _samples(words: Words) -> Iterator[JsonObject]:
    own = [key for key in words.keys if key != ZONE]
    # Values that only the samples have, and zones of the nodes, in turn.
    values = [each for pair in zip(words.values, ZONES, strict=False) for each in pair]
    for number in range(SAMPLES):
        # The first has nothing that the plugin could read; then two of each value.
        value = values[(number - 1) // 2 % len(values)]
        texts = dict.fromkeys(own, value) if number else {}
        yield pod(f"sample-{number}", labels=texts, annotations=texts)


def _ours(manifest: JsonObject) -> JsonObject:
    """Return the pod as one of the profile, and as pending."""
    spec = {**manifest.get("spec", {}), "schedulerName": ""}
    spec.pop("nodeName", None)
    return {"apiVersion": "v1", "kind": "Pod", **manifest, "spec": spec, "status": {}}


def _verdict(
    world: World, plugin: Any, key: str
) -> tuple[int, Mapping[str, int], tuple[int, int] | None]:
    """Return nodes accepted, reasons and scores of the plugin itself."""
    if is_async(plugin, "pre_filter"):
        return 0, {}, None
    scheduler = world._assembly
    found = answers(plugin, scheduler.state.cache.table, world.pod(key), scheduler.clock.now())
    rejections = [found.gate, found.whole, *found.nodes.values()]
    reasons = Counter(each.message for each in rejections if each is not None and not passes(each))
    scores = (min(found.scores), max(found.scores)) if found.scores else None
    return len(found.accepted), reasons, scores


def _words(world: World, key: str, words: Words) -> dict[str, str]:
    metadata = world.pod(key).metadata
    both = {**metadata.labels, **metadata.annotations}
    return {name: both[name] for name in words.keys if name in both}
