"""Check of the CEL expressions of objects to try: an API server would refuse some of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from scheduler.api.devices import DeviceClass, DeviceSelector, ResourceClaim, ResourceClaimTemplate
from scheduler.cel import CompileError, check_storable
from scheduler.explain.what_if.changes import ChangeError

MAX_BYTES: Final = 4096
"""Bytes of all expressions of an object. They are compiled in one slice, some 40 ms at most."""


def check_expressions(item: Any, where: str) -> None:
    """Raise ChangeError for an object whose expressions would not be stored, or compile long."""
    found = [(path, each.cel.expression) for path, each in _selectors(item) if each.cel is not None]
    size = sum(len(expression.encode(errors="surrogatepass")) for _, expression in found)
    if size > MAX_BYTES:
        raise ChangeError(
            f"{where}: the expressions have {size} bytes; one with more than {MAX_BYTES} cannot "
            "be tried here; use an offline world (docs/simulate.md)"
        )
    for path, expression in found:
        try:
            check_storable(expression)
        except CompileError as error:
            raise ChangeError(f"{where}: {path}.cel.expression: {error}") from None


def _selectors(item: Any) -> Iterator[tuple[str, DeviceSelector]]:
    """Yield all selectors with their paths."""
    if isinstance(item, DeviceClass):
        yield from _numbered("spec.selectors", item.spec.selectors)
        return
    path = "spec.devices.requests"
    if isinstance(item, ResourceClaim):
        spec = item.spec
    elif isinstance(item, ResourceClaimTemplate):
        spec, path = item.spec.spec, f"spec.{path}"
    else:
        return
    for number, request in enumerate(spec.devices.requests):
        if request.exactly is not None:
            at = f"{path}[{number}].exactly.selectors"
            yield from _numbered(at, request.exactly.selectors)
        for position, alternative in enumerate(request.first_available):
            at = f"{path}[{number}].firstAvailable[{position}].selectors"
            yield from _numbered(at, alternative.selectors)


def _numbered(
    path: str, selectors: tuple[DeviceSelector, ...]
) -> Iterator[tuple[str, DeviceSelector]]:
    for number, each in enumerate(selectors):
        yield f"{path}[{number}]", each
