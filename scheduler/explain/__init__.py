"""Explaining what the scheduler decided or would decide, and what would help a pending pod.

`records` are the answers and `pages` gives them. `examining` runs plugins without an attempt, and
`what_if` tries changes.
"""
