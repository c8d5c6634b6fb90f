"""Remedies for pods whose resource claims, or what these name, do not exist."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler import offline
from scheduler.explain.records import Remedy

JsonObject = dict[str, Any]
GROUP = {"apiVersion": "resource.k8s.io/v1"}
CLASS: JsonObject = {**GROUP, "kind": "DeviceClass", "metadata": {"name": "gpu.x"}, "spec": {}}
DEVICE: JsonObject = {
    **GROUP,
    "kind": "ResourceSlice",
    "metadata": {"name": "n-gpus"},
    "spec": {
        "driver": "gpu.example.com",
        "nodeName": "n",
        "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "gpu-0"}],
    },
}
BY_NAME = {"resourceClaimName": "one"}
BY_TEMPLATE = {"resourceClaimTemplateName": "one-gpu"}


def claim(**request: Any) -> JsonObject:
    return {
        **GROUP,
        "kind": "ResourceClaim",
        "metadata": {"name": "one", "namespace": "default"},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": request}]}},
    }


def remedies(entry: JsonObject, *others: JsonObject) -> list[Remedy]:
    """Return the remedies of a pod with a claim; node `m` has no devices, and is preferred."""
    spec = {
        "containers": [{"name": "c", "resources": {"claims": [{"name": "gpu"}]}}],
        "resourceClaims": [{"name": "gpu", **entry}],
    }
    with offline.World() as world:
        world.add_all([offline.node("m", cpu=64), offline.node("n", cpu=1), *others])
        world.add(offline.pod("p", spec=spec))
        world.schedule()
        return list(world.remedies("default/p").remedies)


@pytest.mark.parametrize(
    ("entry", "code", "what"),
    [
        (BY_NAME, "CreateResourceClaim", "create resource claim one"),
        (BY_TEMPLATE, "CreateResourceClaimTemplate", "create resource claim template one-gpu"),
    ],
)
def test_what_the_pod_names_is_to_be_created_or_named_otherwise(
    entry: JsonObject, code: str, what: str
) -> None:
    for others in ([], [CLASS]):
        first, last = remedies(entry, *others)
        assert (first.codes, last.codes) == ((code,), ("DropResourceClaims",))
        assert first.text == f"{what} (its devices were not tried), or correct the name in the pod"
    first, _ = remedies(entry, CLASS, DEVICE)
    assert (first.codes, first.node) == ((code,), "n")
    assert first.text == f"{what} for a device of class gpu.x, or correct the name in the pod"


def test_a_resource_claim_with_a_similar_name_is_to_be_named_first() -> None:
    found = remedies({"resourceClaimName": "ones"}, claim(deviceClassName="gpu.x"), CLASS, DEVICE)
    assert found[0].text == "name resource claim one instead of ones"
    assert found[0].node == "n"


def test_a_missing_device_class_is_to_be_created() -> None:
    first = remedies(BY_NAME, claim(deviceClassName="gpu.example.com"), DEVICE)[0]
    assert first.codes == ("CreateDeviceClass",)
    assert first.text == "create device class gpu.example.com"


def test_without_devices_a_missing_device_class_is_to_be_created_all_the_same() -> None:
    wanted = claim(deviceClassName="gpu.y")
    texts = [each.text for each in remedies(BY_NAME, wanted)]
    assert texts == [
        "create device class gpu.y (its devices were not tried)",
        "do without resource claims (gpu)",
    ]
    texts = [each.text for each in remedies(BY_NAME, wanted, CLASS)]
    assert texts == [
        "create device class gpu.y (its devices were not tried), or name gpu.x in the claim",
        "do without resource claims (gpu)",
    ]


def test_the_nearest_device_class_is_to_be_named() -> None:
    other = {**CLASS, "metadata": {"name": "nic"}}
    found = remedies(BY_NAME, claim(deviceClassName="gpu.y"), CLASS, other, DEVICE)
    assert [each.text for each in found] == [
        "name device class gpu.x instead of gpu.y in claim one",
        "create device class gpu.y, or name gpu.x in the claim",
        "do without resource claims (gpu)",
    ]
    assert found[0].node == "n"


def test_a_claim_that_exists_is_not_to_be_created() -> None:
    found = remedies(BY_NAME, claim(deviceClassName="gpu.x"), CLASS)
    assert [each.text for each in found] == ["do without resource claims (gpu)"]
