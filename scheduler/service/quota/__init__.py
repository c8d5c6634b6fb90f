"""What the leader does for deferred quotas beside scheduling: it publishes their usage.

`publication` decides what to write and when (pure), `usage_writer` writes it. Where that does not
run, `switched_off` says so on the quotas concerned. `native_usage` is for API servers that
implement KEP-5465, `reservations` for several active schedulers.
"""

from scheduler.service.quota.native_usage import NativeUsage
from scheduler.service.quota.publication import Publications
from scheduler.service.quota.reservations import SharedReservations
from scheduler.service.quota.switched_off import report_unenforced
from scheduler.service.quota.usage_writer import UsageWriter, UsageWriterStatistics

__all__ = [
    "NativeUsage",
    "Publications",
    "SharedReservations",
    "UsageWriter",
    "UsageWriterStatistics",
    "report_unenforced",
]
