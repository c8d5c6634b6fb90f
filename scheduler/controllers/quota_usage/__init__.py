"""What the leader does for deferred quotas beside scheduling: it publishes their usage.

`publication` decides what to write and when (pure), `usage_writer` writes it. Where that does not
run, `switched_off` says so on the quotas concerned. `native_usage` is for API servers that
implement KEP-5465, `reservations` for several active schedulers. `controllers` builds those that a
configuration needs.
"""
