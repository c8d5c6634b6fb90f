"""Explaining what the scheduler decided or would decide, and what would help a pending pod.

`records` are the answers, `pages` gives them, and `what_if` finds some of them by trials.
"""
