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

    assemble_for: dt.timedelta = dt.timedelta(milliseconds=500)
    """Time without a new member after which a group that requires a topology domain is tried for
    the first time, so that the domain has room for members beyond the minimum, too; four times as
    long at most. 0s: at once. Default 500ms: controllers create the pods of a Job in less."""

    reserve_after: dt.timedelta = dt.timedelta(minutes=1)
    """Time of failing attempts after which nodes are kept for a group, so that smaller pods do not
    starve it; one group of a profile at a time. 0s: never. Default 1m: it costs less if it begins
    before many groups wait, and at first little room is kept that is not free already."""

    reserve_for: dt.timedelta = dt.timedelta(minutes=15)
    """Longest time for which nodes are kept for one group; after it there is a pause of the same
    length for all groups of the profile. 0s: never. Default 15m."""

    group_share: float = 0.5
    """Part of the time that scheduling cycles of groups take at most while single pods can be
    tried: after a cycle single pods go first, whatever their priority, until this holds. Above 0;
    1 is no limit. Default 0.5: a large group takes about 60 ms, which single pods then have too."""


def argument_problems(args: GangSchedulingArgs) -> Iterator[tuple[str, str]]:
    """Require times that are not negative, and a share that is a part of the time."""
    if not 0 < args.group_share <= 1:
        yield "groupShare", invalid(args.group_share, "must be above 0 and at most 1")
    times = {
        "assembleFor": args.assemble_for,
        "reserveAfter": args.reserve_after,
        "reserveFor": args.reserve_for,
    }
    for name, value in times.items():
        if value < dt.timedelta():
            yield name, invalid(f"{value.total_seconds():g}s", "must be zero or positive")
