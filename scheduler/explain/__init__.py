"""Explaining what the scheduler decided or would decide; so far the records of the answers."""
