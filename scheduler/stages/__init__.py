"""The long-lived objects of a run, in five stages that are built in order.

They are connections, state, profiles, scheduling and controllers. Each stage is a frozen object,
built from the earlier ones. `wiring` builds them all.
"""
