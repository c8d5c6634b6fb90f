"""The profiles of a shadow: those of a configuration, under the scheduler names that it follows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import msgspec

from config import Configuration, ResolvedProfile
from scheduler.framework import ConfigurationError


def following(configuration: Configuration, names: Sequence[str]) -> Configuration:
    """Return the configuration with one profile for each of `names`, and no Lease.

    A profile with the name serves if there is one, and otherwise the only profile.

    Raises:
        ConfigurationError: several profiles could be meant.
    """
    unique = tuple(dict.fromkeys(names))
    profiles = tuple(_profiles(configuration.profiles, unique))
    election = msgspec.structs.replace(configuration.effective.leader_election, leader_elect=False)
    effective = msgspec.structs.replace(configuration.effective, leader_election=election)
    return replace(configuration, profiles=profiles, effective=effective)


def _profiles(profiles: Sequence[ResolvedProfile], names: Iterable[str]) -> list[ResolvedProfile]:
    known = {each.scheduler_name: each for each in profiles}
    found, problems = [], []
    for name in names:
        if name in known:
            found.append(known[name])
        elif len(profiles) == 1:
            found.append(replace(profiles[0], scheduler_name=name))
        else:
            problems.append(
                f"profiles: none is named {name}, and there are {len(profiles)}: "
                f"{', '.join(known)}; rename one, or follow other names with --of"
            )
    if problems:
        raise ConfigurationError(problems)
    return found
