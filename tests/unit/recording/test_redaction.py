"""Redacted: no name is left, and everything still refers to the same things."""

from __future__ import annotations

import gzip
import itertools
import json
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from devtools.conformance.units import SUFFIX, UNIT_FILES, VECTOR_DIRECTORY
from devtools.filled_records import filled
from scheduler.client.resources import RESOURCES
from scheduler.explain.records import Decision, PodView, QueueStatistics
from scheduler.recording.objects import encode_object
from scheduler.recording.outcomes import Outcome
from scheduler.recording.redaction import Redactor

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {
        "name": "gpu-7.acme.internal",
        "labels": {
            "kubernetes.io/hostname": "gpu-7.acme.internal",
            "topology.kubernetes.io/zone": "acme-east",
            "kubernetes.io/arch": "amd64",
            "acme.com/tier": "gold",
        },
    },
    "spec": {"taints": [{"key": "acme.com/dedicated", "value": "payroll", "effect": "NoSchedule"}]},
    "status": {
        "allocatable": {"cpu": "4", "nvidia.com/gpu": "8"},
        "images": [{"names": ["registry.acme.com/pay:latest"], "sizeBytes": 5}],
    },
}
UID = "0f8fad5b-d9cb-469f-a165-70867728950e"
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "pay-0", "namespace": "payroll", "uid": UID, "labels": {"app": "pay"}},
    "spec": {
        "schedulerName": "kubestow",
        "nodeName": "gpu-7.acme.internal",
        "nodeSelector": {"acme.com/tier": "gold"},
        "containers": [{"name": "main", "image": "registry.acme.com/pay"}],
        "volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}],
        "tolerations": [{"key": "acme.com/dedicated", "value": "payroll", "effect": "NoSchedule"}],
    },
}
CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "pay-0-scratch", "namespace": "payroll"},
}
SECRETS = ("acme", "payroll", "pay-0", "gold", "scratch", "east", "registry")


def redactor(salt: bytes = b"salt") -> Redactor:
    made = Redactor(salt)
    made.learn("configuration", {"configuration": {"profiles": [{"schedulerName": "kubestow"}]}})
    for obj in (NODE, CLAIM, POD):
        made.learn("object", obj)
    return made


def test_no_name_is_left_and_references_still_hold() -> None:
    made = redactor()
    node, claim, pod = (made.redact("object", each) for each in (NODE, CLAIM, POD))
    text = msgspec.json.encode([node, claim, pod]).decode()
    assert [each for each in SECRETS if each in text] == []
    assert pod["spec"]["nodeName"] == node["metadata"]["name"]
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == node["metadata"]["name"]
    assert pod["spec"]["nodeSelector"].items() <= node["metadata"]["labels"].items()
    assert pod["spec"]["tolerations"][0]["key"] == node["spec"]["taints"][0]["key"]
    volume = pod["spec"]["volumes"][0]["name"]
    assert claim["metadata"]["name"] == f"{pod['metadata']['name']}-{volume}"


def test_well_known_words_and_amounts_are_kept() -> None:
    node = redactor().redact("object", NODE)
    assert node["metadata"]["labels"]["kubernetes.io/arch"] == "amd64"
    assert node["status"]["allocatable"] == NODE["status"]["allocatable"]  # type: ignore[index]
    assert node["spec"]["taints"][0]["effect"] == "NoSchedule"
    pod = redactor().redact("object", POD)
    assert (pod["spec"]["schedulerName"], pod["metadata"]["uid"]) == ("kubestow", UID)


def test_an_image_is_the_same_on_nodes_and_in_pods() -> None:
    made = redactor()
    names = made.redact("object", NODE)["status"]["images"][0]["names"]
    assert names == [made.redact("object", POD)["spec"]["containers"][0]["image"]]


def test_names_in_messages_and_keys_are_replaced() -> None:
    made = redactor()
    record = {
        "pod": "payroll/pay-0",
        "place": "active",
        "info": {"last_message": "node(s) had untolerated taint {acme.com/dedicated: payroll}"},
    }
    redacted = made.redact("queue", record)
    text = msgspec.json.encode(redacted).decode()
    assert [each for each in SECRETS if each in text] == []
    assert redacted["place"] == "active"
    assert redacted["info"]["last_message"].startswith("node(s) had untolerated taint {x")
    namespace, name = redacted["pod"].split("/")
    pod = made.redact("object", POD)["metadata"]
    assert (pod["namespace"], pod["name"]) == (namespace, name)


def test_reasons_and_details_of_decisions_lose_names() -> None:
    reason = "node(s) had untolerated taint {acme.com/dedicated: payroll}"
    rejection = {"plugin": "TaintToleration", "reason": reason, "detail": "gpu-7.acme.internal"}
    text = str(redactor().redact("decision", {"rejections": [rejection], "result": "placed"}))
    assert [each for each in SECRETS if each in text] == []
    assert "TaintToleration" in text


def test_metrics_lose_names_in_labels() -> None:
    text = 'held_pods{namespace="payroll",profile="kubestow"} 3\n'
    redacted = redactor().redact("metrics", {"text": text})["text"]
    assert "payroll" not in redacted
    assert 'profile="kubestow"} 3' in redacted


def test_another_salt_makes_other_words() -> None:
    names = {redactor(salt).redact("object", POD)["metadata"]["name"] for salt in (b"a", b"b")}
    assert len(names) == 2


def test_the_configuration_loses_names_in_arguments_only() -> None:
    args = {"defaultConstraints": [{"topologyKey": "acme.com/tier"}]}
    profile = {"schedulerName": "pay-0", "pluginConfig": [{"name": "P", "args": args}]}
    data: dict[str, Any] = {"configuration": {"profiles": [profile]}}
    made = redactor().redact("configuration", data)["configuration"]["profiles"][0]
    assert made["schedulerName"] == "pay-0", "the name of a profile, which pods state"
    assert made["pluginConfig"][0]["args"]["defaultConstraints"][0].keys() == {"topologyKey"}
    assert "acme" not in str(made["pluginConfig"])


MARKS = itertools.count()


def mark(_: str) -> str:
    """Return a text like no other, of everything that a tenant may use in one."""
    number = next(MARKS)
    return (
        f"Zq{number}v zq{number}w.zqx/zqy_{number} \u017c\u00f3\u0142w{number} "
        f'kubernetes.io/zq{number} key=zq{number} "zq{number}" {{zq{number}: zq}} zq{number}.zq'
    )


MARKED = re.compile("zq|\u017c\u00f3\u0142w", re.IGNORECASE)


@pytest.mark.parametrize("variant", range(4))
@pytest.mark.parametrize("plural", RESOURCES)
def test_no_text_of_an_object_survives(plural: str, variant: int) -> None:
    """Whatever the field, also one that only Kubernetes is supposed to write."""
    resource = RESOURCES[plural]
    item = filled(resource.type, mark, variant=variant)
    obj = msgspec.json.decode(encode_object(resource, item, item.metadata.annotations))
    made = Redactor(b"salt")
    made.learn("object", obj)
    for section, data in (("object", obj), ("delta", {"plural": plural, "object": obj})):
        redacted = msgspec.json.encode(made.redact(section, data)).decode()
        assert MARKED.findall(redacted) == []
        assert resource.kind in redacted


@pytest.mark.parametrize("variant", range(4))
@pytest.mark.parametrize(
    ("section", "kind"),
    [("decision", Decision), ("attempt", Outcome), ("state", QueueStatistics), ("row", PodView)],
)
def test_no_text_of_a_line_survives(section: str, kind: Any, variant: int) -> None:
    record = msgspec.to_builtins(filled(kind, mark, variant=variant))
    data = {"deep": [record], "outcome": record, mark(""): mark(""), "info": {mark(""): record}}
    redacted = Redactor(b"salt").redact(section, data)
    assert MARKED.findall(msgspec.json.encode(redacted).decode()) == []


def test_no_label_of_a_metric_survives_however_it_is_quoted() -> None:
    text = 'held{namespace="a\\"zq1",pod="zq2\\\\",resource="zq/3",le="0.5",profile="p"} 3\n'
    redacted = Redactor(b"salt").redact("metrics", {"text": text})["text"]
    assert MARKED.findall(redacted) == []
    assert redacted.endswith(',le="0.5",profile="p"} 3\n')


@pytest.mark.parametrize(
    "message",
    [
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint(s).",
        "0/41 nodes are available: 41 node(s) didn't match pod topology spread constraints.",
        "preemption: 0/41 nodes are available: 41 Preemption is not helpful for scheduling.",
        "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.",
        "binding rejected: running Bind plugin: the pod was deleted",
        "quota exceeded: cpu, requested: requests.cpu=1, used: limits.memory=3",
    ],
)
def test_messages_of_the_scheduler_are_kept(message: str) -> None:
    assert Redactor(b"salt").text(message) == message


def test_resources_mean_the_same_in_pods_nodes_and_quotas() -> None:
    made = Redactor(b"salt")
    requests = {"requests": {"acme.com/gpu": "1", "cpu": "2", "nvidia.com/gpu": "1"}}
    prefix = "deferred.kubestow.io/requests."
    amounts = {"requests.acme.com/gpu": "1", f"{prefix}acme.com_gpu": "2"}
    hard = {"hard": {**amounts, f"{prefix}cpu-millis": "3"}}
    first = made.redact("object", {"kind": "Pod", "spec": requests})["spec"]["requests"]
    gpu = next(each for each in first if each not in ("cpu", "nvidia.com/gpu"))
    assert first == {gpu: "1", "cpu": "2", "nvidia.com/gpu": "1"}
    assert made.redact("object", {"kind": "ResourceQuota", "spec": hard})["spec"]["hard"] == {
        f"requests.{gpu}": "1",
        f"deferred.kubestow.io/requests.{gpu.replace('/', '_')}": "2",
        "deferred.kubestow.io/requests.cpu-millis": "3",
    }
    assert made.text("1 Insufficient acme.com/gpu.") == f"1 Insufficient {gpu}."


LOOKS_INTO_TEXTS = re.compile(
    r"\b(?:startsWith|endsWith|matches|split|find|findAll|upperAscii|isIP|ip|cidr|url|substring)\("
    r"|size\(device"
)
"""Functions that a redacted text gives another result."""


def cel_vectors() -> list[dict[str, Any]]:
    """Return what the real scheduler computed of selectors and devices."""
    with gzip.open(VECTOR_DIRECTORY / f"dra_cel{SUFFIX}") as lines:
        return [json.loads(each) for each in lines]


def redacted(made: Redactor, **spec: Any) -> dict[str, Any]:
    """Return the redacted spec of an object."""
    found: dict[str, Any] = made.redact("object", {"kind": "Any", "spec": spec})["spec"]
    return found


def test_selectors_select_the_same_devices() -> None:
    made = redactor()
    vectors = [
        each for each in cel_vectors() if not LOOKS_INTO_TEXTS.search(each["input"]["expression"])
    ]
    assert len(vectors) > 140
    for vector in vectors:
        stated = vector["input"]
        driver, expression = stated["device"]["driver"], stated["expression"]
        slices = redacted(made, driver=driver, devices=[stated["device"]])
        classes = redacted(made, selectors=[{"cel": {"expression": expression}}])
        (device,), (selector,) = slices["devices"], classes["selectors"]
        stated["device"] = {**device, "driver": slices["driver"]}
        stated["expression"] = selector["cel"]["expression"]
        # Of longer texts some functions cost more.
        vector["expected"].pop("cost", None)
        assert (expression, UNIT_FILES["dra_cel"](vector)) == (expression, [])


def test_selectors_keep_their_fields() -> None:
    made = redactor()
    app = redacted(made, matchLabels={"app": "pay"})["matchLabels"]
    assert list(app) != ["app"]
    assert redacted(made, selector={"matchLabels": {"app": "pay"}})["selector"] == {
        "matchLabels": app
    }
    assert redacted(made, selector={"app": "pay"})["selector"] == app
    field = {"key": "metadata.name", "operator": "In", "values": ["linux"]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    assert redacted(made, nodeSelector=terms)["nodeSelector"] == terms


def test_limits_of_drivers_and_owners_are_kept() -> None:
    made = redactor()
    assert redacted(made, allocatable={"count": 5}) == {"allocatable": {"count": 5}}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet"}
    assert redacted(made, ownerReferences=[owner])["ownerReferences"] == [owner]
    (other,) = redacted(made, ownerReferences=[{"apiVersion": "acme.com/v1"}])["ownerReferences"]
    assert "acme" not in other["apiVersion"]


def test_the_zones_of_a_volume_are_those_of_nodes() -> None:
    made = redactor()
    zones = [redacted(made, value=each)["value"] for each in ("east", "west", "east__west")]
    assert zones[2] == f"{zones[0]}__{zones[1]}"


def test_a_quoted_word_is_a_name() -> None:
    made = redactor()
    name = redacted(made, name="claim")["name"]
    assert (
        made.text('claim "claim" of pod default/claim') == f'claim "{name}" of pod default/{name}'
    )


def test_aliases_of_a_quota_stand_for_the_resources_of_pods() -> None:
    made = redactor()
    aliases = '{"claim": "requests.acme.com/gpu"}'
    annotations = redacted(made, annotations={"kubestow.io/deferred-keys": aliases})["annotations"]
    (hard,) = redacted(made, hard={"deferred.kubestow.io/claim": "2"})["hard"]
    (resource,) = redacted(made, requests={"acme.com/gpu": "1"})["requests"]
    assert json.loads(annotations["kubestow.io/deferred-keys"]) == {
        hard.removeprefix("deferred.kubestow.io/"): f"requests.{resource}"
    }
    malformed = redacted(made, annotations={"kubestow.io/deferred-keys": '{"acme": 3'})
    assert "acme" not in malformed["annotations"]["kubestow.io/deferred-keys"]


def test_annotations_name_what_other_objects_have() -> None:
    made = redactor()
    # A word of kubestow's messages is a name here.
    name = redacted(made, name="claim")["name"]
    stated = {
        "kubestow.io/priority-class": "claim",
        "kubestow.io/topology-preferred": "claim, topology.kubernetes.io/zone",
        "kubestow.io/disruption": "PodGroup",
    }
    assert redacted(made, annotations=stated)["annotations"] == {
        "kubestow.io/priority-class": name,
        "kubestow.io/topology-preferred": f"{name},topology.kubernetes.io/zone",
        "kubestow.io/disruption": "PodGroup",
    }
    fields = {"podgroups.scheduling.k8s.io": ["disruptionMode"]}
    made.learn("configuration", {"configuration": {}, "customFields": fields})
    assert redacted(made, disruptionMode="PodGroup") == {"disruptionMode": "PodGroup"}


def test_capacity_has_one_name_in_slices_and_claims() -> None:
    device = {"name": "d", "capacity": {"size": {"value": "8"}, "a.com/memory": {"value": "8Gi"}}}
    amounts = {"size": "1", "a.com/memory": "2"}
    made = redactor()
    names = [*redacted(made, devices=[device])["devices"][0]["capacity"]]
    request = redacted(made, exactly={"capacity": {"requests": amounts}})
    assert [*request["exactly"]["capacity"]["requests"]] == names
    assert [*redacted(made, consumedCapacity=amounts)["consumedCapacity"]] == names
    assert {"size", "a.com/memory"}.isdisjoint(names)


@pytest.mark.parametrize("expression", ["secret ==", "#secret", '"' + "secret" * 2000 + '"'])
def test_what_is_no_selector_is_replaced_as_a_whole(expression: str) -> None:
    assert "secret" not in redacted(redactor(), expression=expression)["expression"]


@pytest.mark.slow
@given(st.text(min_size=1, max_size=60))
def test_any_name_becomes_a_valid_one(name: str) -> None:
    made = Redactor(b"salt")
    obj = {"kind": "Pod", "metadata": {"name": name, "labels": {name: name}}}
    made.learn("object", obj)
    metadata = made.redact("object", obj)["metadata"]
    again = made.redact("object", obj)["metadata"]
    assert metadata == again
    assert metadata["labels"] == {metadata["name"]: metadata["name"]}
