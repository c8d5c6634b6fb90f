"""Selection of devices by CEL expressions, compiled once and evaluated once per version of a slice.

A pool of 10,000 devices is evaluated once per expression, for any number of pods and nodes. Claims
may have unique expressions, so the caches are bounded, and evict the least recently used
expressions.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from sys import intern
from typing import Any, Final
from weakref import WeakKeyDictionary

from plugins.dynamic_resources.budget import EXPENSIVE_STEPS, Check
from plugins.dynamic_resources.devices import DeviceView, SliceView
from scheduler.cel import (
    CompileError,
    DeviceSelector,
    EvaluationCancelledError,
    EvaluationError,
    ParsedExpression,
    device_value,
)
from scheduler.sanitizing.cutting import cut

MAX_RESULTS: Final = 2_000_000
"""Maximum number of cached results of all expressions together, 8 bytes each."""
MAX_VALUES: Final = 16_384
"""Maximum number of devices whose CEL variable `device` is cached, 1 to 4 kB each."""
MAX_ERROR: Final = 1000
"""Maximum characters of an error, which may quote computed values of any length."""
MAX_EXPRESSIONS: Final = 2000
"""Maximum number of cached expressions, usually of 3 kB each."""
MAX_BYTES: Final = 24 << 20
"""Maximum bytes of all cached expressions; the longest take up to 2 MB each."""
_NO_KEY: Final = "no such key:"
_HOW_TO_GUARD: Final = (
    "consider using CEL optional chaining (.? followed by orValue()) or guarding the check with "
    "has() for optional fields"
)
"""`cel/errors.go: EnhanceRuntimeError`."""
_STEPS: Final = 8
"""Number of search steps that one evaluation counts as, apart from loops in the expression."""


class SelectorError(Exception):
    """An expression that cannot be compiled or evaluated; the text says which of the two."""

    def __init__(self, text: str, *, at_run_time: bool) -> None:
        """Create an error of compiling, or one of an evaluation for a device."""
        super().__init__(text)
        self.at_run_time = at_run_time


class _Results:
    """An expression and its results: a list per slice, with None for devices not yet evaluated."""

    __slots__ = ("error", "nbytes", "parsed", "selector", "slices")

    def __init__(self, expression: str) -> None:
        self.error = ""
        #: The expression until it is compiled.
        self.parsed: ParsedExpression | None = None
        self.selector: DeviceSelector | None = None
        self.slices: WeakKeyDictionary[SliceView, list[bool | str | None]] = WeakKeyDictionary()
        self.nbytes = len(expression)
        try:
            self.parsed = ParsedExpression(expression)
            self.nbytes = self.parsed.nbytes
        except CompileError as error:
            self.error = _compile_error(error)

    def compile(self, check: Check | None) -> None:
        """Go on where the attempt before ended; each step is begun only if `check` admits it."""
        assert self.parsed is not None
        try:
            while not self.parsed.advance(_expensive(check)):
                if check is not None:
                    check(_STEPS)
            if check is not None:
                check(_STEPS)
            self.selector = DeviceSelector(self.parsed, _expensive(check))
            self.nbytes = self.selector.nbytes
        except CompileError as error:
            self.error = _compile_error(error)
        self.parsed = None


class Selectors:
    """Evaluates expressions for devices, and caches the results."""

    def __init__(
        self,
        *,
        max_results: int = MAX_RESULTS,
        max_expressions: int = MAX_EXPRESSIONS,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._max_results = max_results
        self._max_expressions = max_expressions
        self._max_bytes = max_bytes
        self._expressions: OrderedDict[str, _Results] = OrderedDict()
        self._results = self._bytes = 0
        # The variable `device` of the devices of slices that were looked at last.
        self._values: OrderedDict[SliceView, list[dict[str, Any] | str | None]] = OrderedDict()
        self._valued_devices = 0
        #: Number of evaluations so far.
        self.evaluations = 0

    @property
    def cached_expressions(self) -> int:
        """Number of cached expressions."""
        return len(self._expressions)

    @property
    def cached_results(self) -> int:
        """Upper bound of the number of cached results."""
        return self._results

    def matches(self, expression: str, device: DeviceView, check: Check | None = None) -> bool:
        """Whether an expression selects a device.

        Raises `SelectorError` if the expression fails, and the exception by which `check` ends the
        evaluation.
        """
        results = self._of(expression, check)
        if results.selector is None:
            raise SelectorError(results.error, at_run_time=False)
        known = results.slices.get(device.slice)
        if known is None:
            known = results.slices[device.slice] = self._reserved(device.slice)
        result = known[device.position]
        if result is None:
            result = known[device.position] = self._evaluated(results.selector, device, check)
        if isinstance(result, str):
            raise SelectorError(result, at_run_time=True)
        return result

    def _of(self, expression: str, check: Check | None) -> _Results:
        results = self._expressions.get(expression)
        if results is not None:
            self._expressions.move_to_end(expression)
        else:
            if check is not None:
                check(_STEPS)
            results = self._expressions[expression] = _Results(expression)
            self._bytes += results.nbytes
            self._limit()
        if results.parsed is not None:
            before = results.nbytes
            results.compile(check)
            self._bytes += results.nbytes - before
            self._limit()
        return results

    def _limit(self) -> None:
        while len(self._expressions) > self._max_expressions or (
            self._bytes > self._max_bytes and len(self._expressions) > 1
        ):
            self._forget_oldest()

    def _reserved(self, view: SliceView) -> list[bool | str | None]:
        self._results += len(view.devices)
        if self._results > self._max_results:
            # Recount, since deleted slices took their results with them.
            self._results = len(view.devices) + sum(
                len(known) for each in self._expressions.values() for known in each.slices.values()
            )
            # Go well below the limit, so that the next slice does not cause another recount.
            while self._results > self._max_results * 3 // 4 and len(self._expressions) > 1:
                self._forget_oldest()
        return [None] * len(view.devices)

    def _forget_oldest(self) -> None:
        _, results = self._expressions.popitem(last=False)
        self._results -= sum(map(len, results.slices.values()))
        self._bytes -= results.nbytes

    def _evaluated(
        self, selector: DeviceSelector, device: DeviceView, check: Check | None
    ) -> bool | str:
        if check is not None:
            check(_STEPS)
        self.evaluations += 1
        try:
            value = self._value(device)
            return selector.matches(value, _expensive(check))
        except (EvaluationError, EvaluationCancelledError) as error:
            # Interned, since the error is usually the same for all devices.
            text = f"CEL runtime error: {error}"
            return intern(cut(f"{text}. {_HOW_TO_GUARD}" if _NO_KEY in text else text, MAX_ERROR))

    def _value(self, device: DeviceView) -> dict[str, Any]:
        values = self._values.get(device.slice)
        if values is None:
            values = self._values[device.slice] = [None] * len(device.slice.devices)
            self._valued_devices += len(values)
            while self._valued_devices > MAX_VALUES and len(self._values) > 1:
                self._valued_devices -= len(self._values.popitem(last=False)[1])
        value = values[device.position]
        if value is None:
            try:
                value = device_value(device.id.driver, device.spec)
            except EvaluationError as error:
                value = str(error)
            values[device.position] = value
        if isinstance(value, str):
            raise EvaluationError(value)
        return value


def _compile_error(error: CompileError) -> str:
    return cut(f"CEL compile error: {error}", MAX_ERROR)


def _expensive(check: Check | None) -> Callable[[], None] | None:
    """Return the check that an expression calls after each 2 ms."""
    return None if check is None else partial(check, EXPENSIVE_STEPS)
