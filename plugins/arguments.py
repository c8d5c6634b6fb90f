"""Declaration and validation of plugin arguments.

A plugin class names its arguments' Struct in `args_type` and may have a static method
`validate_args`, which the configuration calls with decoded arguments so that every problem is
reported at once with its YAML path. A plugin's constructor calls it again (`require_valid`),
because plugins can also be built without a configuration.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from scheduler.framework import ConfigurationError


class Arguments(
    msgspec.Struct, rename="camel", kw_only=True, forbid_unknown_fields=True, omit_defaults=False
):
    """Base of argument Structs: camelCase in YAML, unknown fields rejected.

    Defaults that depend on other fields are filled in `__post_init__`.
    """


class ArgumentProblem(NamedTuple):
    """One reason why arguments cannot be used; unpacks as `(path, message)`."""

    path: str
    """Below the plugin's `args`, e.g. `scoringStrategy.resources[0].weight`; "" for the whole."""

    message: str
    """In upstream's form, e.g. `Invalid value: 101: not in valid range [0, 100]`."""


def invalid(path: str, value: object, detail: str) -> ArgumentProblem:
    """A value that is present but wrong."""
    shown = f'"{value}"' if isinstance(value, str) else str(value)
    return ArgumentProblem(path, f"Invalid value: {shown}: {detail}")


def required(path: str, detail: str) -> ArgumentProblem:
    """A value that is missing."""
    return ArgumentProblem(path, f"Required value: {detail}")


def forbidden(path: str, detail: str) -> ArgumentProblem:
    """A value that must not be present."""
    return ArgumentProblem(path, f"Forbidden: {detail}")


def duplicate(path: str, value: str) -> ArgumentProblem:
    """A value that was given before."""
    return ArgumentProblem(path, f'Duplicate value: "{value}"')


def unsupported(path: str, value: str, known: Iterable[str]) -> ArgumentProblem:
    """A value that is none of the known ones."""
    listed = ", ".join(f'"{each}"' for each in known)
    return ArgumentProblem(path, f'Unsupported value: "{value}": supported values: {listed}')


def require_valid(problems: Iterable[tuple[str, str]]) -> None:
    """Raise one ConfigurationError that lists every problem, or return."""
    lines = list(_lines(problems))
    if lines:
        raise ConfigurationError(lines)


def _lines(problems: Iterable[tuple[str, str]]) -> Iterator[str]:
    for path, message in problems:
        yield f"{path}: {message}" if path else message
