"""Sweeps: many runs of one function, on local processes or on a Dask cluster (docs/sweeps.md)."""

from kubestow import packages

packages.check()

from simulator import sweeps
from simulator.sweeps import *

__all__: list[str] = []
__all__ += sweeps.__all__
