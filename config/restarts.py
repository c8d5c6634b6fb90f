"""The keys of another configuration that a running process cannot take over.

Everything that is not listed as reloadable needs a restart, so that a new field is never taken over
by halves.
"""

from __future__ import annotations

from typing import Final

from config.differences import differences
from config.loading import Configuration

RELOADABLE: Final = (
    "profiles",
    "percentageOfNodesToScore",
    "podInitialBackoffSeconds",
    "podMaxBackoffSeconds",
    "extenders",
    "kubestow.pluginTimeBudget",
    "kubestow.decisionHistory",
    # Without effect at any time.
    "parallelism",
    "enableContentionProfiling",
)
"""Paths whose values, and all that is below them, are taken over without a restart."""


def needing_restart(in_force: Configuration, following: Configuration) -> list[str]:
    """Return the paths that differ and need a restart, in the order of the file."""
    return [each.path for each in differences(in_force, following) if not _reloadable(each.path)]


def _reloadable(path: str) -> bool:
    return any(path == each or path.startswith((f"{each}.", f"{each}[")) for each in RELOADABLE)
