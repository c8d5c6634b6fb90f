"""The accesses that a rule grants, as RBAC does."""

from __future__ import annotations

import pytest

from scheduler.client.access_reviews import Access, ResourceRule, grants

READ_PODS = ResourceRule(verbs=("get", "list"), api_groups=("",), resources=("pods",))
ALL = ResourceRule(verbs=("*",), api_groups=("*",), resources=("*",))
ONE_LEASE = ResourceRule(
    verbs=("update",), api_groups=("coordination.k8s.io",), resources=("leases",),
    resource_names=("mine",),
)  # fmt: skip
STATUSES = ResourceRule(verbs=("patch",), api_groups=("",), resources=("*/status",))
LEASE = {"verb": "update", "group": "coordination.k8s.io", "resource": "leases"}


@pytest.mark.parametrize(
    ("rule", "access", "expected"),
    [
        (READ_PODS, {"verb": "list", "resource": "pods"}, True),
        (READ_PODS, {"verb": "watch", "resource": "pods"}, False),
        (READ_PODS, {"verb": "list", "resource": "pods", "group": "metrics.k8s.io"}, False),
        (READ_PODS, {"verb": "get", "resource": "pods/status"}, False),
        (ALL, {"verb": "delete", "resource": "pods/status", "group": "x"}, True),
        (STATUSES, {"verb": "patch", "resource": "resourcequotas/status"}, True),
        (STATUSES, {"verb": "patch", "resource": "resourcequotas"}, False),
        (ONE_LEASE, {**LEASE, "name": "mine"}, True),
        (ONE_LEASE, {**LEASE, "name": "other"}, False),
        (ONE_LEASE, LEASE, False),
    ],
)
def test_a_rule_grants_what_it_names(
    rule: ResourceRule, access: dict[str, str], expected: bool
) -> None:
    assert grants([rule], Access(**access)) is expected


def test_one_of_several_rules_is_enough() -> None:
    access = Access(verb="patch", resource="pods/status")
    assert grants([READ_PODS, STATUSES], access)
    assert not grants([], access)
