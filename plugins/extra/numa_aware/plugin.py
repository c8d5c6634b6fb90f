"""NumaAware, a columnar Filter and Score: nodes on which one NUMA zone has room for the pod.

The kubelet's Topology Manager with the policy `single-numa-node` rejects a pod that fits on the
node but in none of its zones. This plugin reads what each zone has left from objects of the CRD
NodeResourceTopology, one for each node, which an agent on the node writes (NFD's topology updater,
Resource Topology Exporter), and follows the kubelet: the lowest zone that has enough is taken, by
the whole pod or by each container.

Objects lag behind. A pod that was placed counts in every zone of its node, since only the kubelet
knows in which one it is, until an update of the object can have it. Nodes without an object, or
with another policy, accept every pod.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, ClassVar, Final, Literal, NamedTuple

import msgspec
import numpy as np

from plugins.extra.numa_aware.demand import Amounts, ZoneDemand, demand_of
from plugins.extra.numa_aware.topology import (
    CONTAINER,
    POD,
    TOPOLOGIES,
    NodeResourceTopology,
    Topology,
    never_more,
    topology_of,
)
from plugins.extra.numa_aware.zones import ZoneColumns
from scheduler.api import Named, Pod
from scheduler.framework import (
    MAX_NODE_SCORE,
    SKIP,
    ActionType,
    BasePlugin,
    ClusterEvent,
    ClusterEventWithHint,
    Codes,
    Columns,
    CycleState,
    EventResource,
    Handle,
    Int64Column,
    NodeInfo,
    NodeTableView,
    QueueingHint,
    Rows,
    Status,
    unresolvable,
)

NAME: Final = "kubestow.io/NumaAware"

MAX_CONTAINERS: Final = 50
"""Containers of a pod that want a zone: each costs a pass over the nodes."""
TOO_MANY: Final = f"more than {MAX_CONTAINERS} containers want a NUMA zone"

NOT_ALIGNED, RESERVED, INVALID = 1, 2, 3
"""Codes of Filter."""
REASONS: Final = {
    NOT_ALIGNED: "node(s) without a NUMA zone that has enough for the pod",
    RESERVED: "node(s) whose NUMA zones may be taken by pods that were placed just now",
    INVALID: "node(s) with invalid NUMA zones",
}


class Reservation(NamedTuple):
    """Amounts that a pod takes from some zone, of which the node's object may not know yet."""

    node: str
    amounts: Amounts
    #: Wall clock seconds.
    since: float


class _BundledReservation(msgspec.Struct):
    uid: str
    node: str
    amounts: dict[str, int]
    since: float
    #: Time of the last update of the node's object.
    updated: float


class NumaAwareArgs(msgspec.Struct, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """Arguments of NumaAware."""

    #: LeastAllocated prefers zones that keep much free, MostAllocated those that are filled up.
    scoring_strategy: Literal["LeastAllocated", "MostAllocated"] = "LeastAllocated"
    #: Time after which an update of a node's object has a pod that was placed there: the interval
    #: of the agent that writes the objects, or a few seconds if it writes after every change.
    settle_time: timedelta = timedelta(minutes=1)


class NumaAware(BasePlugin):
    """Places pods on nodes where NUMA zones have enough for them."""

    name = NAME
    args_type = NumaAwareArgs
    required_resources = (TOPOLOGIES,)
    resource_types: ClassVar[Mapping[str, type[Named]]] = {TOPOLOGIES: NodeResourceTopology}
    #: Another instance would not know the reservations.
    restart_on_change = True

    def __init__(self, args: NumaAwareArgs, handle: Handle) -> None:
        self._most = args.scoring_strategy == "MostAllocated"
        self._settle = args.settle_time.total_seconds()
        self._clock = handle.clock
        self._table = handle.table
        self._columns = ZoneColumns()
        #: Entry of the table's change log up to which the columns follow it.
        self._seen = -1
        self._topologies: dict[str, Topology] = {}
        #: Time of the last change of each node's object.
        self._updated: dict[str, float] = {}
        self._reservations: dict[str, Reservation] = {}
        #: When reservations may end, and their UIDs, the first first.
        self._settling: deque[tuple[float, str]] = deque()
        self._of_node: dict[str, set[str]] = {}
        subscriptions = handle.subscriptions
        subscriptions.on_object(TOPOLOGIES, self._topology_changed, in_trials=True)
        subscriptions.on_object("pods", self._pod_changed, in_trials=True)
        subscriptions.on_trial(self._begin_trial)

    @staticmethod
    def validate_args(args: NumaAwareArgs) -> Iterator[tuple[str, str]]:
        """Yield (path below `args`, message) for each problem."""
        if args.settle_time < timedelta(0):
            yield "settleTime", "is negative; write 0s or more"

    def pre_filter(self, state: CycleState, pod: Pod, table: NodeTableView) -> Status | None:
        """Find out what the pod wants; most pods want nothing from zones."""
        demand = demand_of(pod)
        if demand is None:
            return SKIP
        if len(demand.containers) > MAX_CONTAINERS:
            return unresolvable(TOO_MANY)
        state.write(NAME, demand)
        return None

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Judge one node."""
        code = int(self._codes(state, np.array([node.row], dtype=np.intp))[0])
        return self.filter_status(state, pod, code) if code else None

    def filter_rows(self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows) -> Codes:
        """Columnar form of `filter`."""
        return self._codes(state, rows)

    def filter_status(self, state: CycleState, pod: Pod, code: int) -> Status:
        """Return the status of a code. Preemption cannot help: nobody knows the victims' zones."""
        after = None
        if code == RESERVED:
            after = self._settling[0][0] - state.now if self._settling else None
        return unresolvable(REASONS[code], requeue_after=after)

    def pre_score(
        self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows
    ) -> Status | None:
        """Score only pods that want something from zones."""
        return SKIP if state.get(NAME) is None else None

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Return how much the zones that the pod would get have left, or how little."""
        return int(self._scores(state, np.array([node.row], dtype=np.intp))[0])

    def score_rows(
        self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows
    ) -> Int64Column:
        """Columnar form of `score`."""
        return self._scores(state, rows)

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Count the pod in every zone of its node."""
        self._reserve(pod, node_name)

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Count it no more."""
        self._release(pod.metadata.uid)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Return changes of zones, new nodes, and the end of pods that are reserved for."""
        changed = ActionType.ADD | ActionType.UPDATE | ActionType.DELETE
        topologies = ClusterEvent("noderesourcetopologies.v1alpha2.topology.node.k8s.io", changed)
        ended = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE)
        return [
            ClusterEventWithHint(topologies, self._after_topology, per_signature=True),
            ClusterEventWithHint(ended, self._after_pod, per_signature=True),
            ClusterEventWithHint(ClusterEvent(EventResource.NODE, ActionType.ADD)),
        ]

    def _after_topology(
        self, pod: Pod, old: NodeResourceTopology | None, new: NodeResourceTopology | None
    ) -> QueueingHint:
        """An object that only lost room helps nobody, unless reservations end with it."""
        if old is None or new is None or new.metadata.name in self._of_node:
            return QueueingHint.QUEUE
        lost = never_more(topology_of(old), topology_of(new))
        return QueueingHint.SKIP if lost else QueueingHint.QUEUE

    def _after_pod(self, pod: Pod, old: Pod, new: object) -> QueueingHint:
        reserved = old.metadata.uid in self._reservations
        return QueueingHint.QUEUE if reserved else QueueingHint.SKIP

    # -- bundles ---------------------------------------------------------------------------------

    def bundle_state(self) -> Iterator[dict[str, Any]]:
        """Yield the reservations, which no object shows, for bundles and replays."""
        for uid, each in self._reservations.items():
            updated = self._updated.get(each.node, 0.0)
            yield {"uid": uid, **each._asdict(), "updated": updated}

    def restore_bundle_state(self, pieces: Iterable[Any]) -> None:
        """Take over what `bundle_state` yielded. Raises ValueError for a malformed piece."""
        for uid in tuple(self._reservations):
            self._release(uid)
        for each in msgspec.convert(list(pieces), list[_BundledReservation]):
            self._updated[each.node] = each.updated
            self._add(each.uid, Reservation(each.node, each.amounts, each.since))

    # -- decisions -------------------------------------------------------------------------------

    def _codes(self, state: CycleState, rows: Rows) -> Codes:
        demand: ZoneDemand = state.read(NAME)
        columns = self._follow(state.now)
        codes = np.zeros(len(rows), dtype=np.int32)
        scopes = columns.scope[rows]
        for scope in (CONTAINER, POD):
            (of_scope,) = np.nonzero(scopes == scope)
            if not len(of_scope):
                continue
            requests = demand.requests(scope)
            placed, _ = columns.place(rows[of_scope], requests)
            lacking = of_scope[~placed]
            codes[lacking] = NOT_ALIGNED
            if self._reservations and len(lacking):
                alone, _ = columns.place(rows[lacking], requests, reserved=False)
                codes[lacking[alone]] = RESERVED
        codes[columns.invalid[rows]] = INVALID
        return codes

    def _scores(self, state: CycleState, rows: Rows) -> Int64Column:
        demand: ZoneDemand = state.read(NAME)
        columns = self._follow(state.now)
        scores = np.zeros(len(rows), dtype=np.int64)
        scopes = columns.scope[rows]
        for scope in (CONTAINER, POD):
            (of_scope,) = np.nonzero(scopes == scope)
            if len(of_scope):
                _, shares = columns.place(rows[of_scope], demand.requests(scope))
                scores[of_scope] = MAX_NODE_SCORE - shares if self._most else shares
        return scores

    def _follow(self, now: float) -> ZoneColumns:
        """Bring the columns up to date with the node table and the time."""
        self._end_settled(now)
        table, columns = self._table, self._columns
        if self._seen != table.sequence or len(columns.scope) < table.capacity:
            columns.fit(table.capacity)
            changed = table.changed_rows(self._seen, Columns.EXISTENCE) if self._seen >= 0 else None
            for row in (table.rows if changed is None else changed).tolist():
                self._fill(row)
            self._seen = table.sequence
        return columns

    def _fill(self, row: int) -> None:
        name = self._table.names[row]
        reserved = (self._reservations[uid].amounts for uid in self._of_node.get(name, ()))
        self._columns.fill(row, self._topologies.get(name, Topology()), reserved)

    def _refill(self, node: str) -> None:
        row = self._table.row_of(node)
        if row is not None and row < len(self._columns.scope):
            self._fill(row)

    # -- objects and reservations ----------------------------------------------------------------

    def _topology_changed(
        self, old: NodeResourceTopology | None, new: NodeResourceTopology | None
    ) -> None:
        if new is None:
            if old is not None:
                self._topologies.pop(old.metadata.name, None)
                self._updated.pop(old.metadata.name, None)
                self._refill(old.metadata.name)
            return
        name, now = new.metadata.name, self._clock.now()
        self._topologies[name] = topology_of(new)
        self._updated[name] = now
        for uid in tuple(self._of_node.get(name, ())):
            if self._reservations[uid].since + self._settle <= now:
                self._release(uid)
        self._refill(name)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is None:
            if old is not None:
                self._release(old.metadata.uid)
        elif new.spec.node_name and new.status.start_time is None:
            # Bound by somebody else, or before a restart, and not yet known to its kubelet.
            self._reserve(new, new.spec.node_name)

    def _reserve(self, pod: Pod, node: str) -> None:
        uid = pod.metadata.uid
        if uid in self._reservations or node not in self._topologies:
            return
        demand = demand_of(pod)
        amounts = {} if demand is None else demand.exclusive()
        if amounts:
            self._add(uid, Reservation(node, amounts, self._clock.now()))

    def _add(self, uid: str, reservation: Reservation) -> None:
        self._reservations[uid] = reservation
        self._settling.append((reservation.since + self._settle, uid))
        self._of_node.setdefault(reservation.node, set()).add(uid)
        self._refill(reservation.node)

    def _release(self, uid: str) -> None:
        found = self._reservations.pop(uid, None)
        if found is not None:
            of_node = self._of_node[found.node]
            of_node.discard(uid)
            if not of_node:
                del self._of_node[found.node]
            self._refill(found.node)

    def _end_settled(self, now: float) -> None:
        """End the reservations that are old enough and have seen an update of their node."""
        while self._settling and self._settling[0][0] <= now:
            _, uid = self._settling.popleft()
            each = self._reservations.get(uid)
            if each is None or each.since + self._settle > now:
                continue
            if self._updated.get(each.node, 0.0) > each.since:
                self._release(uid)

    def _begin_trial(self) -> Callable[[], None]:
        reservations, updated = dict(self._reservations), dict(self._updated)
        settling = deque(self._settling)

        def restore() -> None:
            nodes = set(self._of_node)
            self._reservations, self._updated = reservations, updated
            self._settling, self._of_node = settling, {}
            for uid, each in reservations.items():
                self._of_node.setdefault(each.node, set()).add(uid)
            for node in nodes | self._of_node.keys():
                self._refill(node)

        return restore
