"""The command line, top of the stack: `kubestow`, `kube-scheduler`, `python -m scheduler`."""

from scheduler.cli.entry import main

__all__ = ["main"]
