"""Fields that scheduling does not read: a change of one is refused, not dropped in silence."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from scheduler import offline
from scheduler.api.custom import CustomObject
from scheduler.api.node import Node
from scheduler.api.pod import Pod, PodSpec
from scheduler.api.storage import StorageClass
from scheduler.explain.what_if.changes import ChangeError
from scheduler.explain.what_if.questions import Question, parse
from scheduler.explain.what_if.read_fields import UNREAD, fault_of_field
from simulator.fields import POD_SPEC_FIELDS
from tests.unit.explain.what_if.test_limits import world_of_nodes

UNREAD_CONTAINER: dict[str, Any] = {"name": "c", "command": ["x"], "env": [{"name": "A"}]}


@pytest.mark.parametrize(
    ("kind", "path", "value", "fault"),
    [
        (Pod, "spec.nodeSelectr", None, 'unknown field spec.nodeSelectr; did you mean "nodeSel'),
        (Pod, "spec.nodeSelectr.disk", "ssd", "unknown field spec.nodeSelectr;"),
        (Pod, "spec.foo", 1, "unknown field spec.foo"),
        (Pod, "spec.hostname", "a", "scheduling does not read spec.hostname: it would change no"),
        (Pod, "spec.hostnam", "a", 'unknown field spec.hostnam; did you mean "hostname"?'),
        (Pod, "spec.containers.0.imag", "a", "unknown field spec.containers[0].imag; did"),
        (Pod, "spec.containers.0.command", [], "scheduling does not read spec.containers[0].comm"),
        (Pod, "spec.containers.0.resources.request.cpu", 1, 'did you mean "requests"?'),
        (Pod, "metadata.label.app", "a", 'unknown field metadata.label; did you mean "labels"?'),
        (Pod, "metadata.managedFields", [], "scheduling does not read metadata.managedFields"),
        (Pod, "spec.volumes.0.emptyDir", {}, "is not a field that scheduling reads"),
        (Pod, "spec.tolerations", [{"key": "a"}, {"ky": "a"}], "spec.tolerations[1].ky; did you"),
        (Pod, "spec.affinity", {"nodeAffinit": {}}, "unknown field spec.affinity.nodeAffinit;"),
        (Pod, "spec", {"containers": [{"nme": "c"}]}, "unknown field spec.containers[0].nme;"),
        (Pod, "spec.\x1b[2J" + "y" * 999, 1, f'spec["\\u001b[2J{"y" * 76}"]'),
        (Node, "spec.unschedulabel", True, 'did you mean "unschedulable"?'),
        (StorageClass, "mountOptions", [], "mountOptions is not a field that scheduling reads"),
        (CustomObject, "data.x", 1, "data is not a field that scheduling reads"),
    ],
)
def test_what_is_not_read_is_refused(kind: type, path: str, value: Any, fault: str) -> None:
    assert fault in fault_of_field(kind, path.split("."), value)


def test_a_field_that_no_object_can_have_is_refused() -> None:
    fault = fault_of_field(Pod, ["kubestow.io:pin"], "n")
    assert fault == '["kubestow.io:pin"] is not a field that scheduling reads'


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        (Pod, "spec.nodeSelector", None),
        (Pod, "spec.nodeSelector.disk", "ssd"),
        (Pod, "metadata.annotations.any", "x"),
        (Pod, "metadata", {"name": "a", "labels": {"any": "x"}, "managedFields": []}),
        (Pod, "spec.containers.0.resources.limits.example/gpu", 1),
        (Pod, "spec.containers.-", UNREAD_CONTAINER),
        (Pod, "spec.volumes", [{"name": "v", "emptyDir": {"medium": "Memory"}}]),
        (Pod, "spec.affinity.nodeAffinity", {"requiredDuringSchedulingIgnoredDuringExecution": {}}),
        (Pod, "spec.priority", None),
        (Node, "spec.taints.0.key", "a"),
        (Node, "status.allocatable.cpu", "1"),
        (CustomObject, "spec.any.thing", {"at": "all"}),
        # These are refused where the change is made, with a text of their own.
        (Pod, "metadata.name.x", 1),
        (Pod, "spec.containers.x.image", "a"),
    ],
)
def test_what_may_be_read_is_tried(kind: type, path: str, value: Any) -> None:
    assert fault_of_field(kind, path.split("."), value) == ""


def test_every_field_of_a_pod_spec_is_read_or_listed() -> None:
    read = {each.encode_name for each in msgspec.structs.fields(PodSpec)}
    assert read.isdisjoint(UNREAD[PodSpec])
    assert read | UNREAD[PodSpec] == POD_SPEC_FIELDS


def test_no_field_is_both_read_and_listed() -> None:
    for kind, unread in UNREAD.items():
        assert unread.isdisjoint(each.encode_name for each in msgspec.structs.fields(kind)), kind


def test_the_runtime_class_of_a_pod_may_be_set() -> None:
    """Its overhead follows from it."""
    runtime: dict[str, Any] = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "handler": "x",
    }
    runtime |= {"metadata": {"name": "vm"}, "overhead": {"podFixed": {"cpu": "100"}}}
    with world_of_nodes(1) as world:
        world.add(runtime)
        manifest = offline.pod("small", cpu=1)
        question = asked(world, manifest=manifest, fields={"/spec/runtimeClassName": "vm"})
        list(question.run())
    assert not question.answer.placed


def asked(world: offline.World, **body: Any) -> Question:
    parts = world._assembly.trial_parts()
    return Question(parts, parse(msgspec.json.encode(body)), slice_seconds=1.0)


@pytest.mark.parametrize(
    ("of_spec", "fault"),
    [
        ({"nodeSelectr": {"disk": "ssd"}}, 'unknown field spec.nodeSelectr; did you mean "nodeSe'),
        ({"tolerations": [{"keyy": "a"}]}, "unknown field spec.tolerations[0].keyy;"),
        ({"hostname": "read by the kubelet alone", "containers": [UNREAD_CONTAINER]}, ""),
    ],
)
@pytest.mark.parametrize("role", ["asked about", "added"])
def test_a_manifest_with_an_unknown_field_is_refused(
    role: str, of_spec: dict[str, Any], fault: str
) -> None:
    pod = offline.pod("p", cpu=1)
    pod["spec"] |= of_spec
    body: dict[str, Any] = {"manifest": pod}
    if role == "added":
        change = {"action": "add", "kind": "Pod", "name": "default/p", "value": pod}
        body = {"manifest": offline.pod("q"), "changes": [change]}
    with world_of_nodes(1) as world:
        question = asked(world, **body)
        if fault:
            with pytest.raises(ChangeError, match=re.escape(fault)):
                list(question.run())
        else:
            list(question.run())
            assert question.answer.placed
