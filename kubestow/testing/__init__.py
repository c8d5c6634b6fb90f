"""The test kit for authors of plugins: a cluster in virtual time, and the contract suite.

    from kubestow.testing import Cluster, check_plugin, node, pod

Strategies for Hypothesis are in `kubestow.testing.strategies`.
"""

from kubestow import packages

packages.check("config", "plugins", "scheduler")

from scheduler import testing
from scheduler.testing import *

__all__: list[str] = []
__all__ += testing.__all__
