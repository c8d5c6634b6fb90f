"""Explaining what the scheduler decided or would decide, and what would help a pending pod.

`records` are the answers, `what_if` finds them by trials.
"""
