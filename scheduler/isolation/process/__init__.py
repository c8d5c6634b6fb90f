"""Isolated plugins in processes of their own (docs/decisions/0010-isolated-plugins.md).

`evaluator` starts and ends the process and calls the plugin, `child` is one such process as the
scheduler sees it, `table_copy` keeps its copy of the nodes up to date, `messages` is what is sent,
and `worker` is what runs in the process.
"""
