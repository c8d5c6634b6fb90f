"""Objects lose what must not leave the cluster, and keep what decides."""

from __future__ import annotations

from typing import Any

import msgspec

from scheduler.api.signatures.interner import PACK_BYTES, PodSignatures
from scheduler.client.resources import NODES, PODS
from scheduler.recording.objects import encode_object, without_secrets


def decoded(resource: Any, obj: dict[str, Any], *, intern: bool = True, **options: Any) -> Any:
    item = resource.decode(msgspec.json.encode(obj))
    if resource is PODS and intern:
        PodSignatures().intern(item)
    return msgspec.json.decode(encode_object(resource, item, **options))


def pod(**spec: Any) -> dict[str, Any]:
    container = {
        "name": "c",
        "image": "registry/app",
        "command": ["run", "--password=hunter2"],
        "env": [{"name": "TOKEN", "value": "s3cr3t-value"}],
        "resources": {"requests": {"cpu": "1"}},
    }
    return {
        "metadata": {
            "name": "web",
            "namespace": "team",
            "labels": {"app": "web"},
            "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": '{"env":"s3cr3t-value"}',
                "example.com/note": "private",
                "kubestow.io/quota-deferred": "true",
            },
            "managedFields": [{"manager": "kubectl"}],
        },
        "spec": {"containers": [container], **spec},
        "status": {"conditions": [{"type": "Ready", "message": "password: hunter2abc"}]},
    }


def test_a_pod_loses_its_secrets() -> None:
    made = decoded(PODS, pod())
    text = msgspec.json.encode(made).decode()
    for secret in ("s3cr3t", "hunter2", "private", "managedFields", "command"):
        assert secret not in text
    assert made["metadata"]["annotations"] == {"kubestow.io/quota-deferred": "true"}
    assert (made["apiVersion"], made["kind"]) == ("v1", "Pod")
    assert made["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "1"}}


def test_named_annotations_stay() -> None:
    made = decoded(PODS, pod(), kept_annotations=("example.com/note",))
    assert made["metadata"]["annotations"]["example.com/note"] == "private"


def test_a_large_annotation_is_left_out() -> None:
    node = {"metadata": {"name": "n", "annotations": {"kubestow.io/x": "a" * 1_000_000}}}
    assert "annotations" not in decoded(NODES, node)["metadata"]


def test_a_pinned_and_a_packed_pod_are_encoded_as_they_were() -> None:
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    large = {f"key-{number}": "v" * 60 for number in range(PACK_BYTES // 60)}
    for spec in ({"affinity": {"nodeAffinity": required}}, {"nodeSelector": large}):
        plain, interned = decoded(PODS, pod(**spec), intern=False), decoded(PODS, pod(**spec))
        assert interned == plain
        assert not [key for key in interned if key.startswith("kubestow")]


def test_a_configuration_loses_what_connects() -> None:
    own = {"seed": 1, "tracing": {"endpoint": "https://collector"}}
    whole = {"clientConnection": {"kubeconfig": "/home/me"}, "extenders": [1], "kubestow": own}
    assert without_secrets({**whole, "profiles": []}) == {"kubestow": {"seed": 1}, "profiles": []}
