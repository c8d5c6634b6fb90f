"""The claims of a pod, those that must wait, and the score of their allocations."""

from __future__ import annotations

from typing import Any

import pytest

from plugins.dynamic_resources.claims import (
    ClaimsUnavailableError,
    DeviceNotReadyError,
    allocated_requests,
    claim_change_helps,
    has_binding_conditions,
    is_ready,
    is_reserved_for,
    only_used_by,
    pod_claims,
    preference_score,
    rejection,
)
from scheduler.api import Pod, PodSignatures
from scheduler.api.devices import ResourceClaim
from scheduler.framework import Code
from tests.unit.plugins.dynamic_resources.worlds import decoded, request

OWNED = [{"kind": "Pod", "name": "p", "uid": "pod-1", "controller": True}]


def pod(*entries: dict[str, Any], **status: Any) -> Pod:
    """Return a pod with these entries of spec.resourceClaims."""
    raw = {
        "metadata": {"namespace": "ns", "name": "p", "uid": "pod-1"},
        "spec": {"resourceClaims": entries},
        "status": status,
    }
    made = decoded(raw, Pod)
    PodSignatures().intern(made)
    return made


def claim(*requests: dict[str, Any], status: Any = None, **metadata: Any) -> ResourceClaim:
    """Return claim ns/c."""
    raw = {
        "metadata": {"namespace": "ns", "name": "c", "uid": "claim-1", **metadata},
        "spec": {"devices": {"requests": requests}},
        "status": status or {},
    }
    return decoded(raw, ResourceClaim)


NAMED = {"name": "e", "resourceClaimName": "c"}
TEMPLATE = {"name": "e", "resourceClaimTemplateName": "t"}
CREATED = {"resourceClaimStatuses": [{"name": "e", "resourceClaimName": "c"}]}
NOT_NEEDED = {"resourceClaimStatuses": [{"name": "e"}]}


@pytest.mark.parametrize(
    ("made", "known", "expected"),
    [
        (pod(NAMED), claim(), ["c"]),
        (pod(), None, []),
        (pod(TEMPLATE, **CREATED), claim(ownerReferences=OWNED), ["c"]),
        (pod(TEMPLATE, **NOT_NEEDED), None, []),
        (pod({"name": "e"}), None, 'spec.resourceClaim "e": none of the supported fields are set'),
        (pod(TEMPLATE), None, 'pod "ns/p": ResourceClaim not created yet'),
        (pod(NAMED), None, 'could not find ResourceClaim "ns/c"'),
        (
            pod(NAMED),
            claim(deletionTimestamp="2026-01-01T00:00:00Z"),
            'resourceclaim "c" is being deleted',
        ),
        (
            pod(TEMPLATE, **CREATED),
            claim(),
            r"ResourceClaim ns/c was not created for Pod ns/p \(Pod is not owner\)",
        ),
        # An owner that is not the controller does not count.
        (
            pod(TEMPLATE, **CREATED),
            claim(ownerReferences=[{"uid": "pod-1"}]),
            "Pod is not owner",
        ),
    ],
)
def test_the_claims_of_a_pod(
    made: Pod, known: ResourceClaim | None, expected: list[str] | str
) -> None:
    if isinstance(expected, str):
        with pytest.raises(ClaimsUnavailableError, match=expected):
            pod_claims(made, lambda name, namespace: known)
    else:
        found = pod_claims(made, lambda name, namespace: known)
        assert [each.metadata.name for each in found] == expected


def alternatives(*classes: str) -> dict[str, Any]:
    """Return a request with an alternative for each class."""
    return {
        "name": "r",
        "firstAvailable": [
            {"name": f"s{i}", "deviceClassName": each} for i, each in enumerate(classes)
        ],
    }


@pytest.mark.parametrize(
    ("requests", "options", "code", "text"),
    [
        ([request()], {}, None, ""),
        ([alternatives("gpu", "gpu")], {}, None, ""),
        (
            [request()],
            {"is_in_flight": True},
            Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
            "resource claim ns/c is in the process of being allocated",
        ),
        (
            [request(deviceClassName="x")],
            {},
            Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
            "request r: device class x does not exist",
        ),
        (
            [alternatives("gpu", "x")],
            {},
            Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
            "request r/s1: device class x does not exist",
        ),
        ([request(deviceClassName="")], {}, Code.ERROR, "request r: unsupported request type"),
        (
            [{"name": "r"}],
            {},
            Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
            "resource claim ns/c, request r: unknown request type",
        ),
        (
            [alternatives("gpu")],
            {"prioritized_list": False},
            Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
            (
                "resource claim ns/c, request r: has subrequests, but the DRAPrioritizedList "
                "feature is disabled"
            ),
        ),
    ],
)
def test_claims_that_no_node_can_serve(
    requests: list[dict[str, Any]], options: dict[str, bool], code: Code | None, text: str
) -> None:
    status = rejection(claim(*requests), {"gpu"}, **{"is_in_flight": False, **options})
    if code is None:
        assert status is None
    else:
        assert status is not None
        assert (status.code, status.message) == (code, text)


def test_the_score_prefers_first_alternatives() -> None:
    results = [{"request": "r/s1"}, {"request": "r/s1"}, {"request": "q"}]
    made = claim(
        alternatives("gpu", "gpu"),
        request("q"),
        status={"allocation": {"devices": {"results": results}}},
    )
    assert made.status.allocation is not None
    assert preference_score(made, allocated_requests(made.status.allocation)) == 7


def test_consumers() -> None:
    mine = {"resource": "pods", "name": "p", "uid": "pod-1"}
    shared = claim(status={"reservedFor": [mine, {**mine, "uid": "pod-2"}]})
    assert is_reserved_for(shared, pod())
    assert not only_used_by(shared, pod())
    assert only_used_by(claim(status={"reservedFor": [mine]}), pod())
    assert only_used_by(claim(), pod())
    assert not is_reserved_for(claim(), pod())


DEVICE = {"driver": "d", "pool": "p", "device": "x"}


def bound(*conditions: tuple[str, str]) -> ResourceClaim:
    """Return an allocated claim with conditions of its device."""
    result = {
        **DEVICE, "request": "r", "bindingConditions": ["Ready"],
        "bindingFailureConditions": ["Broken"],
    }  # fmt: skip
    reported = [
        {"type": name, "status": status, "reason": "Because", "message": "text"}
        for name, status in conditions
    ]
    devices = [{**DEVICE, "conditions": reported}] if conditions else []
    return claim(
        status={"allocation": {"devices": {"results": [result]}}, "devices": devices},
    )


def test_binding_conditions() -> None:
    assert has_binding_conditions(bound())
    assert not has_binding_conditions(claim())
    assert is_ready(claim())
    assert not is_ready(bound())
    assert not is_ready(bound(("Ready", "False")))
    assert is_ready(bound(("Ready", "True"), ("Broken", "False")))
    with pytest.raises(DeviceNotReadyError) as caught:
        is_ready(bound(("Ready", "True"), ("Broken", "True")))
    assert str(caught.value) == ('device binding failed: claim=c, reason=Because, message="text"')


ALLOCATED = {"allocation": {"devices": {"results": [DEVICE]}}}


@pytest.mark.parametrize(
    ("old", "new", "helps"),
    [
        (None, claim(), True),
        (claim(), claim(), False),
        (claim(), claim(status=ALLOCATED), True),
        (claim(labels={"a": "b"}), claim(), False),
        (claim(status=ALLOCATED), claim(), True),
        (None, claim(uid="other"), False),
        # Devices of any claim that become free may help.
        (claim(uid="other", status=ALLOCATED), claim(uid="other"), True),
    ],
)
def test_changes_of_claims_that_may_help(
    old: ResourceClaim | None, new: ResourceClaim, helps: bool
) -> None:
    def get_claim(name: str, namespace: str) -> ResourceClaim | None:
        return claim()

    assert claim_change_helps(pod(NAMED), old, new, get_claim) is helps
    # Without its own claim nothing helps the pod.
    assert not claim_change_helps(pod(NAMED), old, new, lambda name, namespace: None)
