"""Grammar of deferred keys, the alias annotation, and which built-in names count compute."""

from __future__ import annotations

import json

import pytest

from plugins.resource_quota.keys import (
    ALIAS_ANNOTATION,
    PREFIX,
    InvalidKeyError,
    human,
    is_native_compute,
    key_for,
    parse_key,
    read_limits,
)
from scheduler.api.quantity import NANO, parse


@pytest.mark.parametrize(
    ("written", "name", "value", "amount"),
    [
        ("requests.cpu-millis", "requests.cpu", "10k", "10"),
        ("limits.cpu-millis", "limits.cpu", "1500", "1500m"),
        ("requests.memory", "requests.memory", "64Gi", "64Gi"),
        ("requests.ephemeral-storage", "requests.ephemeral-storage", "1G", "1G"),
        ("limits.memory", "limits.memory", "1", "1"),
        ("requests.hugepages-2Mi", "requests.hugepages-2Mi", "2Gi", "2Gi"),
        ("requests.nvidia.com_gpu", "requests.nvidia.com/gpu", "8", "8"),
        ("requests.example.com_a_b", "requests.example.com/a_b", "8", "8"),
        (
            "requests.deviceclass.resource.kubernetes.io_gpu",
            "requests.deviceclass.resource.kubernetes.io/gpu",
            "2",
            "2",
        ),
    ],
)
def test_a_key_has_upstreams_name_and_an_exact_amount(
    written: str, name: str, value: str, amount: str
) -> None:
    limits = read_limits({PREFIX + written: value, "pods": "3", "requests.cpu": "1"})
    assert [(key.name, nano) for key, nano in limits.hard.items()] == [(name, parse(amount).nano)]
    assert limits.invalid == ()
    assert key_for(name).key == PREFIX + written


@pytest.mark.parametrize(
    ("written", "value", "reason"),
    [
        ("requests.cpu", "2", "requests.cpu-millis"),
        ("requests.memory-millis", "2", "unknown resource 'memory-millis'"),
        ("requests.storage", "1Ti", "unknown resource 'storage'"),
        ("pods", "3", "only compute can be deferred"),
        ("count_pods", "3", "only compute can be deferred"),
        ("requests.gpu", "3", "unknown resource 'gpu'"),
        ("requests.hugepages-big", "3", "unknown resource 'hugepages-big'"),
        ("requests.cpu-millis", "1500m", "whole number"),
        ("requests.cpu-millis", "1.5", "thousandths of a core"),
        ("requests.memory", "-1", "0 or more"),
        ("requests.memory", "lots", "not a quantity"),
    ],
)
def test_a_key_that_cannot_be_read_is_a_finding_and_takes_nothing_with_it(
    written: str, value: str, reason: str
) -> None:
    limits = read_limits({PREFIX + written: value, PREFIX + "requests.nvidia.com_gpu": "8"})
    assert [key.name for key in limits.hard] == ["requests.nvidia.com/gpu"]
    assert [each.key for each in limits.invalid] == [PREFIX + written]
    assert reason in str(limits.invalid[0])


def test_b51_a_long_name_goes_through_the_alias_annotation() -> None:
    long = f"requests.{'very-' * 10}long.example.com/accelerator"
    with pytest.raises(InvalidKeyError, match="alias"):
        key_for(long)
    aliases = json.dumps({"fast": long, "cores": "requests.cpu-millis"})
    hard = {PREFIX + "fast": "4", PREFIX + "cores": "2000"}
    limits = read_limits(hard, {ALIAS_ANNOTATION: aliases})
    assert {key.name: nano for key, nano in limits.hard.items()} == {
        long: 4 * NANO,
        "requests.cpu": 2 * NANO,
    }


@pytest.mark.parametrize("text", ["{", "[]", '{"fast": 3}'])
def test_a_broken_alias_annotation_is_a_finding(text: str) -> None:
    limits = read_limits({PREFIX + "requests.memory": "1"}, {ALIAS_ANNOTATION: text})
    assert len(limits.hard) == 1
    assert [each.key for each in limits.invalid] == [ALIAS_ANNOTATION]


def test_an_alias_of_something_strict_is_a_finding() -> None:
    limits = read_limits({PREFIX + "a": "1"}, {ALIAS_ANNOTATION: '{"a": "count/pods"}'})
    assert not limits.hard
    assert "only compute" in str(limits.invalid[0])


@pytest.mark.parametrize(
    ("name", "compute"),
    [
        *((name, True) for name in ("cpu", "memory", "ephemeral-storage")),
        *(
            (f"{kind}.{name}", True)
            for kind in ("requests", "limits")
            for name in ("cpu", "memory")
        ),
        ("requests.ephemeral-storage", True),
        ("limits.ephemeral-storage", True),
        ("hugepages-2Mi", True),
        ("requests.hugepages-1Gi", True),
        ("requests.nvidia.com/gpu", True),
        ("requests.deviceclass.resource.kubernetes.io/gpu", True),
        ("nvidia.com/gpu", False),
        ("limits.nvidia.com/gpu", False),
        ("pods", False),
        ("count/pods", False),
        ("services", False),
        ("services.loadbalancers", False),
        ("persistentvolumeclaims", False),
        ("requests.storage", False),
        ("gold.storageclass.storage.k8s.io/requests.storage", False),
        ("gpu.deviceclass.resource.k8s.io/devices", False),
        ("gold.volumeattributesclass.storage.k8s.io/requests.storage", False),
        ("deferred.kubestow.io/requests.memory", False),
        ("configmaps", False),
        ("resourcequotas", False),
    ],
)
def test_b12_which_built_in_names_count_compute(name: str, compute: bool) -> None:
    assert is_native_compute(name) is compute


@pytest.mark.parametrize(
    ("key", "used", "published"),
    [
        ("requests.cpu-millis", "1.5", "1500"),
        ("requests.cpu-millis", "1500001u", "1501"),
        ("requests.memory", "1Gi", str(1 << 30)),
        ("requests.memory", "100m", "1"),
        ("requests.nvidia.com_gpu", "0", "0"),
    ],
)
def test_published_amounts_are_whole_numbers_rounded_up(
    key: str, used: str, published: str
) -> None:
    assert parse_key(PREFIX + key).published(parse(used).nano) == published


@pytest.mark.parametrize(
    ("name", "amount", "text"),
    [
        ("requests.cpu", "1500m", "1500m"),
        ("requests.cpu", "10", "10"),
        ("requests.cpu", "1024", "1024"),
        ("requests.memory", "64Gi", "64Gi"),
        ("requests.memory", "1G", "1G"),
        ("requests.memory", "0", "0"),
        ("requests.memory", "100m", "100m"),
        ("requests.nvidia.com/gpu", "8", "8"),
    ],
)
def test_amounts_are_written_for_people(name: str, amount: str, text: str) -> None:
    assert human(name, parse(amount).nano) == text
