"""HTTP extenders: their protocol, their part in a scheduling cycle, and the calls.

`protocol`, `extender` and `circuit_breaker` are pure and known to the engine. `http_client`,
`transport` and `binder` do the I/O; only the service uses them.
"""
