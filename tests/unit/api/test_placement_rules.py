"""Tolerations, host ports, images and resource names."""

from __future__ import annotations

import pytest

from scheduler.api.images import normalized_image, pod_images
from scheduler.api.node import Taint
from scheduler.api.pod import Toleration
from scheduler.api.ports import HostPort, conflicts, host_port, host_ports
from scheduler.api.requests import is_extended_resource_name, scalar_resource_names
from scheduler.api.tolerations import (
    NO_EXECUTE,
    NO_SCHEDULE,
    PREFER_NO_SCHEDULE,
    first_untolerated,
    tolerates,
)
from scheduler.sanitizing.names import is_label_value, is_qualified_name
from tests.unit.api.objects import container, pod

DEDICATED = Taint(key="dedicated", value="team", effect=NO_SCHEDULE)


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        (Toleration(key="dedicated", value="team"), True),
        (Toleration(key="dedicated", operator="Equal", value="other"), False),
        (Toleration(key="dedicated", operator="Exists", value="other"), True),
        (Toleration(key="other", operator="Exists"), False),
        (Toleration(operator="Exists"), True),
        (Toleration(operator="Equal", value="team"), True),
        (Toleration(operator="Exists", effect=NO_EXECUTE), False),
        (Toleration(operator="Exists", effect=NO_SCHEDULE), True),
        (Toleration(key="dedicated", operator="Gt", value="team"), False),
        (Toleration(key="dedicated", operator="Lt", value="team"), False),
        (Toleration(key="dedicated", operator="exists"), False),
    ],
)
def test_tolerations(toleration: Toleration, *, expected: bool) -> None:
    assert tolerates(toleration, DEDICATED) is expected


def test_the_first_taint_that_nothing_tolerates_is_returned() -> None:
    soft = Taint(key="soft", effect=PREFER_NO_SCHEDULE)
    evict = Taint(key="evict", effect=NO_EXECUTE)
    tolerated = [Toleration(key="dedicated", operator="Exists")]
    assert first_untolerated([soft, DEDICATED, evict], tolerated) is evict
    assert first_untolerated([soft, DEDICATED, evict], []) is DEDICATED
    assert first_untolerated([soft, DEDICATED], tolerated) is None
    assert first_untolerated([DEDICATED, soft], [], {PREFER_NO_SCHEDULE}) is soft


def test_host_ports_come_from_containers_and_sidecars_with_defaults_filled_in() -> None:
    def port(number: int, **more: object) -> list[dict[str, object]]:
        return [{"containerPort": 1, "hostPort": number, **more}]

    subject = pod(
        {
            "containers": [
                container("a", ports=port(80) + port(0)),
                container("b", ports=port(80) + port(81, hostIP="10.0.0.1", protocol="UDP")),
            ],
            "initContainers": [
                container("once", ports=port(82)),
                container("sidecar", ports=port(83), restartPolicy="Always"),
            ],
        }
    )
    assert host_ports(subject.spec) == (
        HostPort("0.0.0.0", "TCP", 83),
        HostPort("0.0.0.0", "TCP", 80),
        HostPort("10.0.0.1", "UDP", 81),
    )


@pytest.mark.parametrize(
    ("used", "wanted", "expected"),
    [
        (("", "TCP", 8001), ("127.0.0.1", "TCP", 8001), True),
        (("127.0.0.1", "TCP", 8001), ("", "", 8001), True),
        (("127.0.0.1", "TCP", 8001), ("10.0.0.1", "TCP", 8001), False),
        (("127.0.0.1", "TCP", 8001), ("127.0.0.1", "TCP", 8001), True),
        (("", "TCP", 8001), ("", "UDP", 8001), False),
        (("", "TCP", 8001), ("", "TCP", 8002), False),
        (("::", "TCP", 8001), ("::1", "TCP", 8001), False),
        (("::", "TCP", 8001), ("", "TCP", 8001), True),
    ],
)
def test_port_conflicts(
    used: tuple[str, str, int], wanted: tuple[str, str, int], *, expected: bool
) -> None:
    taken, wanted_port = host_port(*used), host_port(*wanted)
    assert taken is not None
    assert wanted_port is not None
    assert conflicts({taken}, wanted_port) is expected
    assert not conflicts((), wanted_port)


def test_a_port_without_a_host_port_claims_nothing() -> None:
    assert host_port("", "", 0) is None
    assert host_port("", "", -1) is None


@pytest.mark.parametrize(
    ("reference", "name"),
    [
        ("nginx", "nginx:latest"),
        ("nginx:1.2", "nginx:1.2"),
        ("host:5000/app", "host:5000/app:latest"),
        ("host:5000/app:v1", "host:5000/app:v1"),
        ("app@sha256:0123", "app@sha256:0123"),
    ],
)
def test_image_names_get_a_tag_and_nothing_else(reference: str, name: str) -> None:
    assert normalized_image(reference) == name


def test_the_images_of_a_pod_are_those_of_containers_and_volumes() -> None:
    subject = pod(
        {
            "initContainers": [container("i", image="init")],
            "containers": [container("a", image="app"), container("b", image="app")],
            "volumes": [{"name": "v", "image": {"reference": "data:1"}}, {"name": "w"}],
        }
    )
    expected = ("init:latest", "app:latest", "app:latest", "data:1")
    assert pod_images(subject.spec) == expected


@pytest.mark.parametrize(
    ("name", "scalar", "extended"),
    [
        ("cpu", False, False),
        ("storage", False, False),
        ("example.com/gpu", True, True),
        ("kubernetes.io/foo", True, False),
        ("x.kubernetes.io/foo", True, False),
        ("hugepages-2Mi", True, False),
        ("attachable-volumes-csi-x", True, False),
        ("requests.example.com/gpu", False, False),
        ("example.com/", False, False),
        ("Example.com/gpu", False, False),
    ],
)
def test_which_resource_names_count(name: str, *, scalar: bool, extended: bool) -> None:
    assert bool(scalar_resource_names([name])) is scalar
    assert is_extended_resource_name(name) is extended


def test_names_have_bounded_length() -> None:
    assert is_qualified_name("x" * 63)
    assert not is_qualified_name("x" * 64)
    assert not is_qualified_name("a." * 130 + "a/x")
    assert not is_qualified_name("/x")
    assert is_label_value("x" * 63)
    assert not is_label_value("x" * 64)
    assert not is_label_value("x\n")
