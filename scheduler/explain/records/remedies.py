"""Remedies for a pending pod, and the changes of which they consist."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Literal

import msgspec

from scheduler.explain.records.shown import Shown
from scheduler.explain.records.wording import counted

DEFAULT_REMEDIES: Final = 5
"""Remedies that are listed."""


class Change(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One change of one object, named as `kubectl` does."""

    action: Literal["add", "set", "remove"]
    """`add`: create the object (not a pod or node that exists); `set`: a field; `remove`: it."""
    kind: str
    """As in a manifest: `Node`, `Pod`, `PersistentVolumeClaim`."""
    name: str
    """`namespace/name`, or the name of an object without namespace."""
    path: str = ""
    """With `set`: JSON pointer (RFC 6901) to the field, such as `/spec/unschedulable`."""
    value: Any = None
    """With `add`: the object. With `set`: the value; null removes the field."""


class RemedySearch(StrEnum):
    """The part of the remedies that a request looks for."""

    NONE = "none"
    #: Those found in a fraction of a second, the ones that take least first.
    QUICK = "quick"
    #: Until everything was tried, or a few seconds have passed.
    ALL = "all"


class Code(StrEnum):
    """The stable name of what a step does."""

    #: Nothing has to be done: room is being made.
    AWAIT_END = "AwaitEnd"
    AWAIT_RESERVATION = "AwaitReservation"
    UNGATE = "Ungate"
    SET_SCHEDULER_NAME = "SetSchedulerName"
    UNCORDON_NODE = "UncordonNode"
    REMOVE_TAINT = "RemoveTaint"
    TOLERATE_TAINT = "TolerateTaint"
    CORRECT_VALUE = "CorrectValue"
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
    CREATE_CLAIM = "CreateClaim"
    REPLACE_CLAIM = "ReplaceClaim"
    CREATE_STORAGE_CLASS = "CreateStorageClass"
    CHANGE_BIND_MODE = "ChangeBindMode"
    RAISE_VOLUME_LIMIT = "RaiseVolumeLimit"
    DROP_VOLUME = "DropVolume"
    CREATE_DEVICE_CLASS = "CreateDeviceClass"
    CREATE_RESOURCE_CLAIM = "CreateResourceClaim"
    CREATE_RESOURCE_CLAIM_TEMPLATE = "CreateResourceClaimTemplate"
    DROP_RESOURCE_CLAIMS = "DropResourceClaims"
    RAISE_PRIORITY = "RaisePriority"
    RAISE_QUOTA = "RaiseQuota"
    #: What another plugin demands.
    MEET_DEMAND = "MeetDemand"


@dataclass(frozen=True, slots=True, repr=False)
class Step(Shown):
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

    def _lines(self) -> Sequence[str]:
        return [self.text]


@dataclass(frozen=True, slots=True, repr=False)
class Remedy(Shown):
    """Steps after which the pod fits: that was tried, on the state as it was."""

    codes: tuple[str, ...]
    """Of the steps."""
    text: str
    """The steps in plain words, joined."""
    steps: tuple[Step, ...]
    node: str
    """Where the pod would go."""
    cost: float
    """The lowest is listed first."""

    @property
    def sentence(self) -> str:
        """The steps, and where the pod would go."""
        return f"{self.text} (goes to {self.node})" if self.node else self.text

    def _lines(self) -> Sequence[str]:
        return [self.sentence]


@dataclass(frozen=True, slots=True, repr=False)
class Remedies(Shown):
    """The remedies of one pod, the one that takes least first."""

    remedies: tuple[Remedy, ...] = ()
    first: tuple[Step, ...] = ()
    """What must be done before every remedy, such as to name this scheduler."""
    fits: str = ""
    """The node on which the pod fits as it is: nothing has to change."""
    tried: int = 0
    """Trials that were made."""
    complete: bool = True
    """False: the time was over before everything was tried."""
    changed: bool = False
    """True: the state changed between trials, so that not all saw the same one."""
    note: str = ""
    """Why there are none, where that is known."""

    @property
    def before(self) -> str:
        """The steps of `first` in plain words, as a sentence; empty if there are none."""
        steps = ", and ".join(each.text for each in self.first)
        return f"First {steps}. " if steps and self.remedies else ""

    def _lines(self) -> Sequence[str]:
        if self.fits:
            return [f"nothing has to change: the pod fits on {self.fits}"]
        trials = counted(self.tried, "trial")
        found = [each.sentence for each in self.remedies]
        if not found:
            return [f"none found in {trials}{': ' * bool(self.note)}{self.note}"]
        count = f"{len(found)} found in {trials}, the least"
        return [f"{self.before}{count}: {found[0]}", *found[1:]]
