"""Runs the plugins of a profile on nodes without an attempt: nothing of the state changes.

`examination` runs them, `explainer` explains a pod with it, `node_report` one node, and
`group_examination` a group; `trial_decision` decides as an attempt would.
"""
