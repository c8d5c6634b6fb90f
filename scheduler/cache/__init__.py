"""The live cache: nodes in columns, and their pods, bound or assumed."""

from scheduler.cache.cache import Cache
from scheduler.cache.node_info import NodeOverlay
from scheduler.cache.node_table import NodeTable

__all__ = ["Cache", "NodeOverlay", "NodeTable"]
