"""The live cache: nodes in columns, the pods on them, and assumed pods."""

from scheduler.cache.cache import Cache, CacheStatistics
from scheduler.cache.node_info import NodeOverlay, NodeView
from scheduler.cache.node_table import NodeTable

__all__ = ["Cache", "CacheStatistics", "NodeOverlay", "NodeTable", "NodeView"]
