"""CycleState: data that plugins keep within an attempt (upstream: `cycle_state.go: CycleState`)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

if TYPE_CHECKING:
    from scheduler.framework.nodes import Rows
    from scheduler.framework.queued import QueuedPodInfo

Kept = TypeVar("Kept")

POD_MEMORY: Final = "pod_memory"
"""Key of the per-pod memory of a trial."""


def _unlimited() -> None:
    """Accept any time."""


class CycleState(msgspec.Struct, eq=False):
    """Key-value store of one attempt, plus decisions of the framework about it.

    Keys are plugin-private by convention: use the plugin's name, or name plus a suffix. A value
    that AddPod/RemovePod changes must have a `clone()` method; others are shared between clones.
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
    #: "namespace/name" of pods to activate when the cycle, and again when the binding, succeeds.
    pods_to_activate: set[str] = msgspec.field(default_factory=set)
    #: Keys written while the framework records a reusable PreFilter or PreScore (None: not
    #: recording).
    recorder: list[str] | None = None
    #: The pod's queue record in a real attempt; None in a trial (`kubestow explain`, tests), in
    #: which a plugin must leave no trace outside this state.
    info: QueuedPodInfo | None = None
    #: The name of the group that is decided as a whole in this cycle, if the pod is one of its
    #: members; empty: the pod is tried alone.
    group: str = ""
    #: UIDs of members of that group, placed before, whose allocations limit the nodes of this one.
    tied_to: tuple[str, ...] = ()
    #: In a trial: plugins whose demands (`framework.demands`) count as met.
    granted: frozenset[str] = frozenset()
    #: Difference from attempts at other pods of the same signature and labels; None: there is none.
    #: See `set_variant`.
    variant: tuple[tuple[str, Hashable], ...] | None = None
    #: Rows, ascending, that the search is limited to: a topology domain of a group; None: all.
    within: Rows | None = None
    #: Plugins that the pod's signature does not concern (`SelectivePlugin`).
    absent: frozenset[str] = frozenset()
    #: Annotations that go onto the pod with its binding; see `annotate_binding`.
    binding_annotations: dict[str, str] | None = None
    #: Plugins that rejected nodes even without the victims, after a preemption without result.
    preemption_rejectors: frozenset[str] = frozenset()
    #: Raises when the cycle has used its time up. A plugin whose work for one pod may be long calls
    #: it now and then, and lets the exception pass; it may add a note to it that tells what it was
    #: doing, as "while it searched ...".
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
        """Return what `plugin` keeps about this pod over all its attempts; `make` creates it.

        It lasts while the pod is pending, not over a restart. In a trial (`info` is None) it lasts
        for the attempt, so that the trial leaves no trace.
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
        """Declare that `plugin` treats this pod unlike others of its signature and labels.

        Results cached for the signature (a preemption without candidates) then apply only to pods
        with an equal `value`. Call it in PreFilter; None removes the declaration.
        """
        others = [pair for pair in self.variant or () if pair[0] != plugin]
        if value is not None:
            others.append((plugin, value))
        self.variant = tuple(others) or None

    def note_failure(self, text: str, *, if_rejected_by: str = "") -> None:
        """Append ` (text)` to the FailedScheduling message if no node fits.

        With `if_rejected_by`, only if that plugin is among those that rejected the pod.
        """
        self._failure_notes += ((text, if_rejected_by),)

    def count_preemption_rejections(self, plugin: str) -> None:
        """Count `plugin` among the rejectors if it makes preemption fail.

        An earlier filter may reject every node, so that Filter of `plugin` never runs; preemption
        may then find that `plugin` rejects nodes even without their victims. For a plugin whose
        decision may soon change; upstream never counts such plugins.
        """
        self._counted_by = plugin

    @property
    def late_rejectors(self) -> frozenset[str]:
        """Rejectors found by preemption; see `count_preemption_rejections`."""
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
        """Add annotations to the pod by the request that binds it (DefaultBinder)."""
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
    """A plugin read state that was never written; the text is upstream's `not found`."""

    def __str__(self) -> str:
        return "not found"
