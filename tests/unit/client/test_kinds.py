"""Kinds: manifests find the resource that reads them."""

from __future__ import annotations

import pytest

from scheduler.api import CustomObject, Named
from scheduler.client.custom_resources import CustomResource
from scheduler.client.kinds import Kinds
from scheduler.client.resources import NODES, SERVICES


class NodeMetrics(Named):
    """The part of a NodeMetrics object that is read."""


RACKS = CustomResource("example.com/v1/racks")
OTHER_RACKS = CustomResource("example.org/v1/racks")
TOPOLOGIES = CustomResource("topology.node.k8s.io/v1alpha2/noderesourcetopologies")
BOXES = CustomResource("example.com/v1/boxes")
SHEEP = CustomResource("example.com/v1/sheep")
USAGE = CustomResource("metrics.k8s.io/v1beta1/nodes", NodeMetrics)
KINDS = Kinds([NODES, RACKS, OTHER_RACKS, TOPOLOGIES, BOXES, SHEEP, USAGE])


@pytest.mark.parametrize(
    ("version", "kind", "found"),
    [
        ("v1", "Node", NODES),
        ("example.com/v1", "Rack", RACKS),
        ("example.com/v1", "racks.v1.example.com", RACKS),
        ("example.org/v1", "Rack", OTHER_RACKS),
        ("example.com/v2", "Rack", None),
        ("example.com/v1", "Shelf", None),
        ("example.com/v1", "Box", BOXES),
        ("example.com/v1", "Sheep", SHEEP),
        ("topology.node.k8s.io/v1alpha2", "NodeResourceTopology", TOPOLOGIES),
        ("metrics.k8s.io/v1beta1", "NodeMetrics", USAGE),
        ("metrics.k8s.io/v1beta1", "PodMetrics", None),
        ("example.com/v1", "CustomObject", None),
        ("", "", None),
    ],
)
def test_a_manifest_belongs_to_the_resource_of_its_group_version_and_kind(
    version: str, kind: str, found: CustomResource | None
) -> None:
    assert KINDS.of(version, kind) is found


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("Node", NODES),
        ("Service", SERVICES),
        ("NodeResourceTopology", TOPOLOGIES),
        ("Rack", None),
        ("Rack.example.org", OTHER_RACKS),
        ("Rack.v1.example.com", RACKS),
        ("racks.v1.example.com", RACKS),
        ("Rack.example.net", None),
        ("Lease", None),
    ],
)
def test_a_kind_without_its_group_is_known_unless_several_groups_have_it(
    name: str, found: CustomResource | None
) -> None:
    assert KINDS.named(name) is found


def test_objects_without_a_declared_type_are_plain() -> None:
    assert (RACKS.type, RACKS.namespaced) == (CustomObject, False)
    assert "racks.v1.example.com" in KINDS.names()
