"""Hostile claims, templates, classes and slices of dynamic resource allocation.

The API server limits lists to 32 entries, devices of a slice to 128, and an expression to 10 KiB.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from devtools.hostile.case import Dimension, HostileCase, JsonObject, Verdict
from devtools.hostile.cluster_cases import counted, odd
from devtools.hostile.parts import ODD_TEXTS, QUANTITIES, text
from devtools.hostile.templates import (
    device_class,
    device_request,
    resource_claim,
    resource_claim_template,
    resource_slice,
)

CLAIMS: Final = "resourceclaims"
CLASSES: Final = "deviceclasses"
SLICES: Final = "resourceslices"
TEMPLATES: Final = "resourceclaimtemplates"

LIST: Final = 32
"""Entries that the API server allows in the lists of claims and classes."""

EXPRESSION_BYTES: Final = 10 * 1024


def device_cases() -> Iterator[HostileCase]:
    """Objects of `resource.k8s.io` that are extreme in their spec."""
    yield counted(CLAIMS, "requests", LIST, _requests, small=8)
    yield counted(CLAIMS, "constraints", LIST, _constraints, small=8)
    yield counted(CLAIMS, "selectors", LIST, _claim_selectors, small=8)
    yield counted(CLASSES, "selectors", LIST, _class_selectors, small=8)
    yield counted(TEMPLATES, "requests", LIST, _template_requests, small=8)
    yield counted(SLICES, "devices", 128, _devices, small=16)
    yield counted(SLICES, "attributes", LIST, _attributes, small=8)
    for plural, make in ((CLAIMS, _long_claim), (CLASSES, _long_class)):
        yield HostileCase(
            name=f"{plural}-expression-long",
            plural=plural,
            dimension=Dimension.SIZE,
            make=make,
            unit="bytes",
            small=1_000,
            full=EXPRESSION_BYTES,
        )
    for name, amount in QUANTITIES.items():
        yield odd(SLICES, f"capacity-{name}", Dimension.NUMBERS, _capacity(amount))
    for name, escapes in ODD_TEXTS.items():
        yield odd(CLASSES, f"parameters-{name}", Dimension.TEXT, _parameters(escapes))
    yield from _numbers()
    yield from _types()


def _requests(size: int, serial: int) -> JsonObject:
    return resource_claim(f"odd-{serial:06d}", requests=_many_requests(size))


def _template_requests(size: int, serial: int) -> JsonObject:
    return resource_claim_template(f"odd-{serial:06d}", requests=_many_requests(size))


def _many_requests(size: int) -> list[JsonObject]:
    return [device_request(f"r{number}") for number in range(size)]


def _constraints(size: int, serial: int) -> JsonObject:
    constraints = [{"matchAttribute": f"hostile.example/a{number}"} for number in range(size)]
    return resource_claim(f"odd-{serial:06d}", constraints=constraints)


def _selectors(size: int) -> list[JsonObject]:
    found = f'device.attributes["hostile.example"].exists(a, a != "{"x" * 50}")'
    return [{"cel": {"expression": f"{found} && {number} > 0"}} for number in range(size)]


def _claim_selectors(size: int, serial: int) -> JsonObject:
    requests = [device_request("r", selectors=_selectors(size))]
    return resource_claim(f"odd-{serial:06d}", requests=requests)


def _class_selectors(size: int, serial: int) -> JsonObject:
    return device_class(f"odd-{serial:06d}", selectors=_selectors(size))


def _expression(size: int) -> list[JsonObject]:
    head = 'device.driver == "'
    return [{"cel": {"expression": f'{head}{"x" * (size - len(head) - 1)}"'}}]


def _long_claim(size: int, serial: int) -> JsonObject:
    requests = [device_request("r", selectors=_expression(size))]
    return resource_claim(f"odd-{serial:06d}", requests=requests)


def _long_class(size: int, serial: int) -> JsonObject:
    return device_class(f"odd-{serial:06d}", selectors=_expression(size))


def _devices(size: int, serial: int) -> JsonObject:
    devices = [{"name": f"d{number}"} for number in range(size)]
    return resource_slice(f"odd-{serial:06d}", devices=devices)


def _attributes(size: int, serial: int) -> JsonObject:
    attributes = {f"a{number}": {"string": "x" * 64} for number in range(size)}
    return resource_slice(f"odd-{serial:06d}", devices=[{"name": "d", "attributes": attributes}])


def _capacity(amount: str) -> Callable[[str], JsonObject]:
    device = {"name": "d", "capacity": {"memory": {"value": amount}}}
    return lambda name: resource_slice(name, devices=[device])


def _parameters(escapes: str) -> Callable[[str], JsonObject]:
    opaque = {"driver": "hostile.example", "parameters": {"key": text(escapes)}}
    return lambda name: device_class(name, config=[{"opaque": opaque}])


def _numbers() -> Iterator[HostileCase]:
    def count_of(count: Any) -> Callable[[str], JsonObject]:
        return lambda name: resource_claim(name, requests=[device_request("r", count=count)])

    def generation(number: int) -> Callable[[str], JsonObject]:
        pool = {"name": "p", "generation": number, "resourceSliceCount": 1}
        return lambda name: resource_slice(name, pool=pool)

    largest = (1 << 63) - 1
    yield odd(CLAIMS, "count-max", Dimension.NUMBERS, count_of(largest))
    yield odd(CLAIMS, "count-negative", Dimension.NUMBERS, count_of(-1), Verdict.REFUSED)
    yield odd(CLAIMS, "count-beyond", Dimension.NUMBERS, count_of(1 << 64), Verdict.REFUSED)
    yield odd(CLAIMS, "count-text", Dimension.TYPES, count_of("many"), Verdict.REFUSED)
    yield odd(SLICES, "generation-max", Dimension.NUMBERS, generation(largest))
    yield odd(SLICES, "generation-beyond", Dimension.NUMBERS, generation(1 << 64), Verdict.REFUSED)


def _types() -> Iterator[HostileCase]:
    types = Dimension.TYPES
    yield odd(CLAIMS, "null-constraints", types, lambda n: resource_claim(n, constraints=None))
    yield odd(CLASSES, "null-selectors", types, lambda n: device_class(n, selectors=None))
    yield odd(SLICES, "null-devices", types, lambda n: resource_slice(n, devices=None))
