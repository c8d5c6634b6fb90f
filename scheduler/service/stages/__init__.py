"""The long-lived objects of a run, in five stages that are built one after the other.

Connections, state, profiles, scheduling, controllers: each stage is frozen and is given the earlier
ones. `wiring` builds them all.
"""
