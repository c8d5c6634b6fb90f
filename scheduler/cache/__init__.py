"""The live cache: nodes in columns, their pods, and assumed pods."""

from scheduler.cache.cache import Cache
from scheduler.cache.node_info import NodeOverlay
from scheduler.cache.node_table import NodeTable

__all__ = ["Cache", "NodeOverlay", "NodeTable"]
