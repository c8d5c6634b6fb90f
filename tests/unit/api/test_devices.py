"""Records of dynamic resource allocation are read from JSON as the API server writes it."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.api.decoding import decode_json
from scheduler.api.devices import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice

SLICE = b"""{"metadata": {"name": "s"}, "spec": {"driver": "gpu.example.com", "nodeName": "n1",
  "pool": {"name": "n1", "generation": 2, "resourceSliceCount": 1}, "later": {"field": [1]},
  "devices": [{"name": "gpu-0", "bindingConditions": [], "allowMultipleAllocations": true,
    "attributes": {"a": {"int": 5}, "b": {"bool": false}, "c": {"version": "1.0.0"}},
    "capacity": {"memory": {"value": "40Gi", "requestPolicy": {"default": "1Gi",
      "validRange": {"min": "1Gi", "step": "1Gi"}}}},
    "consumesCounters": [{"counterSet": "s", "counters": {"x": {"value": 2}}}]}]}}"""
CLAIM = b"""{"metadata": {"name": "c"}, "spec": {"devices": {"requests": [
    {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}
    },
    {"name": "f", "firstAvailable": [{"name": "big", "deviceClassName": "gpu"}]}],
  "config": [{"opaque": {"driver": "d", "parameters": {"deep": [1, {"x": null}]}}}]}},
  "status": {"allocation": {"devices": {"results": [{"request": "r", "shareID": "u"}]}},
    "reservedFor": [{"resource": "pods", "name": "p", "uid": "1"}]}}"""


def test_a_slice() -> None:
    spec = msgspec.json.decode(SLICE, type=ResourceSlice).spec
    (device,) = spec.devices
    assert (spec.pool.generation, spec.pool.resource_slice_count) == (2, 1)
    assert device.attributes["a"].integer == 5
    assert device.attributes["b"].boolean is False
    assert device.attributes["c"].version == "1.0.0"
    # An empty list is not an absent one: it puts the pool behind others.
    assert device.binding_conditions == ()
    policy = device.capacity["memory"].request_policy
    assert policy is not None
    assert policy.valid_range is not None
    assert policy.valid_range.max is None
    assert device.consumes_counters[0].counters["x"].value == 2


def test_a_claim_keeps_the_parameters_of_drivers_as_they_are() -> None:
    claim = msgspec.json.decode(CLAIM, type=ResourceClaim)
    exact, alternatives = claim.spec.devices.requests
    assert exact.exactly is not None
    assert exact.exactly.count == 2
    assert alternatives.first_available[0].name == "big"
    (config,) = claim.spec.devices.config
    assert config.opaque is not None
    assert bytes(config.opaque.parameters) == b'{"deep": [1, {"x": null}]}'
    assert claim.status.allocation is not None
    assert claim.status.allocation.devices.results[0].share_id == "u"
    assert b'"shareID":"u"' in msgspec.json.encode(claim)
    assert b'{"deep": [1, {"x": null}]}' in msgspec.json.encode(claim)


def test_parameters_that_nest_too_deep_for_the_decoder_are_cut() -> None:
    deep = b'{"x": ' * 50_000 + b"1" + b"}" * 50_000
    text = b'{"spec": {"config": [{"opaque": {"driver": "d", "parameters": ' + deep + b"}}]}}"
    decoder = msgspec.json.Decoder(DeviceClass)
    found = decode_json(decoder, text)
    assert found.spec.config[0].opaque is not None
    assert found.spec.config[0].opaque.driver == "d"


def test_a_taint_rule() -> None:
    text = (
        b'{"spec": {"deviceSelector": {"driver": "d"}, '
        b'"taint": {"key": "k", "effect": "NoExecute"}}}'
    )
    spec = msgspec.json.decode(text, type=DeviceTaintRule).spec
    assert spec.device_selector is not None
    assert (spec.device_selector.driver, spec.device_selector.pool) == ("d", None)
    assert spec.taint.effect == "NoExecute"


def test_a_field_of_a_wrong_type_is_named() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"\$\.spec\.devices\[0\]\.name"):
        msgspec.json.decode(b'{"spec": {"devices": [{"name": 5}]}}', type=ResourceSlice)
