"""Devices of claims under deferred keys, counted as the API server counts them.

The numbers of the claims for extended resources were observed on kube-apiserver v1.36.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plugins.resource_quota.device_claims import EXTENDED_RESOURCE_CLAIM, DeviceClaims
from plugins.resource_quota.ledger import Ledger
from plugins.resource_quota.usage import Usage
from scheduler.api import Pod
from scheduler.api.devices import DeviceClass, ResourceClaim
from scheduler.api.quantity import NANO
from tests.unit.plugins.resource_quota.objects import pod, quota

IMPLICIT = "requests.deviceclass.resource.kubernetes.io/gpu"
EXPLICIT = "requests.example.com/gpu"


def device_class(resource: str | None = None, name: str = "gpu") -> DeviceClass:
    spec = {"extendedResourceName": resource} if resource else {}
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, DeviceClass)


def exactly(count: int = 1, class_name: str = "gpu", mode: str = "ExactCount") -> dict[str, Any]:
    return {"deviceClassName": class_name, "allocationMode": mode, "count": count}


def claim(uid: str, *requests: dict[str, Any], owner: str = "") -> ResourceClaim:
    metadata: dict[str, Any] = {"name": uid, "namespace": "default", "uid": uid}
    if owner:
        metadata["annotations"] = {EXTENDED_RESOURCE_CLAIM: "true"}
        metadata["ownerReferences"] = [{"name": owner, "uid": owner, "controller": True}]
    spec = {"devices": {"requests": list(requests)}}
    return msgspec.convert({"metadata": metadata, "spec": spec}, ResourceClaim)


class Counted:
    """The newest sums, and the pods that exist."""

    def __init__(self) -> None:
        self.sums: dict[str, Usage] = {}
        self.pods: dict[str, Pod] = {}
        self.reports = 0
        self.claims = DeviceClaims(self.set, lambda name, _namespace: self.pods.get(name))

    def set(self, namespace: str, usage: Usage) -> None:
        self.sums[namespace] = dict(usage)
        self.reports += 1

    @property
    def default(self) -> dict[str, int]:
        return {name: amount // NANO for name, amount in self.sums.get("default", {}).items()}


def test_requests_count_by_class_and_alternatives_by_the_largest() -> None:
    counted = Counted()
    counted.claims.device_class(None, device_class("example.com/gpu"))
    some = {"firstAvailable": [exactly(5), exactly(2)]}
    everything = {"exactly": exactly(mode="All")}
    first = claim("c", {"exactly": exactly(3)}, everything, some)
    counted.claims.claim(None, first)
    assert counted.default == {IMPLICIT: 40, EXPLICIT: 40}
    counted.claims.claim(None, claim("d", {"exactly": exactly(1, "nic")}))
    assert counted.default[IMPLICIT.replace("gpu", "nic")] == 1
    counted.claims.claim(first, first)
    counted.claims.claim(first, None)
    assert counted.default == {IMPLICIT.replace("gpu", "nic"): 1}


def test_a_class_that_gets_another_name_is_counted_anew() -> None:
    counted = Counted()
    counted.claims.claim(None, claim("c", {"exactly": exactly(2)}))
    assert counted.default == {IMPLICIT: 2}
    named = device_class("example.com/gpu")
    counted.claims.device_class(None, named)
    assert counted.default == {IMPLICIT: 2, EXPLICIT: 2}
    counted.claims.device_class(named, None)
    assert counted.default == {IMPLICIT: 2}


@pytest.mark.parametrize(
    ("asked", "expected"), [("example.com/gpu", IMPLICIT), (IMPLICIT.partition(".")[2], EXPLICIT)]
)
def test_a_claim_for_extended_resources_counts_where_its_pod_does_not(
    asked: str, expected: str
) -> None:
    counted = Counted()
    counted.claims.device_class(None, device_class("example.com/gpu"))
    made = claim("c", {"exactly": exactly(2)}, owner="p")
    counted.claims.claim(None, made)
    assert counted.default == {IMPLICIT: 2, EXPLICIT: 2}, "the pod is not known yet"
    counted.pods["p"] = pod("p", requests={asked: "2"})
    counted.pods["p"].metadata.uid = "p"
    counted.claims.recount()
    assert counted.default == {expected: 2}


def test_a_class_counts_only_its_own_claims_anew() -> None:
    counted = Counted()
    for number in range(20):
        counted.claims.claim(None, claim(f"c{number}", {"exactly": exactly(1, f"k{number % 2}")}))
    counted.reports = 0
    counted.claims.device_class(None, device_class("example.com/other", "unused"))
    assert counted.reports == 0
    counted.claims.device_class(None, device_class("example.com/k1", "k1"))
    assert counted.reports == 1
    assert counted.default["requests.example.com/k1"] == 10


NAMES = st.sampled_from("ab")
STEPS: st.SearchStrategy[tuple[str, int, list[str]]] = st.one_of(
    st.tuples(st.just("claim"), st.integers(0, 4), st.lists(NAMES, max_size=3)),
    st.tuples(st.just("delete"), st.integers(0, 4), st.just([])),
    st.tuples(st.just("class"), st.integers(0, 2), st.lists(NAMES, min_size=1, max_size=1)),
)


@given(st.lists(STEPS, max_size=25))
@settings(max_examples=40, deadline=None)
def test_sums_do_not_depend_on_the_order(steps: list[tuple[str, int, list[str]]]) -> None:
    """Claims are made, deleted and replaced, and classes get names, others, and none."""
    counted = Counted()
    claims: dict[int, ResourceClaim] = {}
    classes: dict[str, DeviceClass] = {}
    for serial, (kind, number, names) in enumerate(steps):
        old = claims.get(number)
        if kind == "claim":
            requests = [
                {"exactly": exactly(2**position, name)} for position, name in enumerate(names)
            ]
            claims[number] = claim(f"{number}-{serial}", *requests)
            counted.claims.claim(old, claims[number])
        elif kind == "delete" and old is not None:
            counted.claims.claim(claims.pop(number), None)
        elif kind == "class":
            (name,) = names
            new = device_class(f"example.com/r{number}" if number else None, name)
            counted.claims.device_class(classes.get(name), new)
            classes[name] = new
    again = Counted()
    for each in classes.values():
        again.claims.device_class(None, each)
    for left in claims.values():
        again.claims.claim(None, left)
    assert counted.default == again.default


def test_claims_take_what_pods_may_use() -> None:
    ledger = Ledger()
    claims = DeviceClaims(ledger.set_devices, lambda _name, _namespace: None)
    ledger.mark_synced()
    key = "requests.deviceclass.resource.kubernetes.io_gpu"
    asked = IMPLICIT.partition(".")[2]
    made = claim("c", {"exactly": exactly(3)})
    claims.claim(None, made)
    ledger.set_quota(quota(hard={key: "4"}))
    (account,) = ledger.accounts()
    assert account.published() == {f"deferred.kubestow.io/{key}": "3"}
    large = pod("large", requests={asked: "2"})
    ledger.observe(large)
    assert ledger.violations(large)
    claims.claim(made, None)
    assert not ledger.violations(large)
    assert account.published()[f"deferred.kubestow.io/{key}"] in ("0", "2")
    ledger.validate()
