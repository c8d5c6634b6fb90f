"""The annotation on the Lease that tells how to reach the leader."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.client.leader_record import ANNOTATION, LeaderAddress, LeaderRecord, leader_of


def address() -> LeaderAddress:
    address = LeaderAddress("system/kubestow-1")
    address.port, address.certificate_sha256 = 10259, "ab" * 32
    return address


def lease(holder: object = "me", **annotations: object) -> dict[str, Any]:
    return {
        "metadata": {"name": "kubestow", "annotations": annotations},
        "spec": {"holderIdentity": holder},
    }


def test_a_reader_gets_what_the_holder_published() -> None:
    published = address().annotated(lease(other="stays"))
    assert published["metadata"]["annotations"]["other"] == "stays"
    assert leader_of(published) == LeaderRecord(
        "me", "system/kubestow-1", port=10259, certificate_sha256="ab" * 32
    )


@pytest.mark.parametrize(
    ("host", "address"),
    [("example", "example:10259"), ("192.0.2.7", "192.0.2.7:10259"), ("::1", "[::1]:10259")],
)
def test_a_process_outside_of_the_cluster_publishes_its_host(host: str, address: str) -> None:
    ours = LeaderAddress(host=host)
    ours.port, ours.certificate_sha256 = 10259, "ab" * 32
    found = leader_of(ours.annotated(lease()))
    assert found is not None
    assert (found.pod, found.address, found.reachable) == ("", address, True)


@pytest.mark.parametrize("missing", ["host", "port", "certificate_sha256"])
def test_a_record_without_address_or_hash_leads_nowhere(missing: str) -> None:
    whole = LeaderRecord("me", host="example", port=1, certificate_sha256="ab")
    empty = {"host": "", "port": 0, "certificate_sha256": ""}[missing]
    assert whole.reachable
    assert not msgspec.structs.replace(whole, **{missing: empty}).reachable


def test_a_renewed_certificate_replaces_the_record() -> None:
    ours = address()
    first = ours.annotated(lease())
    ours.certificate_sha256 = "cd" * 32
    found = leader_of(ours.annotated(first))
    assert found is not None
    assert found.certificate_sha256 == "cd" * 32


def test_the_record_of_a_former_holder_is_ignored() -> None:
    published = address().annotated(lease("former"))
    published["spec"] = {"holderIdentity": "present"}
    assert leader_of(published) == LeaderRecord("present")


def test_a_released_lease_has_neither_record_nor_leader() -> None:
    published = address().annotated(lease())
    published["spec"] = {"holderIdentity": ""}
    released = address().annotated(published)
    assert ANNOTATION not in released["metadata"]["annotations"]
    assert leader_of(released) is None


@pytest.mark.parametrize(
    "value", ["", "no JSON", "[" * 100_000, "{}", '{"holder": 1}', '{"holder": "other"}', 7, None]
)
def test_anything_else_in_the_annotation_is_no_record(value: object) -> None:
    assert leader_of(lease("me", **{ANNOTATION: value})) == LeaderRecord("me")


@pytest.mark.parametrize("value", [{}, {"spec": None}, {"spec": {"holderIdentity": None}}])
def test_without_a_holder_there_is_no_leader(value: dict[str, Any]) -> None:
    assert leader_of(value) is None
