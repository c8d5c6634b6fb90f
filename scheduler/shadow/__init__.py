"""The dry run beside the scheduler in force: it decides the same pods, sends nothing, and compares.

`unsent` takes the place of what writes, `following` of what binds; everything else is the service
(docs/shadow.md). `judging` and `tally` are pure.
"""
