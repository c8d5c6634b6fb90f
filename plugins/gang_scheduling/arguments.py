"""Arguments of GangScheduling."""

from __future__ import annotations

from plugins.arguments import Arguments


class GangSchedulingArgs(Arguments):
    """Arguments of GangScheduling."""

    write_status: bool = True
    """Whether the status of PodGroups is written: phase and counts of the custom resource, unless
    another controller writes them, and conditions of the built-in one. Default: true."""
