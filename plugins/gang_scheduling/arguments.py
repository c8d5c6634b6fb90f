"""Arguments of GangScheduling."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Literal

from plugins.arguments import Arguments
from scheduler.framework.field_errors import invalid


class GangSchedulingArgs(Arguments):
    """Arguments of GangScheduling."""

    pod_group_status: Literal["Auto", "Always", "Never"] = "Auto"
    """Whether the status of PodGroups is written: phase and counts of the custom resource, and
    conditions of the built-in one. `Auto` (default) leaves custom resources alone whose status
    another manager has written, since two writers would overwrite each other. `Always` takes these
    over, once the other controller is stopped. `Never` writes none."""

    assemble_for: dt.timedelta = dt.timedelta(milliseconds=500)
    """Time without a new member after which a group that requires a topology domain is tried for
    the first time, so that the domain has room for members beyond the minimum as well; the wait is
    at most four times as long. 0s: no wait. Default 500ms, in which controllers create the pods of
    a Job."""

    reserve_after: dt.timedelta = dt.timedelta(minutes=1)
    """Time of failed attempts after which nodes are reserved for a group, so that smaller pods do
    not starve it; for one group of a profile at a time. 0s: never. Default 1m: a reservation costs
    less before many groups wait, and at first it holds little room that is not free already."""

    reserve_for: dt.timedelta = dt.timedelta(minutes=15)
    """Maximum time for which nodes are reserved for one group, followed by a pause of the same
    length for all groups of the profile. 0s: no reservations. Default 15m."""

    group_share: float = 0.5
    """Maximum fraction of the time that scheduling cycles of groups take while single pods can be
    tried: after a group cycle single pods of any priority go first until this holds. Above 0; 1
    means no limit. Default 0.5: after a large group, which takes about 60 ms, single pods get as
    much."""


def argument_problems(args: GangSchedulingArgs) -> Iterator[tuple[str, str]]:
    """Yield (field, error) unless times are non-negative and the share is above 0 and at most 1."""
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
