"""Sweeps: many runs of one function, on local processes or on a Dask cluster.

Each result is a file of its own in a folder, written as soon as the run has ended, so that a sweep
that was interrupted continues where it was. The runner knows nothing of scheduling: a run is a name
and parameters, and the function makes a JSON value of them. docs/sweeps.md has an example.
"""

from simulator.sweeps.runs import Function, SweepError, SweepOutcome, SweepRun, digest
from simulator.sweeps.storage import read
from simulator.sweeps.sweep import Summary, sweep

__all__ = [
    "Function",
    "Summary",
    "SweepError",
    "SweepOutcome",
    "SweepRun",
    "digest",
    "read",
    "sweep",
]
