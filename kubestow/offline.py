"""The offline world: the scheduler and a cluster in one process, without a server.

    from kubestow import offline

    world = offline.World()
    world.add_nodes(offline.node("n1"))

docs/simulate.md has a first example.
"""

from kubestow import packages

packages.check("config", "plugins", "scheduler")

from scheduler import offline
from scheduler.offline import *

__all__: list[str] = []
__all__ += offline.__all__
