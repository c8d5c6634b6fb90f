"""Devices: how much of each GPU is free, on every node, and which GPUs a pod has.

A node offers 1000 units of one extended resource for each of its GPUs. A pod that requests fewer
than 1000 shares a GPU; any other request is for whole GPUs. Which ones a pod has is an annotation
of the pod, written with its binding. Until the pod ends they are remembered here as well, so that a
later change of the annotation by its owner changes nothing; after a restart the annotations of the
pods that have a node are all there is, and all that is needed.

Rows are read anew where the node table changed; nothing is counted up or down, except that a pod is
added to the row that has just been read for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kubestow.plugin import Columns, Int64Column, NodeInfo, NodeTableView, Pod, Resources

WHOLE: Final = 1000
"""Units of a whole GPU."""
MAX_DEVICES: Final = 64
"""GPUs of one node; what a node offers beyond is not used."""
SEPARATOR: Final = "-"
CHANGES: Final = Columns.USAGE | Columns.ALLOCATABLE
"""The columns that say when the devices of a row have to be read again."""

Left = NDArray[np.int32]
"""(rows, devices): free units of each device, 0 where a node has no such device."""


class Request(NamedTuple):
    """The GPUs that a pod requests."""

    milli: int
    """Units of each device: below 1000 for a share, 1000 for whole devices, 0 for no GPU."""
    gpus: int
    """Number of devices."""

    @property
    def is_share(self) -> bool:
        """Whether it is a part of one device."""
        return 0 < self.milli < WHOLE

    @property
    def kind(self) -> int:
        """0 for a share, otherwise the number of whole devices."""
        return 0 if self.is_share else self.gpus


NO_GPU: Final = Request(0, 0)
_MAX_KNOWN: Final = 1024
"""Templates whose requests are kept, and how many scalar resources they may have."""
_MAX_SCALARS: Final = 32


class Booking(NamedTuple):
    """The devices of a pod."""

    milli: int
    """Units of each device."""
    kind: int
    """The bit of its `Request.kind` in `Devices.kinds`."""
    indexes: tuple[int, ...]
    """Empty if they are unknown."""
    devices: int
    """Devices that the node must have for them; more than any node has if they are unknown."""


class OnNode(NamedTuple):
    """The free devices of one node."""

    left: list[int]
    """Free units of each device."""
    kinds: int
    """A bit for each `Request.kind` of its pods."""
    certain: bool
    """Whether it is known which devices the pods have."""
    left_out: bool = False
    """Whether the pod that does not count is there."""


Choice = Callable[[Pod, NodeInfo, Sequence[int]], int]
"""`choice(pod, node, left)` returns the device for a share, among those with enough units left.

The pod may be on the node already; `left` is without it."""


@lru_cache(maxsize=1024)
def request_of(units: int) -> Request | None:
    """Return what a request for so many units means, None if it means nothing.

    >>> request_of(460), request_of(2000), request_of(1500)
    (Request(milli=460, gpus=1), Request(milli=1000, gpus=2), None)
    """
    if units < WHOLE:
        return Request(units, 1) if units > 0 else NO_GPU
    return None if units % WHOLE else Request(WHOLE, units // WHOLE)


def select(left: Sequence[int], request: Request) -> tuple[int, ...] | None:
    """Return the devices of the tightest fit, of whole devices the first; None if none fit.

    >>> select([500, 1000, 300], Request(300, 1)), select([500, 1000, 300], Request(1000, 2))
    ((2,), None)
    """
    fitting = [index for index, free in enumerate(left) if free >= request.milli]
    if len(fitting) < request.gpus:
        return None
    if request.is_share:
        return (min(fitting, key=left.__getitem__),)
    return tuple(fitting[: request.gpus])


@lru_cache(maxsize=1024)
def parsed(text: str) -> tuple[int, ...]:
    """Return the device indexes in an annotation, empty if it is malformed.

    >>> parsed("0-3"), parsed("3-3"), parsed("x")
    ((0, 3), (), ())
    """
    pieces = text.split(SEPARATOR, MAX_DEVICES)
    if not all(each.isascii() and each.isdecimal() and len(each) <= 2 for each in pieces):
        return ()
    indexes = tuple(map(int, pieces))
    good = len(set(indexes)) == len(indexes) and max(indexes) < MAX_DEVICES
    return indexes if good else ()


class Devices:
    """The devices of all nodes, for one extended resource and one annotation."""

    def __init__(self, resource: str, annotation: str) -> None:
        self._resource = resource
        self._annotation = annotation
        #: By the UID of the pod that has the devices.
        self._booked: dict[str, Booking] = {}
        #: What a template's requests mean, by their identity; kept so that no others get it.
        self._requests: dict[int, tuple[Resources, Request | None]] = {}
        self._sequence = -1
        #: These are valid after `refresh`; do not modify them.
        self.left: Left = np.zeros((0, 1), dtype=np.int32)
        #: (5, rows), whose rows are the columns below: each is written and grows with the others.
        self._sums = np.zeros((5, 0), dtype=np.int64)
        self._name_sums()

    def _name_sums(self) -> None:
        #: (rows,): number of devices.
        self.counts: Int64Column = self._sums[0]
        #: (rows,): a bit for each `Request.kind` of the pods on the node.
        self.kinds: Int64Column = self._sums[1]
        #: (rows,): the sum of `left`, its highest value, and the number of devices that are free.
        self.total: Int64Column = self._sums[2]
        self.most: Int64Column = self._sums[3]
        self.free: Int64Column = self._sums[4]

    def request_of(self, pod: Pod) -> Request | None:
        """Return the GPUs that a pod requests; None if the request is malformed."""
        requests = pod.signature.requests
        known = self._requests.get(id(requests))
        if known is not None:
            return known[1]
        found = request_of(requests.scalar(self._resource))
        if len(requests.scalars) <= _MAX_SCALARS:
            if len(self._requests) >= _MAX_KNOWN:
                self._requests.clear()
            self._requests[id(requests)] = requests, found
        return found

    # -- who has what ----------------------------------------------------------------------------

    def book(self, pod: Pod, request: Request, indexes: tuple[int, ...]) -> Booking:
        """Give devices to a pod."""
        booking = self._booked[pod.metadata.uid] = _booking(request, indexes)
        return booking

    def release(self, uid: str) -> None:
        """Take the devices of a pod back; nothing if it has none."""
        self._booked.pop(uid, None)

    def pod_changed(self, old: Pod | None, new: Pod | None) -> bool:
        """Follow a change of a pod; returns whether it has a node, and GPUs that nobody knows."""
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self.release(old.metadata.uid)
        if new is None or not new.spec.node_name or new.metadata.uid in self._booked:
            return False
        request = self.request_of(new)
        if request is None or not request.gpus:
            return False
        indexes = self._annotated(new, request)
        if indexes:
            self.book(new, request, indexes)
        return not indexes

    def _annotated(self, pod: Pod, request: Request) -> tuple[int, ...]:
        """Return the devices in the annotation of a pod, empty if it does not name so many."""
        indexes = parsed(pod.metadata.annotations.get(self._annotation, ""))
        return indexes if len(indexes) == request.gpus else ()

    # -- nodes -----------------------------------------------------------------------------------

    def refresh(self, table: NodeTableView) -> None:
        """Bring the columns up to date."""
        if self._sequence == table.sequence:
            return
        changed = None if self._sequence < 0 else table.changed_rows(self._sequence, CHANGES)
        if len(self.left) != table.capacity:
            self._resize(table.capacity, self.left.shape[1])
        rows = table.rows if changed is None else changed[table.valid[changed]]
        for row in rows.tolist():
            units, _ = table.scalar_amounts_at(self._resource, row)
            found = self._left(units, table.node_info(row).pods, "")
            self._write(table, row, found.left, found.kinds)
        self._sequence = table.sequence

    def _write(self, table: NodeTableView, row: int, left: list[int], kinds: int) -> None:
        if len(left) > self.left.shape[1]:
            self._resize(table.capacity, len(left))
        self.left[row] = left + [0] * (self.left.shape[1] - len(left))
        most = max(left, default=0)
        self._sums[:, row] = len(left), kinds, sum(left), most, left.count(WHOLE)

    def on_node(self, node: NodeInfo, *, without: str = "") -> OnNode:
        """Return the free devices of one node, which may be hypothetical.

        The pod whose UID is `without` does not count.
        """
        units = node.allocatable.scalar(self._resource)
        return self._left(units, node.pods, without)

    def place(
        self,
        pod: Pod,
        request: Request,
        indexes: tuple[int, ...],
        table: NodeTableView,
        row: int,
        others: OnNode,
    ) -> None:
        """Run `book` for a pod that was just assumed; `others` is the rest of its node."""
        booking = self.book(pod, request, indexes)
        if not (others.certain and others.left_out) or self._sequence != table.sequence - 1:
            return
        changed = table.changed_rows(self._sequence, CHANGES)
        if changed is None or changed.tolist() != [row] or len(self.left) != table.capacity:
            return
        # Nothing but this row changed since the last `refresh`, which so need not read it again.
        left = others.left.copy()
        for index in indexes:
            left[index] -= booking.milli
        self._write(table, row, left, others.kinds | booking.kind)
        self._sequence = table.sequence

    def _left(self, units: int, pods: Iterable[Pod], without: str) -> OnNode:
        count = min(units // WHOLE, MAX_DEVICES)
        left = [WHOLE] * count
        kinds = 0
        left_out = False
        booked = self._booked
        unknown: list[tuple[str, Request]] = []
        for pod in pods:
            uid = pod.metadata.uid
            if uid == without:
                left_out = True
                continue
            booking = booked.get(uid)
            if booking is None:
                request = self.request_of(pod)
                if request is None or not request.gpus:
                    continue
                # Nobody was told of it, such as a pod of a what-if.
                booking = _booking(request, self._annotated(pod, request))
            milli, kind, indexes, devices = booking
            kinds |= kind
            if devices > count:
                unknown.append((pod.key, self.request_of(pod) or NO_GPU))
                continue
            for index in indexes:
                left[index] -= milli
        if not unknown and min(left, default=0) >= 0:
            return OnNode(left, kinds, True, left_out)
        # Bound by hand, or nominated: they get what they would probably get.
        for _, request in sorted(unknown, key=itemgetter(0)):
            for index in select(left, request) or ():
                left[index] -= request.milli
        return OnNode([max(each, 0) for each in left], kinds, certain=False)

    def _resize(self, capacity: int, width: int) -> None:
        rows, devices = min(len(self.left), capacity), self.left.shape[1]
        left = np.zeros((capacity, width), dtype=np.int32)
        left[:rows, :devices] = self.left[:rows]
        self.left = left
        sums = np.zeros((len(self._sums), capacity), dtype=np.int64)
        sums[:, :rows] = self._sums[:, :rows]
        self._sums = sums
        self._name_sums()


def _booking(request: Request, indexes: tuple[int, ...]) -> Booking:
    kind = request.kind
    bit = 1 << kind if kind < MAX_DEVICES - 1 else 0
    return Booking(request.milli, bit, indexes, max(indexes, default=MAX_DEVICES) + 1)
