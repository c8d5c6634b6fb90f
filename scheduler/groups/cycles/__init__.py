"""Scheduling cycles of groups: all members of a group that must be placed at once, or none.

`cycle` places the members in runs of equal pods (`run`), in one domain of the topology if the group
asks for that (`placements`), and makes room by `preemption` or by a `reservation`.
"""
