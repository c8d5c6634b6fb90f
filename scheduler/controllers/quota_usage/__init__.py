"""What the leader does for deferred quotas beside scheduling: it publishes their usage.

`publication` decides what to write and when (pure), `usage_writer` writes it. Where that does not
run, `switched_off` says so on the quotas concerned. `native_usage` is for API servers that
implement KEP-5465, `reservations` for several active schedulers.
"""

from scheduler.controllers.quota_usage.native_usage import (
    NativeUsage,
)
from scheduler.controllers.quota_usage.reservations import (
    SharedReservations,
)
from scheduler.controllers.quota_usage.switched_off import (
    report_unenforced,
)
from scheduler.controllers.quota_usage.usage_writer import (
    UsageWriter,
)

__all__ = [
    "NativeUsage",
    "SharedReservations",
    "UsageWriter",
    "report_unenforced",
]
