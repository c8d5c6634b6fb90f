"""Deferred ResourceQuota (KEP-5465): arithmetic, ledger and plugin. Pure: no I/O, no clock."""
