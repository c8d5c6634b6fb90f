"""Reasons that speak of an object that a pod needs have plain words, and say what to do."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

import pytest

import plugins
from plugins.dynamic_resources.claims import ALTERNATIVES_OFF
from scheduler import offline
from scheduler.explain.records import QueueState, RejectionCount
from scheduler.explain.records.causes import cause_of, headline, words_of
from scheduler.explain.records.objects import object_words
from scheduler.explain.records.story import none_fits
from scheduler.framework import Code, Status

NOT_IN_TREE = "plugins.extra."
OBJECT = re.compile(
    r"not found|not exist|no such|non-existent|not created|could not find|being deleted|unbound"
    r"|\bhad no\b|may not list|not owner|does not serve|not installed|not set for",
    re.IGNORECASE,
)
"""Words of reasons about an object that is missing or not ready."""

OF_NO_OBJECT = {
    # What the pod, its group or its namespace states, or waits for without an object.
    "waiting for the preemption for this pod to be finished",
    "pod affinity terms conflict",
    "waiting until all pods and quotas are known",
    "waiting for scheduling gates: [{gates}]",
    "{what}: kubestow reads at most {limit}",
    "resource claim {claim}, request {request}: unknown request type",
    ALTERNATIVES_OFF,
    "cannot schedule extended resource claim",
    "cannot fit resource",
    # No pod is told: an error, and an Event of a group.
    "claim allocation not found for node",
    "no such key:",
    'annotation {name}: kubestow may not list PriorityClasses, "{value}" among them',
}
"""Reasons that speak for themselves."""


def modules() -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages(plugins.__path__, "plugins."):
        if not found.name.startswith(NOT_IN_TREE):
            yield importlib.import_module(found.name)


def rejecting_names(module: ModuleType) -> set[str]:
    """Return the names of the constants that a module passes to `unresolvable`."""
    found = set()
    for call in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "unresolvable":
            found |= {each.id for each in ast.walk(call) if isinstance(each, ast.Name)}
    return found


def reasons() -> Iterator[tuple[str, str]]:
    """Yield the reasons of the in-tree plugins that rule out all nodes or speak of an object."""
    for module in modules():
        rejecting = rejecting_names(module)
        for name, value in vars(module).items():
            if not name.strip("_").isupper():
                continue
            for each in values_of(value):
                text = each.message if isinstance(each, Status) else each
                code = each.code if isinstance(each, Status) else None
                rejects = name in rejecting or code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
                if isinstance(text, str) and " " in text and (rejects or OBJECT.search(text)):
                    yield f"{module.__name__}.{name}", text


def values_of(value: object) -> Iterator[object]:
    """Yield a constant, or the values of a table of constants."""
    match value:
        case Mapping():
            yield from value.values()
        case tuple():
            for each in value:
                yield from values_of(each)
        case _:
            yield value


def filled(template: str) -> str:
    """Return a reason with names in place."""
    return re.sub(r"\{\w*\}", "x", template.replace("{of}", " of x"))


def test_each_reason_about_an_object_has_plain_words() -> None:
    found = list(reasons())
    assert len(found) > 40
    missing = [
        (name, text)
        for name, text in found
        if text not in OF_NO_OBJECT and not words_of(text) and not object_words(filled(text))
    ]
    assert missing == [], "add words to _WORDS in scheduler/explain/records/objects.py"


def told(reason: str, *, detail: str = "") -> str:
    counts = [RejectionCount("P", "UnschedulableAndUnresolvable", reason, 3, detail)]
    return none_fits(3, counts, namespace="shop")


CASES = [
    (
        'persistentvolumeclaim "data" not found',
        (
            'the PersistentVolumeClaim "data" does not exist in namespace shop. '
            "Create it, or correct the name in the pod"
        ),
        "lacks a PersistentVolumeClaim",
    ),
    (
        'persistentvolumeclaim "data" is being deleted',
        'the PersistentVolumeClaim "data" is being deleted. Once it has gone, create it anew',
        "uses a PersistentVolumeClaim that is being deleted",
    ),
    (
        'could not find ResourceClaim "shop/gpu"',
        (
            'the ResourceClaim "gpu" does not exist in namespace shop. '
            "Create it, or correct the name in the pod"
        ),
        "lacks a ResourceClaim",
    ),
    (
        "pod group shop/train: there is no such PodGroup of scheduling.x-k8s.io",
        (
            'the PodGroup "train" of scheduling.x-k8s.io does not exist in namespace shop. '
            "Create it, or correct the name in the pod"
        ),
        "lacks a PodGroup",
    ),
    (
        "request gpu: device class h100 does not exist",
        (
            'the DeviceClass "h100", which request gpu of a claim names, does not exist. '
            "Create it, or name another one in the claim"
        ),
        "lacks a DeviceClass",
    ),
    (
        'storageclass.storage.k8s.io "fast" not found',
        (
            'the StorageClass "fast" of a claim that is not bound does not exist. '
            "Create it, or the claim anew with another one"
        ),
        "lacks a StorageClass",
    ),
]


@pytest.mark.parametrize(("reason", "sentence", "cause"), CASES)
def test_the_object_is_named_with_what_to_do(reason: str, sentence: str, cause: str) -> None:
    assert told(reason) == f"None of 3 nodes fits: {sentence}."
    for message in (reason, f"0/3 nodes are available: {reason}. preemption: not helpful."):
        found = cause_of(QueueState.UNSCHEDULABLE, message, ["VolumeRestrictions"])
        assert headline([(found, 1)], 1) == f"1 pod waits: it {cause}"


def test_details_follow_the_fact() -> None:
    text = told("pod has unbound immediate PersistentVolumeClaims", detail="claim data")
    assert "is not bound to a volume (claim data). Look at its events" in text


def test_nodes_that_an_object_rules_out_are_counted_among_others() -> None:
    counts = [
        RejectionCount("P", "Unschedulable", "Insufficient cpu", 2),
        RejectionCount("P", "Unschedulable", "x.io CSI driver is not installed on the node", 1),
    ]
    assert none_fits(3, counts, namespace="shop") == (
        "None of 3 nodes fits: 2 lack CPU; "
        "1 is ruled out: the CSI driver x.io of its volume is not installed there."
    )


@pytest.mark.parametrize("name", ['a" not found. b', "a, b", "{0}{namespace}", "/" * 99])
def test_names_that_nobody_checked_are_only_names(name: str) -> None:
    assert "does not exist" in told(f'persistentvolumeclaim "{name}" not found')


def test_long_texts_are_cut() -> None:
    for text in ("looking up PVC " + "/: " * 99_999, "request " + ": device class " * 99_999):
        assert object_words(text) is None
    assert object_words(f'persistentvolumeclaim "{"x" * 300}" not found') is None


JsonObject = dict[str, Any]
MOUNTS: JsonObject = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
DEVICES = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]


def volume_claim(**spec: Any) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "default"},
        "spec": {"accessModes": ["ReadWriteOnce"], **spec},
    }


def storage_class(default: str = "") -> JsonObject:
    annotations = {"storageclass.kubernetes.io/is-default-class": default} if default else {}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "fast", "annotations": annotations},
        "provisioner": "x.example.com",
    }


@pytest.mark.parametrize(
    ("spec", "others", "sentence"),
    [
        (MOUNTS, [], 'the PersistentVolumeClaim "data" does not exist in namespace default. C'),
        (
            MOUNTS,
            [volume_claim(storageClassName="fast")],
            "not bound to a volume (claim data of StorageClass fast, which does not exist). Look",
        ),
        (
            MOUNTS,
            [volume_claim()],
            "(claim data names no StorageClass, and the cluster has no default StorageClass). Look",
        ),
        (
            MOUNTS,
            [volume_claim(), storage_class(default="false")],
            "(claim data names no StorageClass, and the cluster has no default StorageClass). Look",
        ),
        (
            MOUNTS,
            [volume_claim(), storage_class(default="true")],
            "(claim data names no StorageClass). Look",
        ),
        (
            MOUNTS,
            [volume_claim(storageClassName="fasst"), storage_class()],
            "StorageClass fasst, which does not exist; did you mean fast?). Look",
        ),
        (
            {"resourceClaims": DEVICES},
            [],
            "that the pod names (one-gpu). Check that the template exists in namespace default:",
        ),
    ],
)
def test_a_pod_is_told_which_object_it_lacks(
    spec: JsonObject, others: list[JsonObject], sentence: str
) -> None:
    world = offline.World()
    for each in (offline.node("n", cpu=4), *others, offline.pod("p", spec=spec)):
        world.add(each)
    world.schedule()
    told = str(world.explain("default/p"))
    assert sentence in told
    assert told.count(sentence) == 1
