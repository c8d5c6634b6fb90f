"""Queueing hints: registered events, and whether an event makes a pod worth a retry.

A plugin registers events with optional hint functions (KEP-4247). `build_hint_map` collects them
for one profile; `HintIndex` finds the plugins of all profiles that registered an event, and
evaluates their hints.

Invariant: a hint that raises counts as Queue, so that it never loses a pod.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, Final

from scheduler.api.node import Node
from scheduler.api.packed_labels import labels_key
from scheduler.api.pod import Pod
from scheduler.framework.events import (
    ATTEMPT_OUTCOME,
    TARGET_POD_UPDATE,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    HintKeys,
    QueueingHint,
)
from scheduler.framework.extension_points import EVENT_POINTS
from scheduler.framework.queued import QueuedPodInfo
from scheduler.framework.status import ConfigurationError
from scheduler.queue.in_flight import InFlightEvent
from scheduler.queue.metrics import QueueMetrics

EXTENDER: Final = "Extender"
"""The pseudo plugin that stands for extenders among a pod's rejectors."""

HINT: Final = "hint"
PluginErrorListener = Callable[[str, str, Pod, Exception], None]
"""`listener(plugin, what, pod, error)`; `what` is the extension point or function that raised."""

_NO_KINDS: Final = frozenset(("AssignedPod", "UnscheduledPod", "TargetPod", "*", "Time"))
"""Kinds of events of pods, and what is no object."""

_OF_PODS: Final = frozenset(
    (
        EventResource.POD,
        EventResource.ASSIGNED_POD,
        EventResource.UNSCHEDULED_POD,
        EventResource.TARGET_POD,
    )
)
DEFAULT_EVENTS: Final = tuple(
    ClusterEventWithHint(ClusterEvent(resource, ActionType.ALL))
    for resource in EventResource
    if resource not in _NO_KINDS
)
"""Events of a plugin without `events_to_register`: all actions on every resource."""

_HARD_EFFECTS: Final = frozenset(("NoSchedule", "NoExecute"))


class QueueingStrategy(IntEnum):
    """Whether and how soon an event makes a pod worth a retry (upstream: queueingStrategy)."""

    SKIP = 0
    AFTER_BACKOFF = 1
    IMMEDIATELY = 2


@dataclass(frozen=True, slots=True)
class QueueingDecision:
    """A strategy, and the plugin whose hint determined it (empty: no hint)."""

    strategy: QueueingStrategy
    plugin: str = ""


SKIP: Final = QueueingDecision(QueueingStrategy.SKIP)
AFTER_BACKOFF: Final = QueueingDecision(QueueingStrategy.AFTER_BACKOFF)


@dataclass(frozen=True, slots=True, eq=False)
class Registration:
    """One event registered by one plugin of one profile. A cache key, compared by identity."""

    plugin: str
    event: ClusterEvent
    hint: Callable[[Pod, Any, Any], QueueingHint] | None
    per_signature: bool
    keys: HintKeys | None = None


QueueingHintMap = tuple[Registration, ...]
"""All registrations of one profile, in the order of its plugins."""


_RESOURCES: Final = frozenset(EventResource)
_DOTS: Final = 2
"""Minimum number of dots in the name of a custom resource."""


def build_hint_map(
    plugins: Iterable[object], *, extenders: bool = False, queueing_hints: bool = True
) -> QueueingHintMap:
    """Collect the registrations of a profile's plugin instances.

    Like scheduler.go: buildQueueingHintMap. Only plugins at extension points that can reject a pod
    count. `extenders` adds the pseudo plugin `Extender`. Without `queueing_hints` (feature gate
    SchedulerQueueingHints) every registered event requeues, except an update of only the pod's own
    status. The events that kubestow adds keep their hints, because otherwise they would cause a
    busy loop.

    Raises ConfigurationError if a plugin's `events_to_register` raises, or names impossible events.
    """
    found: list[Registration] = []
    for plugin in plugins:
        if not any(point.implemented_by(plugin) for point in EVENT_POINTS):
            continue
        name: str = getattr(plugin, "name", type(plugin).__name__)
        found += _registrations(name, _events_of(name, plugin))
    if extenders:
        found += _registrations(EXTENDER, DEFAULT_EVENTS)
    if not queueing_hints:
        found = [_without_hint(each) for each in found]
    return tuple(found)


def _without_hint(each: Registration) -> Registration:
    if not each.event.action_type & ActionType.ALL:
        return each
    if each.event.matches(TARGET_POD_UPDATE):
        return replace(each, hint=_unless_own_status, per_signature=False, keys=None)
    return replace(each, hint=None, keys=None)


def _unless_own_status(pod: Pod, old: object, new: object) -> QueueingHint:
    """Hint if hints are disabled: the status written by one attempt must not cause the next."""
    if not isinstance(old, Pod) or not isinstance(new, Pod) or new.uid != pod.uid:
        return QueueingHint.QUEUE
    unchanged = (
        old.spec == new.spec
        and old.metadata.labels == new.metadata.labels
        and old.metadata.annotations == new.metadata.annotations
        and old.status.resource_claim_statuses == new.status.resource_claim_statuses
    )
    return QueueingHint.SKIP if unchanged else QueueingHint.QUEUE


def registered_resources(hints: Mapping[str, QueueingHintMap]) -> dict[str, ActionType]:
    """Return resource -> all registered actions, which decides what informers need handlers."""
    found: dict[str, ActionType] = {}
    for registrations in hints.values():
        for each in registrations:
            before = found.get(each.event.resource, ActionType.NONE)
            found[each.event.resource] = before | each.event.action_type
    return found


def taint_lifted(
    pod: Pod,  # noqa: ARG001 - a hint function's signature; the node's change decides alone
    old: object,
    new: object,
) -> QueueingHint:
    """Hint of the automatic Node/UpdateNodeTaint registration: queue if the node repels less."""
    if not isinstance(old, Node) or not isinstance(new, Node):
        msg = f"want two nodes, got {type(old).__name__} and {type(new).__name__}"
        raise TypeError(msg)
    uncordoned = old.spec.unschedulable and not new.spec.unschedulable
    lifted = _repelling(old) - _repelling(new)
    return QueueingHint.QUEUE if uncordoned or lifted else QueueingHint.SKIP


def _repelling(node: Node) -> set[tuple[str, str, str]]:
    return {
        (taint.key, taint.value, taint.effect)
        for taint in node.spec.taints
        if taint.effect in _HARD_EFFECTS
    }


def _events_of(name: str, plugin: object) -> Sequence[ClusterEventWithHint]:
    events_to_register = getattr(plugin, "events_to_register", None)
    if events_to_register is None:
        return DEFAULT_EVENTS
    try:
        events = tuple(events_to_register())
    except Exception as error:  # boundary: plugin call
        msg = f"plugin {name}: events_to_register() raised {type(error).__name__}: {error}"
        raise ConfigurationError(msg) from error
    problems = [f"plugin {name}: {problem}" for each in events if (problem := _impossible(each))]
    if problems:
        raise ConfigurationError(problems)
    return events


def _impossible(registered: object) -> str:
    """Return why a registered event can never happen; empty if it can."""
    if not isinstance(registered, ClusterEventWithHint):
        shown = reprlib.repr(registered)
        return f"events_to_register() returned {shown}, which is not a ClusterEventWithHint"
    resource = registered.event.resource
    if resource in _RESOURCES or resource.count(".") >= _DOTS:
        return ""
    return (
        f'events_to_register() names the resource "{resource}": there are no events of it; write '
        "an EventResource, or plural.version.group for a custom resource"
    )


def _registrations(name: str, events: Sequence[ClusterEventWithHint]) -> list[Registration]:
    found = [
        Registration(
            name, each.event, each.hint, each.per_signature, each.keys if each.hint else None
        )
        for each in events
    ]
    node_actions = ActionType.NONE
    for each in events:
        if each.event.resource == EventResource.NODE:
            node_actions |= each.event.action_type
    if node_actions & ActionType.ADD and not node_actions & ActionType.UPDATE_NODE_TAINT:
        # The plugin waits for usable nodes, and a node that loses a taint is like a new node.
        event = ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_TAINT)
        found.append(Registration(name, event, taint_lifted, per_signature=True))
    return found


def identity(pod: Pod) -> Hashable | None:
    """Return a key of all that per-signature hints may read of a pod; None if not interned."""
    signature = pod.interned
    if signature is None:
        return None
    # The id, not the signature: some identities outlive their pods and must not keep large
    # signatures alive.
    return (signature.id, pod.pin, pod.metadata.namespace, labels_key(pod.metadata.labels))


@dataclass(frozen=True, slots=True)
class EventSubscription:
    """The plugins that registered one event."""

    label: str
    #: Plugins of any profile, in the order of registration.
    plugins: tuple[str, ...]
    by_profile: Mapping[str, tuple[Registration, ...]]
    #: Registrations of a plugin, if all that match the event have hint keys.
    keyed: Mapping[str, tuple[Registration, ...]]
    wildcard: bool

    def provided_keys(self, plugin: str, event: InFlightEvent) -> list[Hashable] | None:
        """Return the (registration, hint key) pairs for which the event may help a pod.

        The key None stands for pods whose required keys are unknown. None instead of a list: the
        event may help any pod that the plugin rejected.
        """
        registrations = self.keyed.get(plugin)
        if registrations is None:
            return None
        found: list[Hashable] = []
        for each in registrations:
            keys = _hint_keys(each.keys, "provided_keys", event.old, event.new)
            if keys is None:
                return None
            found.append((each, None))
            found += ((each, key) for key in keys)
        return found


class HintIndex:
    """All registrations of all profiles, looked up by event."""

    def __init__(
        self,
        hints: Mapping[str, QueueingHintMap],
        metrics: QueueMetrics,
        timer: Callable[[], float] | None = None,
        on_error: PluginErrorListener | None = None,
    ) -> None:
        """`timer` returns seconds, to measure hints; None measures nothing."""
        self._metrics = metrics
        self._timer = timer
        self._on_error = on_error
        self.replace(hints)
        #: Since the start: calls of hints, those that raised, and results reused from a call for a
        #: pod of the same signature, labels and namespace.
        self.calls = self.errors = self.shared_results = 0

    def replace(self, hints: Mapping[str, QueueingHintMap]) -> None:
        """Look up these registrations from now on.

        Pods indexed by hint keys of removed registrations must be indexed again.
        """
        self._profiles = dict(hints)
        self._subscriptions: dict[ClusterEvent, EventSubscription] = {}
        self._keyed: dict[str, list[tuple[str, Registration]]] = {}
        for profile, registrations in self._profiles.items():
            for each in registrations:
                if each.keys is not None:
                    self._keyed.setdefault(each.plugin, []).append((profile, each))

    @property
    def profiles(self) -> AbstractSet[str]:
        """The profiles, including those without registrations."""
        return self._profiles.keys()

    def registrations(self, profile: str, pod: Pod) -> list[Registration]:
        """Return the registrations of a profile's plugins that may help the pod.

        Those for which the pod has no required keys are omitted, except events of pods: the pod
        itself is always evaluated, and a pod that goes may be one that kept it away.
        """
        return [
            each
            for each in self._profiles.get(profile, ())
            if each.keys is None
            or each.event.resource in _OF_PODS
            or _hint_keys(each.keys, "required_keys", pod) != frozenset()
        ]

    def subscription(self, event: ClusterEvent) -> EventSubscription:
        """Return the plugins that registered the event; computed once per distinct event."""
        found = self._subscriptions.get(event)
        if found is None:
            found = self._subscriptions[event] = self._subscribe(event)
        return found

    def evaluate(
        self, event: InFlightEvent, info: QueuedPodInfo, pod_identity: Hashable | None
    ) -> QueueingDecision:
        """Decide whether the event is worth another attempt for the pod, and how soon.

        As in scheduling_queue.go: isPodWorthRequeuing. `pod_identity` is `identity(info.pod)`, or
        None to evaluate every hint anew; a per-signature hint runs once per event and identity.
        """
        pending = info.pending_plugins
        rejectors = info.unschedulable_plugins
        if not rejectors and not pending:
            return AFTER_BACKOFF
        if event.plugin:
            return _decision_of_plugin(event.plugin, rejectors, pending)
        if event.cluster_event.wildcard:
            forced = event.new
            others = forced is not None and getattr(forced, "uid", None) != info.uid
            return SKIP if others else AFTER_BACKOFF
        profile = info.pod.spec.scheduler_name
        if profile not in self._profiles:
            return AFTER_BACKOFF
        decision = SKIP
        for each in self.subscription(event.cluster_event).by_profile.get(profile, ()):
            plugin = each.plugin
            if plugin not in pending and (plugin not in rejectors or decision is not SKIP):
                continue
            if self._hint_result(each, event, info.pod, pod_identity) is QueueingHint.SKIP:
                continue
            if plugin in pending:
                return QueueingDecision(QueueingStrategy.IMMEDIATELY, plugin)
            decision = QueueingDecision(QueueingStrategy.AFTER_BACKOFF, plugin)
            if not pending:
                break
        return decision

    def helps(self, event: InFlightEvent, plugin: str, pod: Pod) -> bool:
        """Whether a registration of `plugin` covers the event, and its hint does not skip `pod`."""
        subscription = self.subscription(event.cluster_event)
        pod_identity = identity(pod)
        return any(
            self._hint_result(each, event, pod, pod_identity) is QueueingHint.QUEUE
            for each in subscription.by_profile.get(pod.spec.scheduler_name, ())
            if each.plugin == plugin
        )

    def evaluate_missed(
        self, events: Iterable[InFlightEvent], info: QueuedPodInfo
    ) -> tuple[QueueingDecision, str]:
        """Decide about a rejected pod by the events since it was popped, then by its attempt.

        As in scheduling_queue.go: determineSchedulingHintForInFlightPod; `ATTEMPT_OUTCOME` is
        kubestow's own. Also returns the label of the deciding event; empty if there is none.
        """
        decision, label = SKIP, ""
        pod_identity = identity(info.pod)
        for event in events:
            if not event.concerns(info):
                continue
            found = self.evaluate(event, info, pod_identity)
            if found.strategy > decision.strategy:
                decision, label = found, event.label
                if found.strategy is QueueingStrategy.IMMEDIATELY or not info.pending_plugins:
                    break
        if decision is SKIP and self.subscription(ATTEMPT_OUTCOME).plugins:
            outcome = InFlightEvent(ATTEMPT_OUTCOME, None, info, ATTEMPT_OUTCOME.label)
            found = self.evaluate(outcome, info, None)
            if found is not SKIP:
                # Never immediately, even for a pending plugin: retrying on the outcome of each
                # attempt without backoff would be a busy loop.
                decision = QueueingDecision(QueueingStrategy.AFTER_BACKOFF, found.plugin)
                label = outcome.label
        return decision, label

    def shared_by_signature(self, event: InFlightEvent, sample: QueuedPodInfo) -> bool:
        """Whether one evaluation holds for all pods of the same group as `sample`.

        True if every hint concerned is per-signature. The pod that the event is about must be
        evaluated separately, since a hint may recognise it.
        """
        if event.plugin or event.cluster_event.wildcard:
            return False
        subscription = self.subscription(event.cluster_event)
        rejectors = sample.rejectors
        return all(
            each.per_signature or each.hint is None
            for each in subscription.by_profile.get(sample.pod.spec.scheduler_name, ())
            if each.plugin in rejectors
        )

    def required_keys(self, info: QueuedPodInfo, plugins: Iterable[str]) -> list[Hashable]:
        """Return the (registration, hint key) pairs to index a pod by, that `plugins` rejected.

        The key None means that the pod's required keys are unknown.
        """
        found: list[Hashable] = []
        pod, own_profile = info.pod, info.pod.spec.scheduler_name
        for plugin in plugins:
            for profile, each in self._keyed.get(plugin, ()):
                if pod.interned is None or own_profile not in self._profiles:
                    # Any event moves a pod without a profile; a pod without an interned signature
                    # may change and stay in its group.
                    found.append((each, None))
                elif own_profile == profile:
                    keys = _hint_keys(each.keys, "required_keys", pod)
                    found += ((each, key) for key in ((None,) if keys is None else keys))
        return found

    def _subscribe(self, event: ClusterEvent) -> EventSubscription:
        by_profile = {
            profile: tuple(each for each in registrations if each.event.matches(event))
            for profile, registrations in self._profiles.items()
        }
        by_plugin: dict[str, list[Registration]] = {}
        for found in by_profile.values():
            for each in found:
                by_plugin.setdefault(each.plugin, []).append(each)
        keyed = {
            plugin: tuple(found)
            for plugin, found in by_plugin.items()
            if all(each.keys is not None for each in found)
        }
        return EventSubscription(event.label, tuple(by_plugin), by_profile, keyed, event.wildcard)

    def _hint_result(
        self, each: Registration, event: InFlightEvent, pod: Pod, pod_identity: Hashable | None
    ) -> QueueingHint:
        if each.hint is None:
            return QueueingHint.QUEUE
        if not each.per_signature or pod_identity is None or event.subject == pod.metadata.uid:
            return self._call(each, each.hint, event, pod)
        key = (each, pod_identity)
        result = event.hint_results.get(key)
        if result is None:
            result = event.hint_results[key] = self._call(each, each.hint, event, pod)
        else:
            self.shared_results += 1
        return result

    def _call(
        self,
        each: Registration,
        hint: Callable[[Pod, Any, Any], QueueingHint],
        event: InFlightEvent,
        pod: Pod,
    ) -> QueueingHint:
        self.calls += 1
        started = self._timer() if self._timer else 0.0
        result: QueueingHint | None
        try:
            result = hint(pod, event.old, event.new)
        except Exception as error:  # noqa: BLE001 - boundary: plugin call
            result = None
            self.errors += 1
            self._metrics.hint_error(each.plugin, event.label)
            if self._on_error:
                self._on_error(each.plugin, HINT, pod, error)
        if self._timer:
            took = self._timer() - started
            self._metrics.hint_duration(each.plugin, event.label, result, took)
        return QueueingHint.SKIP if result is QueueingHint.SKIP else QueueingHint.QUEUE


def _hint_keys(keys: HintKeys | None, function: str, *objects: Any) -> Collection[Hashable] | None:
    try:
        found: Collection[Hashable] | None = getattr(keys, function)(*objects)
        return None if found is None else frozenset(found)
    except Exception:  # noqa: BLE001 - boundary: plugin call; the hint will report the cause
        return None


def _decision_of_plugin(plugin: str, rejectors: set[str], pending: set[str]) -> QueueingDecision:
    if plugin in pending:
        return QueueingDecision(QueueingStrategy.IMMEDIATELY, plugin)
    if plugin in rejectors:
        return QueueingDecision(QueueingStrategy.AFTER_BACKOFF, plugin)
    return SKIP
