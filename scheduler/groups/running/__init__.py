"""The part of the scheduling loop for groups: runs their cycles, and follows them in between.

`scheduling` runs the cycles. Groups that certainly do not fit are `waiting`; starved ones get
`reservations`, and those for which pods were evicted keep the room (`evictions`).
"""
