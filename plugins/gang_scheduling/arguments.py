"""Arguments of GangScheduling."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

from plugins.arguments import Arguments
from scheduler.framework.field_errors import invalid


class GangSchedulingArgs(Arguments):
    """Arguments of GangScheduling."""

    write_status: bool = True
    """Whether the status of PodGroups is written: phase and counts of the custom resource, unless
    another controller writes them, and conditions of the built-in one. Default: true."""

    reserve_after: dt.timedelta = dt.timedelta(minutes=5)
    """Time of failing attempts after which nodes are kept for a group, so that smaller pods do not
    starve it; one group of a profile at a time. 0s: never. Default 5m: most waits for room are
    shorter, and other pods lose room by it."""

    reserve_for: dt.timedelta = dt.timedelta(minutes=15)
    """Longest time for which nodes are kept for one group; after it there is a pause of the same
    length for all groups of the profile. 0s: never. Default 15m."""


def argument_problems(args: GangSchedulingArgs) -> Iterator[tuple[str, str]]:
    """Require times that are not negative."""
    for name, value in (("reserveAfter", args.reserve_after), ("reserveFor", args.reserve_for)):
        if value < dt.timedelta():
            yield name, invalid(f"{value.total_seconds():g}s", "must be zero or positive")
