"""The client side of the Kubernetes API: reading (reflectors) and writing (dispatcher).

May import `scheduler.api` only. Every object belongs to one event loop; every call has a timeout.

How the parts fit: `load_configuration` finds cluster and credentials, a `Transport` owns the
session, an `ApiClient` is one purpose on it (user agent, rate limit, fence). A `Reflector` follows
one resource into a `Store`; the `Dispatcher` sends binds, status patches and the events of an
`EventRecorder`; a `LeaderElector` opens and shuts the fence.
"""
