"""CycleState: data of plugins during one attempt (upstream: `cycle_state.go: CycleState`)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from scheduler.sanitizing.redaction import redact_message

if TYPE_CHECKING:
    from scheduler.framework.nodes import Rows
    from scheduler.framework.queued import QueuedPodInfo

Kept = TypeVar("Kept")

POD_MEMORY: Final = "pod_memory"
"""Key in `CycleState.data` under which `pod_memory` keeps its data in a trial."""


def _unlimited() -> None:
    """Check no time limit."""


class CycleState(msgspec.Struct, eq=False):
    """Key-value store of one attempt, with decisions of the framework about the attempt.

    By convention a key belongs to one plugin and is its name, or its name plus a suffix. A value
    that AddPod or RemovePod changes must have a `clone()` method; others are shared by clones.
    """

    #: Wall clock at the start of the attempt, seconds since the epoch; fixed for the cycle.
    now: float = 0.0
    data: dict[str, Any] = msgspec.field(default_factory=dict)
    #: Plugins whose Filter and AddPod/RemovePod are not called this cycle.
    skip_filter: set[str] = msgspec.field(default_factory=set)
    skip_score: set[str] = msgspec.field(default_factory=set)
    skip_pre_bind: set[str] = msgspec.field(default_factory=set)
    skip_post_filter: bool = False
    record_plugin_metrics: bool = False
    #: "namespace/name" of pods to activate after a successful cycle, and again after the binding.
    pods_to_activate: set[str] = msgspec.field(default_factory=set)
    #: Keys written while the framework records a reusable PreFilter or PreScore (None: not
    #: recording).
    recorder: list[str] | None = None
    #: The pod's queue record in a real attempt; None in a trial (`kubestow explain`, tests), in
    #: which a plugin must change nothing but this state.
    info: QueuedPodInfo | None = None
    #: Name of the group that this cycle schedules as a whole, if the pod is a member; empty: the
    #: pod is scheduled alone.
    group: str = ""
    #: UIDs of members placed earlier in the group's cycle whose allocations limit this pod's nodes.
    tied_to: tuple[str, ...] = ()
    #: In a trial: plugins whose demands (`framework.demands`) count as met.
    granted: frozenset[str] = frozenset()
    #: How this attempt differs from attempts at other pods of the same signature and labels; None:
    #: it does not. See `set_variant`.
    variant: tuple[tuple[str, Hashable], ...] | None = None
    #: The rows, ascending, to which the search is limited (a group's topology domain); None: all.
    within: Rows | None = None
    #: Plugins that are skipped because of the pod's signature (`SelectivePlugin`).
    absent: frozenset[str] = frozenset()
    #: Annotations that the binding adds to the pod; see `annotate_binding`.
    binding_annotations: dict[str, str] | None = None
    #: After a failed preemption: plugins that reject nodes even without their potential victims.
    preemption_rejectors: frozenset[str] = frozenset()
    #: Raises if the cycle has exceeded its time budget. A plugin that may work long on one pod
    #: calls it regularly and does not catch the exception. It may add a note to the exception about
    #: the work at hand, such as "while it searched ...".
    check_time: Callable[[], None] = _unlimited
    _failure_notes: tuple[tuple[str, str], ...] = ()
    _counted_by: str | None = None

    def read(self, key: str) -> Any:
        """Return the value under `key`.

        Raises:
            StateNotFoundError: nothing was written under `key`.
        """
        try:
            return self.data[key]
        except KeyError:
            raise StateNotFoundError from None

    def get(self, key: str) -> Any:
        """Return the value under `key`, or None."""
        return self.data.get(key)

    def write(self, key: str, value: object) -> None:
        """Store `value`."""
        self.data[key] = value
        if self.recorder is not None:
            self.recorder.append(key)

    def pod_memory(self, plugin: str, make: Callable[[], Kept]) -> Kept:
        """Return the data that `plugin` keeps for all attempts at this pod; `make` creates it.

        It lasts as long as the pod is pending, but not over a restart. In a trial (`info` is None)
        it lasts for the attempt only, so that the trial has no side effects.
        """
        if self.info is None:
            memory: dict[str, object] = self.data.setdefault(POD_MEMORY, {})
        else:
            memory = self.info.memory()
        if plugin not in memory:
            memory[plugin] = make()
        kept: Kept = memory[plugin]  # type: ignore[assignment]
        return kept

    def set_variant(self, plugin: str, value: Hashable) -> None:
        """Declare that `plugin` treats this pod unlike others of the same signature and labels.

        A result cached for the signature (that preemption found no candidate) then applies only to
        pods with an equal `value`. Call it in PreFilter; None removes the declaration.
        """
        others = [pair for pair in self.variant or () if pair[0] != plugin]
        if value is not None:
            others.append((plugin, value))
        self.variant = tuple(others) or None

    def note_failure(self, text: str, *, if_rejected_by: str = "") -> None:
        """Append ` (text)` to the FailedScheduling message if no node fits.

        With `if_rejected_by`, only if that plugin is among those that rejected the pod.
        """
        self._failure_notes += ((redact_message(text), if_rejected_by),)

    def count_preemption_rejections(self, plugin: str) -> None:
        """Count `plugin` as a rejector of the pod if it makes preemption fail.

        If an earlier filter rejects every node, Filter of `plugin` does not run, but preemption may
        find that it rejects nodes even without their victims. This is for a plugin whose decision
        may change soon; upstream never counts such plugins.
        """
        self._counted_by = plugin

    @property
    def late_rejectors(self) -> frozenset[str]:
        """Rejectors that only preemption found; see `count_preemption_rejections`."""
        plugin = self._counted_by
        if plugin is None or plugin not in self.preemption_rejectors:
            return frozenset()
        return frozenset((plugin,))

    def failure_note(self, rejectors: Collection[str]) -> str:
        """Return the texts of `note_failure` for a message, possibly empty."""
        return "".join(
            f" ({text})"
            for text, plugin in self._failure_notes
            if not plugin or plugin in rejectors
        )

    def annotate_binding(self, annotations: Mapping[str, str]) -> None:
        """Have DefaultBinder add annotations to the pod in the request that binds it."""
        self.binding_annotations = {**(self.binding_annotations or {}), **annotations}

    def clone(self) -> CycleState:
        """Return a copy for a what-if; values with a `clone` method are cloned, sets are shared."""
        copy = CycleState(self.now)
        copy.data = {
            key: value.clone() if hasattr(value, "clone") else value
            for key, value in self.data.items()
        }
        copy.skip_filter = self.skip_filter
        copy.skip_score = self.skip_score
        copy.skip_pre_bind = self.skip_pre_bind
        copy.skip_post_filter = self.skip_post_filter
        copy.record_plugin_metrics = self.record_plugin_metrics
        copy.check_time = self.check_time
        copy.absent = self.absent
        copy.pods_to_activate = self.pods_to_activate
        copy.info = self.info
        copy.group = self.group
        copy.variant = self.variant
        return copy


class StateNotFoundError(KeyError):
    """A plugin read a key that was never written. The text is upstream's: `not found`."""

    def __str__(self) -> str:
        return "not found"
