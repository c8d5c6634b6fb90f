"""The controllers of deferred quotas that one configuration needs."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from plugins.resource_quota.arguments import API
from plugins.resource_quota.enforcement import QuotaEnforcement
from scheduler.client.dispatcher import Dispatcher
from scheduler.client.rest import ApiClient
from scheduler.controllers.quota_usage.native_usage import NativeUsage
from scheduler.controllers.quota_usage.reservations import SharedReservations
from scheduler.controllers.quota_usage.switched_off import report_unenforced
from scheduler.controllers.quota_usage.usage_writer import UsageWriter, UsageWriterMetrics
from scheduler.framework import Events, Subscriptions
from scheduler.framework.plugin_names import RESOURCE_QUOTA


@dataclass(frozen=True, slots=True)
class QuotaControllers:
    """Each is None when nothing needs it."""

    enforcement: QuotaEnforcement | None
    usage_writer: UsageWriter | None
    native_usage: NativeUsage | None
    reservations: SharedReservations | None
    #: Looks once for quotas with deferred limits, where no usage writer runs.
    report_unenforced: Callable[[], Coroutine[Any, Any, None]] | None

    def work(self) -> Iterator[tuple[str, Callable[[], Coroutine[Any, Any, None]]]]:
        """Yield a name and the beginning of each that runs while this process leads."""
        for name, controller in (
            ("quota usage writer", self.usage_writer),
            ("native quota usage", self.native_usage),
            ("shared quota reservations", self.reservations),
        ):
            if controller is not None:
                yield name, controller.run
        if self.report_unenforced is not None:
            yield "unenforced quotas", self.report_unenforced


def build_quota_controllers(
    shared: Mapping[str, Any],
    client: ApiClient,
    derive: Callable[[], ApiClient],
    dispatcher: Dispatcher,
    subscriptions: Subscriptions,
    *,
    events: Events,
    metrics: UsageWriterMetrics,
    random: Random,
) -> QuotaControllers:
    """Build the controllers; they see changes of quotas from here on.

    `shared` has the enforcement of ResourceQuota, where a profile enforces quotas. `client` is the
    one that binds, since reservations are part of binding; `derive` makes one with a rate limit of
    its own, so that thousands of quotas do not delay binds.
    """

    async def unenforced() -> None:
        await report_unenforced(client, events, random)

    enforcement = shared.get(RESOURCE_QUOTA)
    if not isinstance(enforcement, QuotaEnforcement):
        return QuotaControllers(None, None, None, None, unenforced)
    writer = native = reservations = None
    own, mode = derive(), enforcement.ledger.mode
    if mode.deferred_keys:
        writer = UsageWriter(
            own, dispatcher, enforcement, subscriptions, metrics=metrics, random=random
        )
    if mode.native:
        native = NativeUsage(
            own, dispatcher, enforcement, events=events, metrics=metrics, random=random
        )
    if enforcement.args.reservation == API:
        reservations = SharedReservations(
            client, dispatcher, enforcement, subscriptions, random=random
        )
    return QuotaControllers(
        enforcement, writer, native, reservations, unenforced if writer is None else None
    )
