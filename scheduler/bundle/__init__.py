"""Bundles: a scheduler's state and decisions in one file, to look into and to replay.

docs/bundles.md documents the format. `writing` and `reading` handle the file, `objects` turns typed
objects into what may leave the cluster, `redaction` replaces names. Pure, except that `reading`
opens the file.
"""
