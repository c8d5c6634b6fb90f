"""Declaration and validation of plugin arguments.

A plugin class names its arguments' Struct in `args_type` and may have a static method
`validate_args`, which yields (path below `args`, message in upstream's form) for every problem. The
configuration calls it with decoded arguments and reports all problems at once with their YAML
paths. A plugin's constructor calls it again (`require_valid`), because plugins can also be built
without a configuration.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from scheduler.framework import ConfigurationError


class Arguments(
    msgspec.Struct, rename="camel", kw_only=True, forbid_unknown_fields=True, omit_defaults=False
):
    """Base of argument Structs: camelCase in YAML, unknown fields rejected.

    Defaults that depend on other fields are filled in `__post_init__`.
    """


def require_valid(problems: Iterable[tuple[str, str]]) -> None:
    """Raise one ConfigurationError that lists every problem, or return."""
    lines = [f"{path}: {message}" if path else message for path, message in problems]
    if lines:
        raise ConfigurationError(lines)
