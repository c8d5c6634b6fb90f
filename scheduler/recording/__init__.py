"""Bundles: a scheduler's state and decisions in one file, for inspection and replay.

docs/bundles.md documents the format. `writing` and `reading` handle the file, `objects` removes
from objects what must not leave the cluster, and `redaction` replaces names: pure, except that
`reading` opens the file. `streams` writes bundles of the running scheduler, from a `snapshot` and,
for recordings, the `journal` of what followed.
"""
