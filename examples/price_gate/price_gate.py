"""PriceGate, a PreEnqueue gate: pods that may wait start when the forecast price is lowest.

    metadata:
      annotations:
        example.com/finish-by: "2030-02-01T06:00:00Z"
    spec:
      activeDeadlineSeconds: 7200

Such a pod starts at the time at which the two hours that it may run cost least, and early enough to
end in time. The forecast is a custom resource that something else keeps up to date; after each
change the time is chosen anew. The price may be that of electricity, of spot instances, or the
carbon intensity of the grid. Without a usable forecast pods start at once: a gate that saves money
must not stop work.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from kubestow.plugin import (
    ActionType,
    BasePlugin,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    Handle,
    Named,
    Pod,
    QueueingHint,
    Status,
    unresolvable,
)

FORECASTS: Final = "example.com/v1/priceforecasts"
ANNOTATION: Final = "example.com/finish-by"
WAITING: Final = "waiting until {time}, when the price is {saving} percent lower"
UNREADABLE: Final = (
    'annotation {key}: "{value}" is no time, so the pod starts at once; write it like '
    "2030-01-31T18:00:00Z (RFC 3339)"
)
MAX_STEPS: Final = 1000
"""Prices of a forecast that are read, the first ones by time."""
MAX_PRICE: Final = 1e12
HORIZON_SECONDS: Final = 400 * 86_400.0
"""How long the last price holds, and how far ahead a start may be."""

FloatColumn = NDArray[np.float64]


class Step(msgspec.Struct):
    """A price, from its time on."""

    time: dt.datetime
    price: float


class ForecastSpec(msgspec.Struct):
    """The part of a PriceForecast that its author writes."""

    prices: tuple[Step, ...] = ()


class PriceForecast(Named):
    """A forecast, in any unit of price."""

    spec: ForecastSpec = msgspec.field(default_factory=ForecastSpec)


class PriceGateArgs(msgspec.Struct, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """Arguments of PriceGate."""

    #: Name of the PriceForecast.
    forecast: str = "electricity"
    #: How long a pod without activeDeadlineSeconds runs.
    default_duration: dt.timedelta = dt.timedelta(hours=1)
    #: The least saving for which a pod waits.
    min_saving_percent: int = 10


class Start(NamedTuple):
    """The best time to start."""

    #: Seconds since 1970.
    time: float
    #: Share of the price now that is saved, 0 to 1.
    saving: float


class Prices:
    """The prices of a forecast, summed up so that a period costs two look-ups."""

    def __init__(self, steps: Sequence[Step]) -> None:
        """Sort the steps; unusable ones, such as times without offset from UTC, are left out."""
        usable = {
            each.time.timestamp(): each.price
            for each in steps
            if each.time.tzinfo and abs(each.price) <= MAX_PRICE
        }
        times = sorted(usable)[:MAX_STEPS]
        #: When the prices begin, and the end of the last.
        self._times = np.array([*times, (times[-1] if times else 0.0) + HORIZON_SECONDS])
        prices = np.array([usable[each] for each in times], dtype=np.float64)
        #: The cost of something that runs from the first step until each time, per second.
        self._sums = np.concatenate(
            ([0.0], np.cumsum(prices * np.diff(self._times)[: len(prices)]))
        )

    def best_start(self, now: float, latest: float, seconds: float) -> Start:
        """Return the earliest of the cheapest times from `now` to `latest` to run `seconds`."""
        latest = min(latest, now + HORIZON_SECONDS)
        if len(self._times) < 2 or not self._times[0] <= now < latest:
            return Start(now, 0.0)
        # The cost of a period is linear between the moments at which it begins or ends in a new
        # price, so that the cheapest is one of these.
        edges = np.concatenate((self._times, self._times - seconds))
        inside = edges[(edges > now) & (edges < latest)]
        starts = np.concatenate(([now], np.sort(inside), [latest]))
        costs = self._sum_until(starts + seconds) - self._sum_until(starts)
        best = int(costs.argmin())
        today = float(costs[0])
        return Start(
            float(starts[best]), (today - float(costs[best])) / today if today > 0 else 0.0
        )

    def _sum_until(self, times: FloatColumn) -> FloatColumn:
        found: FloatColumn = np.interp(times, self._times, self._sums)
        return found


class PriceGate(BasePlugin):
    """Holds pods that may wait until the price is low."""

    name = "example.com/PriceGate"
    args_type = PriceGateArgs
    required_resources = (FORECASTS,)
    resource_types: ClassVar[Mapping[str, type[Named]]] = {FORECASTS: PriceForecast}

    def __init__(self, args: PriceGateArgs, handle: Handle) -> None:
        self._args = args
        self._handle = handle
        self._forecasts = handle.listers
        #: The forecast behind `_prices`.
        self._read: PriceForecast | None = None
        self._prices = Prices(())
        #: The text that the owner of a held pod has been told, by UID.
        self._told: dict[str, str] = {}
        #: Pods let in before the forecast was listed, by UID; None afterwards.
        self._early: set[str] | None = set()
        handle.subscriptions.on_object("pods", self._pod_changed)
        handle.subscriptions.on_synced(self._ask_again)

    @staticmethod
    def validate_args(args: PriceGateArgs) -> Iterator[tuple[str, str]]:
        """Yield (path below `args`, message) for each problem."""
        if not args.forecast:
            yield "forecast", "write the name of a PriceForecast"
        if args.default_duration <= dt.timedelta(0):
            yield "defaultDuration", f"{args.default_duration} is no duration; write one like 1h"
        if not 1 <= args.min_saving_percent <= 100:
            message = f"{args.min_saving_percent} is no percentage; write a number from 1 to 100"
            yield "minSavingPercent", message

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Hold the pod until the cheapest time at which it can still end in time."""
        written = pod.metadata.annotations.get(ANNOTATION)
        if written is None:
            return None
        deadline = parse_time(written)
        if deadline is None:
            message = UNREADABLE.format(key=ANNOTATION, value=written)
            self._tell(pod, "Warning", "InvalidDeadline", message)
            return None
        now = self._handle.clock.now()
        seconds = pod.spec.active_deadline_seconds or self._args.default_duration.total_seconds()
        start = self._current_prices().best_start(now, deadline - seconds, seconds)
        percent = int(start.saving * 100)
        if start.time <= now or percent < self._args.min_saving_percent:
            if self._early is not None:
                self._early.add(pod.metadata.uid)
            return None
        message = WAITING.format(time=shown(start.time), saving=percent)
        self._tell(pod, "Normal", "WaitingForPrice", message)
        return unresolvable(message, requeue_after=start.time - now)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register for a new forecast, and for a change of the pod's own deadline."""
        forecast = ClusterEvent("priceforecasts.v1.example.com", ActionType.ALL)
        own = ClusterEvent(EventResource.TARGET_POD, ActionType.UPDATE)
        return (
            ClusterEventWithHint(forecast, self._after_forecast, per_signature=True),
            ClusterEventWithHint(own, self._after_own_update),
        )

    def _after_forecast(
        self, pod: Pod, old: PriceForecast | None, new: PriceForecast | None
    ) -> QueueingHint:
        changed = new or old
        read = changed is not None and changed.metadata.name == self._args.forecast
        return QueueingHint.QUEUE if read else QueueingHint.SKIP

    def _after_own_update(self, pod: Pod, old: Pod, new: Pod) -> QueueingHint:
        before, after = (each.metadata.annotations.get(ANNOTATION) for each in (old, new))
        changed = new.metadata.uid == pod.metadata.uid and before != after
        return QueueingHint.QUEUE if changed else QueueingHint.SKIP

    def _current_prices(self) -> Prices:
        """Return the prices of the newest forecast, read anew only if it changed.

        A subscription would be too late: it is called after the queue has asked the gate again.
        """
        forecast = self._forecasts[FORECASTS].get(self._args.forecast)
        if forecast is not self._read:
            self._read = forecast
            self._prices = Prices(() if forecast is None else forecast.spec.prices)
        return self._prices

    def _ask_again(self) -> None:
        """Let the queue ask about pods that were listed before the forecast."""
        early, self._early = self._early, None
        self._handle.recheck(early or ())

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and (new is None or new.spec.node_name):
            self._told.pop(old.metadata.uid, None)

    def _tell(self, pod: Pod, kind: str, reason: str, message: str) -> None:
        """Record an Event, since a gated pod has no condition; none that says the same again."""
        if self._told.get(pod.metadata.uid) != message:
            self._told[pod.metadata.uid] = message
            self._handle.events.record(pod, kind, reason, "Scheduling", message)


def parse_time(text: str) -> float | None:
    """Return the seconds since 1970 of a time with an offset from UTC; None for anything else.

    >>> parse_time("2030-01-31T18:00:00Z"), parse_time("2030-01-31T18:00:00")
    (1896112800.0, None)
    """
    try:
        time = dt.datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if time.tzinfo is None else time.timestamp()


def shown(time: float) -> str:
    """Return a time as Kubernetes writes it.

    >>> shown(1896112800.0)
    '2030-01-31T18:00:00Z'
    """
    return dt.datetime.fromtimestamp(time, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
