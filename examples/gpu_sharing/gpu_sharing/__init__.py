"""Plugins for GPU sharing: GpuSharing, and the six policies of the FGD paper."""

from .fragmentation import Fgd
from .policies import BestFit, DotProd, GpuClustering, GpuPacking, RandomDevice
from .sharing import GpuSharing

__all__ = [
    "BestFit",
    "DotProd",
    "Fgd",
    "GpuClustering",
    "GpuPacking",
    "GpuSharing",
    "RandomDevice",
]
