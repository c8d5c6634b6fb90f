"""Names in a quota's `hard`: deferred keys, and built-in names that count compute.

A deferred key is an entry of a stock ResourceQuota, where the API server ignores it:

    deferred.kubestow.io/requests.cpu-millis: 10k          # integer, thousandths of a core
    deferred.kubestow.io/requests.memory: 64Gi
    deferred.kubestow.io/requests.nvidia.com_gpu: "8"      # the first "_" stands for "/"

For names that are too long for a key there is the annotation `kubestow.io/deferred-keys`, a JSON
object of `alias: key without the prefix`, in which names are written in full.

Invariant: an invalid key is reported and ignored; the other keys of the quota count.
Amounts are exact integers in billionths (`scheduler.api.quantity.NANO`), never floats.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from scheduler.api.meta import RawQuantity
from scheduler.api.quantity import NANO, Format, Quantity, QuantityError, parse
from scheduler.api.requests import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    is_extended_resource_name,
)
from scheduler.sanitizing.names import is_qualified_name

PREFIX: Final = "deferred.kubestow.io/"
"""Domain of deferred keys, with the slash."""
ALIAS_ANNOTATION: Final = "kubestow.io/deferred-keys"
"""Annotation of a quota: `{"alias": "requests.very.long/name"}`."""

REQUESTS: Final = "requests."
LIMITS: Final = "limits."
HUGE_PAGES: Final = "hugepages-"
_MILLIS: Final = "-millis"
DEVICE_CLASS: Final = "deviceclass.resource.kubernetes.io/"
_BASIC: Final = (CPU, MEMORY, EPHEMERAL_STORAGE)
_NATIVE: Final = frozenset(
    (*_BASIC, *(kind + name for kind in (REQUESTS, LIMITS) for name in _BASIC))
)


class InvalidKeyError(ValueError):
    """A deferred key that cannot be used; the text gives the reason and what to write instead."""


@dataclass(frozen=True, slots=True)
class DeferredKey:
    """A parsed deferred key."""

    key: str
    """The key in the quota, including the prefix."""
    name: str
    """Upstream's quota name, e.g. `requests.cpu`, `requests.nvidia.com/gpu`."""
    unit: int
    """The number of billionths that a value of 1 stands for."""

    def amount(self, raw: RawQuantity) -> int:
        """Return a value of the key in billionths.

        Raises InvalidKeyError unless it is a whole number, 0 or more.
        """
        try:
            quantity = parse(raw)
        except QuantityError as error:
            raise InvalidKeyError(f"{raw!r} is not a quantity: {error}") from error
        if quantity.nano < 0 or quantity.nano % NANO:
            hint = "; write thousandths of a core, e.g. 1500 for 1.5 cores"
            msg = f"{raw!r} must be a whole number, 0 or more"
            raise InvalidKeyError(msg + (hint if self.name.endswith(".cpu") else ""))
        return quantity.nano // NANO * self.unit

    def published(self, nano: int) -> str:
        """Return an amount as a value of the key: a plain integer, rounded up.

        >>> parse_key("deferred.kubestow.io/requests.cpu-millis").published(1_500_000_000)
        '1500'
        """
        return str(-(-nano // self.unit))


@dataclass(frozen=True, slots=True)
class InvalidKey:
    """An entry of `hard` (or the alias annotation) that is ignored, and the reason."""

    key: str
    reason: str

    def __str__(self) -> str:
        return f"{self.key}: {self.reason}"


@dataclass(frozen=True, slots=True)
class DeferredLimits:
    """The limits by deferred keys of one quota."""

    hard: Mapping[DeferredKey, int]
    """Limits in billionths, in the order of the key."""
    invalid: tuple[InvalidKey, ...]


def parse_key(key: str) -> DeferredKey:
    """Parse a deferred key, including the prefix. Raises InvalidKeyError.

    >>> parse_key("deferred.kubestow.io/requests.nvidia.com_gpu").name
    'requests.nvidia.com/gpu'
    """
    if not key.startswith(PREFIX):
        msg = f"does not begin with {PREFIX}"
        raise InvalidKeyError(msg)
    name, unit = _read_name(key.removeprefix(PREFIX).replace("_", "/", 1))
    return DeferredKey(key, name, unit)


def key_for(name: str) -> DeferredKey:
    """Return the deferred key for a compute name such as `requests.cpu` or `limits.memory`.

    Raises InvalidKeyError if it is not a compute name, or if it is too long for a key and so needs
    an alias (`alias_key`).

    >>> key_for("requests.cpu").key, key_for("requests.nvidia.com/gpu").key
    ('deferred.kubestow.io/requests.cpu-millis', 'deferred.kubestow.io/requests.nvidia.com_gpu')
    """
    plain = REQUESTS + name if name in _BASIC or name.startswith(HUGE_PAGES) else name
    spelt = plain + _MILLIS if plain in (REQUESTS + CPU, LIMITS + CPU) else plain
    _, unit = _read_name(spelt)
    key = PREFIX + spelt.replace("/", "_", 1)
    if not is_qualified_name(key):
        msg = f"{name}: too long for a key; use an alias in annotation {ALIAS_ANNOTATION}"
        raise InvalidKeyError(msg)
    return DeferredKey(key, plain, unit)


def alias_key(alias: str, name: str) -> DeferredKey:
    """Return the key for an alias. Raises InvalidKeyError.

    `name` is the value in the annotation: written in full (`/`, not `_`), CPU with `-millis`.
    """
    plain, unit = _read_name(name)
    return DeferredKey(PREFIX + alias, plain, unit)


def read_limits(
    hard: Mapping[str, RawQuantity], annotations: Mapping[str, str] | None = None
) -> DeferredLimits:
    """Read the deferred limits of a quota, and its invalid entries; other keys are skipped.

    >>> limits = read_limits({"pods": "5", "deferred.kubestow.io/requests.cpu": "2"})
    >>> limits.hard, limits.invalid[0].key
    ({}, 'deferred.kubestow.io/requests.cpu')
    """
    invalid: list[InvalidKey] = []
    aliases = _aliases(annotations or {}, invalid)
    found: dict[DeferredKey, int] = {}
    for key in sorted(hard):
        if not key.startswith(PREFIX):
            continue
        alias = key.removeprefix(PREFIX)
        try:
            read = alias_key(alias, aliases[alias]) if alias in aliases else parse_key(key)
            found[read] = read.amount(hard[key])
        except InvalidKeyError as error:
            invalid.append(InvalidKey(key, str(error)))
    return DeferredLimits(found, tuple(invalid))


def is_native_compute(name: str) -> bool:
    """Whether a built-in quota name counts compute, which KEP-5465 defers.

    >>> [is_native_compute(name) for name in ("requests.cpu", "requests.storage", "pods")]
    [True, False, False]
    """
    if name in _NATIVE:
        return True
    if name.startswith(LIMITS):
        return False
    resource = name.removeprefix(REQUESTS)
    if resource.startswith(HUGE_PAGES):
        return True
    return resource != name and is_quota_extended(resource)


def is_quota_extended(resource: str) -> bool:
    """Whether quota counts a resource as extended, which means only under `requests.`."""
    return is_extended_resource_name(resource) or (
        resource.startswith(DEVICE_CLASS) and is_qualified_name(resource)
    )


def human(name: str, nano: int) -> str:
    """Return a human-readable amount, in the shortest canonical form.

    >>> human("requests.cpu", 1_500_000_000), human("requests.memory", 64 * 2**30 * 10**9)
    ('1500m', '64Gi')
    """
    decimal = Quantity(nano).canonical()
    if nano % NANO or name.endswith(CPU):
        return decimal
    binary = Quantity(nano, Format.BINARY_SI).canonical()
    return decimal if len(decimal) < len(binary) else binary


def _read_name(spelt: str) -> tuple[str, int]:
    """Return (upstream's quota name, billionths per unit) of a key without prefix, `_` replaced."""
    kind = next((kind for kind in (REQUESTS, LIMITS) if spelt.startswith(kind)), None)
    if kind is None:
        msg = 'only compute can be deferred: write "requests." or "limits." and a resource'
        raise InvalidKeyError(msg)
    resource = spelt.removeprefix(kind)
    if resource == CPU:
        msg = f"CPU is counted in thousandths here: write {kind}cpu{_MILLIS}"
        raise InvalidKeyError(msg)
    if resource == CPU + _MILLIS:
        return kind + CPU, NANO // 1000
    if not _is_deferrable(resource):
        msg = f"unknown resource {resource!r}: write cpu{_MILLIS}, memory, ephemeral-storage, "
        msg += "hugepages-SIZE or VENDOR_NAME"
        raise InvalidKeyError(msg)
    return kind + resource, NANO


def _is_deferrable(resource: str) -> bool:
    if resource.startswith(HUGE_PAGES):
        try:
            return parse(resource.removeprefix(HUGE_PAGES)).nano > 0
        except QuantityError:
            return False
    return resource in _BASIC or is_quota_extended(resource)


def _aliases(annotations: Mapping[str, str], invalid: list[InvalidKey]) -> dict[str, str]:
    text = annotations.get(ALIAS_ANNOTATION)
    if not text:
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, str])
    except msgspec.DecodeError as error:
        reason = f'must be a JSON object like {{"alias": "requests.very.long/name"}}: {error}'
        invalid.append(InvalidKey(ALIAS_ANNOTATION, reason))
        return {}
