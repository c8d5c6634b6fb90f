"""LicenceTokens: pods take tokens from pools, which are custom resources.

A pool is an object of `example.com/v1/licencepools` with the number of its tokens in `spec.tokens`.
A pod names what it needs in the annotation `example.com/licences`: `matlab=2, ansys=1`. It holds
its tokens from Reserve until it ends. After a restart the pods that have a node say who holds what,
so that nothing has to be stored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from kubestow.plugin import (
    ActionType,
    BasePlugin,
    ClusterEvent,
    ClusterEventWithHint,
    CustomObject,
    CycleState,
    EventResource,
    Handle,
    Metric,
    NoArgs,
    NodeTableView,
    Pod,
    QueueingHint,
    Status,
    unresolvable,
)

ANNOTATION: Final = "example.com/licences"
POOLS: Final = "example.com/v1/licencepools"
FREE: Final = "example_free_licence_tokens"
MAX_POOLS: Final = 20
"""Pools that one pod may name."""
MAX_TOKENS: Final = 1_000_000

MALFORMED: Final = f"the annotation {ANNOTATION} is malformed: write POOL=TOKENS, POOL=TOKENS"
UNKNOWN: Final = "there is no licence pool {pool}"
TAKEN: Final = "not enough free tokens in licence pool {pool}"


def wanted(pod: Pod) -> dict[str, int]:
    """Return the tokens that a pod needs, by pool.

    >>> from kubestow.plugin import ObjectMeta
    >>> wanted(Pod(metadata=ObjectMeta(annotations={ANNOTATION: "matlab=2, ansys=1"})))
    {'matlab': 2, 'ansys': 1}

    Raises:
        ValueError: the annotation is malformed.
    """
    text = pod.metadata.annotations.get(ANNOTATION, "")
    if not text.strip():
        return {}
    pieces = text.split(",", MAX_POOLS)
    found: dict[str, int] = {}
    for each in pieces:
        pool, equals, tokens = (part.strip() for part in each.partition("="))
        if not pool or not equals or pool in found or len(pieces) > MAX_POOLS:
            raise ValueError(MALFORMED)
        if not (tokens.isascii() and tokens.isdecimal() and len(tokens) <= len(str(MAX_TOKENS))):
            raise ValueError(MALFORMED)
        found[pool] = int(tokens)
    return found


class LicenceTokens(BasePlugin):
    """Lets a pod run only while its licence pools have tokens for it."""

    name = "example.com/LicenceTokens"
    required_resources = (POOLS,)
    metrics = (Metric(FREE, "gauge", "Licence tokens that are free.", ("pool",), describes=POOLS),)

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        self._pools = handle.listers
        self._metrics = handle.metrics
        #: Tokens by pool, of each pod that holds some, by UID.
        self._held: dict[str, Mapping[str, int]] = {}
        self._used: Counter[str] = Counter()
        handle.subscriptions.on_object("pods", self._pod_changed)
        handle.subscriptions.on_object(POOLS, self._pool_changed)

    def pre_filter(self, state: CycleState, pod: Pod, table: NodeTableView) -> Status | None:
        """Reject the pod for all nodes if a pool has too few tokens."""
        try:
            return self._lacking(wanted(pod))
        except ValueError as error:
            return unresolvable(str(error))

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Take the tokens."""
        tokens = wanted(pod)
        lacking = self._lacking(tokens)
        if lacking is None:
            self._hold(pod.metadata.uid, tokens)
        return lacking

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Give the tokens back; nothing if the pod has none."""
        self._release(pod.metadata.uid)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Return the end of a pod that held tokens, and more tokens in a pool."""
        ended = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE)
        pools = ClusterEvent("licencepools.v1.example.com", ActionType.ADD | ActionType.UPDATE)
        return [
            ClusterEventWithHint(ended, self._after_pod),
            ClusterEventWithHint(pools, self._after_pool),
        ]

    def _after_pod(self, pod: Pod, old: Pod, new: object) -> QueueingHint:
        return self._hint(bool(wanted(pod).keys() & wanted(old).keys()))

    def _after_pool(self, pod: Pod, old: object, new: CustomObject) -> QueueingHint:
        return self._hint(new.metadata.name in wanted(pod))

    @staticmethod
    def _hint(helps: bool) -> QueueingHint:
        return QueueingHint.QUEUE if helps else QueueingHint.SKIP

    def _lacking(self, tokens: Mapping[str, int]) -> Status | None:
        for pool, needed in tokens.items():
            there = self._tokens_of(pool)
            if there is None:
                return unresolvable(UNKNOWN.format(pool=pool))
            if self._used[pool] + needed > there:
                return unresolvable(TAKEN.format(pool=pool))
        return None

    def _tokens_of(self, pool: str) -> int | None:
        """Return the size of a pool; None if there is none, 0 if it states none."""
        found: CustomObject | None = self._pools[POOLS].get(pool)
        if found is None:
            return None
        tokens = found.spec.get("tokens")
        return tokens if isinstance(tokens, int) and not isinstance(tokens, bool) else 0

    # -- who holds what --------------------------------------------------------------------------

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is None:
            if old is not None:
                self._release(old.metadata.uid)
        elif new.spec.node_name and new.metadata.uid not in self._held:
            # Bound by an earlier run, or by somebody else.
            try:
                self._hold(new.metadata.uid, wanted(new))
            except ValueError:
                return

    def _pool_changed(self, old: CustomObject | None, new: CustomObject | None) -> None:
        if new is not None:
            self._report(new.metadata.name)

    def _hold(self, uid: str, tokens: Mapping[str, int]) -> None:
        self._release(uid)
        if tokens:
            self._held[uid] = tokens
            self._used.update(tokens)
            self._report(*tokens)

    def _release(self, uid: str) -> None:
        tokens = self._held.pop(uid, {})
        self._used.subtract(tokens)
        self._report(*tokens)

    def _report(self, *pools: str) -> None:
        for pool in pools:
            there = self._tokens_of(pool)
            if there is not None:
                self._metrics.gauge(FREE, pool, value=max(there - self._used[pool], 0))
