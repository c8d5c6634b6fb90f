"""Remedies and their steps, as `kubestow explain` and the debug page show them.

Codes are stable: they name what to do, and programs may depend on them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from scheduler.service.what_if.changes import Change


class Code(StrEnum):
    """The stable name of what a step does."""

    UNGATE = "Ungate"
    SET_SCHEDULER_NAME = "SetSchedulerName"
    UNCORDON_NODE = "UncordonNode"
    REMOVE_TAINT = "RemoveTaint"
    TOLERATE_TAINT = "TolerateTaint"
    LABEL_NODE = "LabelNode"
    DROP_NODE_SELECTOR = "DropNodeSelector"
    DROP_NODE_AFFINITY = "DropNodeAffinity"
    LOWER_REQUEST = "LowerRequest"
    MORE_ON_NODE = "MoreOnNode"
    ADD_NODE = "AddNode"
    EVICT_PODS = "EvictPods"
    FREE_HOST_PORT = "FreeHostPort"
    DROP_HOST_PORT = "DropHostPort"
    RAISE_MAX_SKEW = "RaiseMaxSkew"
    SPREAD_ANYWAY = "SpreadAnyway"
    DROP_MIN_DOMAINS = "DropMinDomains"
    DROP_POD_AFFINITY = "DropPodAffinity"
    DROP_POD_ANTI_AFFINITY = "DropPodAntiAffinity"
    DECLARE_FEATURE = "DeclareFeature"
    DROP_FEATURE = "DropFeature"
    CREATE_CLAIM = "CreateClaim"
    REPLACE_CLAIM = "ReplaceClaim"
    CREATE_STORAGE_CLASS = "CreateStorageClass"
    CHANGE_BIND_MODE = "ChangeBindMode"
    MOVE_VOLUME = "MoveVolume"
    RAISE_VOLUME_LIMIT = "RaiseVolumeLimit"
    DROP_VOLUME = "DropVolume"
    RAISE_QUOTA = "RaiseQuota"


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do."""

    code: Code
    text: str
    """In plain words, with names and amounts: "remove taint dedicated=x:NoSchedule from n4"."""
    changes: tuple[Change, ...]
    """The same for programs."""
    cost: float
    """How much it takes, compared with other steps; 1 is next to nothing."""
    node: str = ""
    """The node that it makes fit; empty for a step that concerns the pod alone."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """Steps after which the pod fits: that was tried, on the state as it was."""

    codes: tuple[str, ...]
    """Of the steps."""
    text: str
    """The steps in plain words, joined."""
    steps: tuple[Step, ...]
    node: str
    """Where the pod would go."""
    cost: float
    """The lowest is shown first."""


@dataclass(frozen=True, slots=True)
class Remedies:
    """The remedies of one pod, the one that takes least first."""

    remedies: tuple[Remedy, ...] = ()
    fits: str = ""
    """The node on which the pod fits as it is: nothing has to change."""
    tried: int = 0
    """Trials that were made."""
    complete: bool = True
    """False: the time was over before everything was tried."""
    note: str = ""
    """Why there are none, where that is known."""


def remedy(steps: tuple[Step, ...], node: str) -> Remedy:
    """Join steps that were tried together."""
    return Remedy(
        codes=tuple(each.code.value for each in steps),
        text=", and ".join(each.text for each in steps),
        steps=steps,
        node=node,
        cost=sum(each.cost for each in steps) + 2.0 * (len(steps) - 1),
    )
