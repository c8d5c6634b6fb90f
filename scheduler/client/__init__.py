"""The client side of the Kubernetes API: reading (reflectors) and writing (dispatcher).

May import `scheduler.api` only. Everything runs on one event loop; every call has a timeout.
"""
