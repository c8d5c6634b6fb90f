"""Arguments of DynamicResources."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

from plugins.arguments import Arguments
from scheduler.framework.field_errors import invalid


class DynamicResourcesArgs(Arguments):
    """Arguments of DynamicResources."""

    filter_timeout: dt.timedelta = dt.timedelta(seconds=10)
    """Maximum time to search for devices in one attempt, on all nodes together; 0 means no limit.
    Default 10s, as upstream, where the limit is per node."""

    binding_timeout: dt.timedelta = dt.timedelta(seconds=600)
    """Maximum wait for devices to become ready before binding. Default 600s, as upstream."""


def argument_problems(args: DynamicResourcesArgs) -> Iterator[tuple[str, str]]:
    """Yield (field, error) unless timeouts are non-negative, and at least 1 s for binding."""
    if args.filter_timeout < dt.timedelta():
        yield "filterTimeout", invalid(_shown(args.filter_timeout), "must be zero or positive")
    if args.binding_timeout < dt.timedelta(seconds=1):
        yield "bindingTimeout", invalid(_shown(args.binding_timeout), "must be at least 1 second")


def _shown(duration: dt.timedelta) -> str:
    return f"{duration.total_seconds():g}s"
