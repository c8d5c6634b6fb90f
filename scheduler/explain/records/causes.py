"""Reasons of rejections in plain words: what nodes lack for a pod, and what pods wait for.

Reasons of the in-tree plugins have words here; for any other one the words are the plugin's. What
pods wait for is one of few phrases, a resource or a plugin, and has no other untrusted text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from scheduler.explain.records.objects import object_words
from scheduler.explain.records.queue import QueueState

MAX_MESSAGE: Final = 1_000
"""Characters of a message that are searched for reasons."""
MAX_NAME: Final = 80
"""Characters of the name of a resource or of a plugin."""
MAX_CAUSES: Final = 4
"""Causes in a headline."""

TURN: Final = "wait for their turn"
ERROR: Final = "met an error"


class Words(NamedTuple):
    """The words of a reason."""

    one: str
    """After the number 1, of nodes."""
    several: str
    pods: str
    """What the pods lack."""
    passing: bool = False
    """It may pass when other pods go: such a reason explains more than the others."""


_WORDS: Final[Mapping[str, Words]] = {
    "Too many pods": Words(
        "has no room for more pods", "have no room for more pods", "room for pods", passing=True
    ),
    "Insufficient other resources": Words(
        "lacks other resources", "lack other resources", "other resources", passing=True
    ),
    "node(s) didn't match Pod's node affinity/selector": Words(
        "has another label", "have other labels", "a matching label"
    ),
    "node(s) didn't satisfy plugin(s) [NodeAffinity]": Words(
        "is not the node that it names", "are not nodes that it names", "the node that they name"
    ),
    "node(s) didn't match scheduler-enforced node affinity": Words(
        "is kept for other pods", "are kept for other pods", "a matching label"
    ),
    "node(s) had untolerated taint(s)": Words(
        "has a taint it does not tolerate", "have a taint it does not tolerate", "a toleration"
    ),
    "node(s) were unschedulable": Words("is cordoned", "are cordoned", "an uncordoned node"),
    "node(s) didn't match the requested node name": Words(
        "has another name", "have other names", "the node that they name"
    ),
    "node(s) didn't match pod topology spread constraints": Words(
        "is in a domain with too many of its pods",
        "are in domains with too many of its pods",
        "a domain to spread to",
        passing=True,
    ),
    "node(s) didn't match pod topology spread constraints (missing required label)": Words(
        "lacks the label to spread by", "lack the label to spread by", "a label to spread by"
    ),
    "node(s) didn't match pod affinity rules": Words(
        "has no pod that it must be near", "have no pod that it must be near", "a pod to be near"
    ),
    "node(s) didn't match pod anti-affinity rules": Words(
        "has a pod that it must not be near",
        "have a pod that it must not be near",
        "a node without conflicting pods",
        passing=True,
    ),
    "node(s) didn't satisfy existing pods anti-affinity rules": Words(
        "has a pod that must not be near it",
        "have a pod that must not be near it",
        "a node without conflicting pods",
        passing=True,
    ),
    "node(s) didn't have free ports for the requested pod ports": Words(
        "has its host port in use", "have its host port in use", "a free host port", passing=True
    ),
    "node(s) exceed max volume count": Words(
        "has no room for more volumes", "have no room for more volumes", "room for volumes",
        passing=True,
    ),
    "node(s) had no available disk": Words(
        "has its disk in use", "have its disk in use", "a free disk", passing=True
    ),
    "node(s) didn't match PersistentVolume's node affinity": Words(
        "cannot reach its volume", "cannot reach its volume", "a volume within reach"
    ),
    "node(s) had no available volume zone": Words(
        "is in another zone than its volume", "are in another zone than its volume",
        "a volume within reach",
    ),
    "node(s) didn't find available persistent volumes to bind": Words(
        "has no volume for it", "have no volume for it", "a volume"
    ),
    "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)": Words(
        "cannot have its volume, which does not exist",
        "cannot have its volume, which does not exist", "a PersistentVolume",
    ),
    "node(s) did not have enough free storage": Words(
        "lacks storage for its volume", "lack storage for its volume", "storage", passing=True
    ),
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already "
    "in-use by another pod": Words(
        "has its claim in use by another pod", "have its claim in use by another pod",
        "a claim that no other pod uses", passing=True,
    ),
    "node(s) didn't match Pod's required features": Words(
        "lacks features that it needs", "lack features that it needs", "nodes with the features"
    ),
    "cannot allocate all claims": Words(
        "lacks devices that it claims", "lack devices that it claims", "devices", passing=True
    ),
    "resourceclaim not available on the node": Words(
        "cannot reach the devices of its claim", "cannot reach the devices of its claim",
        "devices within reach",
    ),
    "invalid resource pools were encountered": Words(
        "has a pool of devices that is not complete", "have a pool of devices that is not complete",
        "devices of a complete pool",
    ),
}  # fmt: skip
_RESOURCES: Final = {"cpu": "CPU", "ephemeral-storage": "local storage"}
_INSUFFICIENT: Final = "Insufficient "

_COUNTED: Final = re.compile(
    r"(?<!\d)(\d{1,9}) (Insufficient [^\s,]+?|"
    + "|".join(re.escape(each) for each in sorted(_WORDS, key=len, reverse=True))
    + r")(?=, |\.? |\.?$)"
)
_NODES: Final = re.compile(r"0/(\d{1,9}) nodes are available: ")
_HELD: Final[Mapping[str, str]] = {
    "SchedulingGates": "are gated",
    "GangScheduling": "wait for their group",
    "ResourceQuota": "wait for quota",
    "DynamicResources": "lack devices",
    "VolumeBinding": "lack a volume",
}
"""Of pods that a plugin holds without a reason for nodes."""


def words_of(reason: str) -> Words | None:
    """Return the words of a reason; None for those of other plugins.

    >>> words_of("Insufficient cpu")
    Words(one='lacks CPU', several='lack CPU', pods='CPU', passing=True)
    """
    if reason.startswith(_INSUFFICIENT) and reason not in _WORDS:
        name = reason.removeprefix(_INSUFFICIENT)[:MAX_NAME]
        resource = _RESOURCES.get(name, name)
        return Words(f"lacks {resource}", f"lack {resource}", resource, passing=True)
    return _WORDS.get(reason)


def counted_reasons(message: str) -> list[tuple[int, str]]:
    """Return the reasons in a message that have words, with their numbers of nodes.

    >>> counted_reasons("0/5 nodes are available: 3 Insufficient nvidia.com/gpu, 2 Too many pods.")
    [(3, 'Insufficient nvidia.com/gpu'), (2, 'Too many pods')]
    """
    # What preemption could not do comes after the first sentence.
    text = message[:MAX_MESSAGE].partition(". ")[0]
    return [(int(count), reason) for count, reason in _COUNTED.findall(text)]


def _nodes(message: str) -> int:
    found = _NODES.match(message)
    return int(found[1]) if found else 0


def cause_of(place: str, message: str, plugins: Iterable[str]) -> str:
    """Return what a pod waits for, as is said of several pods.

    `plugins` are its gate, or those that rejected it.

    >>> cause_of("unschedulable", "0/2 nodes are available: 2 Insufficient cpu.", ())
    'lack CPU'
    >>> message = "0/9 nodes are available: 4 node(s) had untolerated taint(s), 5 other rack."
    >>> cause_of("unschedulable", message, ["TaintToleration", "example.com/Rack"])
    'are held by example.com/Rack'
    >>> cause_of("gated", "waiting for scheduling gates: [a]", ["SchedulingGates"])
    'are gated'
    >>> cause_of("gated", 'could not find ResourceClaim "shop/gpu"', ["DynamicResources"])
    'lack a ResourceClaim'
    """
    about_object = object_words(message)
    if about_object is not None:
        return about_object.cause
    # The names of plugins that are not in-tree have a domain, and their reasons have no words here.
    names = sorted(set(plugins))
    own = [each for each in names if "/" in each]
    if place != QueueState.GATED:
        found = [(words_of(reason), count) for count, reason in counted_reasons(message)]
        # Of those that may pass, since nodes that others rule out never counted; then the most.
        known = [(each.passing, count, each.pods) for each, count in found if each is not None]
        others = _nodes(message) - sum(count for _, count in found)
        passing, most, lacking = max(known, default=(False, 0, ""), key=lambda each: each[:2])
        if known and (passing or most >= others or not own):
            return f"lack {lacking}"
        names = own or names
    if names:
        held = next((_HELD[name] for name in names if name in _HELD), "")
        return held or f"are held by {names[0][:MAX_NAME]}"
    return ERROR if message and place != QueueState.ACTIVE else TURN


_SINGULAR: Final = {"lack": "lacks", "wait": "waits", "are": "is", "have": "has", "use": "uses"}


def of_pods(count: int, cause: str) -> str:
    """Return a cause in the form that goes with a number of pods.

    >>> of_pods(2, "lack CPU"), of_pods(1, "wait for their turn")
    ('2 lack CPU', '1 waits for its turn')
    """
    return f"{count:,} {cause if count != 1 else _of_one(cause)}"


def _of_one(cause: str) -> str:
    verb, _, rest = cause.partition(" ")
    rest = rest.replace("their", "its").replace("they name", "it names")
    return f"{_SINGULAR.get(verb, verb)} {rest}"


def headline(causes: Sequence[tuple[str, int]], total: int) -> str:
    """Return in a sentence how many pods wait, and for what; `causes` the most frequent first.

    >>> headline([("lack CPU", 2), ("lack a matching label", 1), ("are gated", 1)], 4)
    '4 pods wait: 2 lack CPU, 1 a matching label, 1 is gated'
    >>> headline([("lack CPU", 1)], 1), headline([("lack CPU", 9)], 9), headline([], 0)
    ('1 pod waits: it lacks CPU', '9 pods wait: all lack CPU', 'No pod waits')
    """
    if not total:
        return "No pod waits"
    begin = "1 pod waits" if total == 1 else f"{total:,} pods wait"
    if len(causes) == 1:
        cause = causes[0][0]
        return f"{begin}: {f'it {_of_one(cause)}' if total == 1 else f'all {cause}'}"
    parts, before = [], ""
    for cause, count in causes[:MAX_CAUSES]:
        verb, _, rest = cause.partition(" ")
        same = verb == before == "lack"
        parts.append(f"{count:,} {rest}" if same else of_pods(count, cause))
        before = verb
    rest_count = total - sum(count for _, count in causes[:MAX_CAUSES])
    if rest_count:
        parts.append(f"{rest_count:,} for other reasons")
    return f"{begin}: {', '.join(parts)}"
