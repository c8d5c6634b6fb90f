"""Controllers of deferred quotas on the leader: they publish usage.

`publication` decides what to write and when (pure), `usage_writer` writes it. `native_usage` is for
API servers that implement KEP-5465, `reservations` for several active schedulers; `switched_off`
reports quotas that are not enforced. All writes go through `quota_patcher`. `controllers` builds
the ones that a configuration needs.
"""
