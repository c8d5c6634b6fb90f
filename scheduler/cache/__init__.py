"""The live cache: nodes in columns, the pods on them, and assumed pods."""

from scheduler.cache.cache import (
    Cache,
)
from scheduler.cache.node_info import (
    NodeOverlay,
)
from scheduler.cache.node_table import (
    NodeTable,
)

__all__ = [
    "Cache",
    "NodeOverlay",
    "NodeTable",
]
