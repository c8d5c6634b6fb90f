"""What the leader does for deferred quotas beside scheduling: it publishes their usage.

`publication` decides what to write and when (pure), `usage_writer` writes it.
"""

from scheduler.service.quota.publication import Publications
from scheduler.service.quota.usage_writer import UsageWriter, UsageWriterStatistics

__all__ = ["Publications", "UsageWriter", "UsageWriterStatistics"]
