"""Checkpoint: lets a world go on from an earlier state, without a copy of it.

Virtual time does not go back, and pods that wait have been attempted more often. All else that
decides is as it was: objects, the order of the nodes, random state and rotation.
"""

from __future__ import annotations

from scheduler.offline.world import World


class Checkpoint:
    """The state of a world in which nothing is on its way, as `World.schedule` leaves it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._random = world._assembly.random.getstate()
        self._rotations = {
            name: each.search.rotation
            for name, each in world._assembly.scheduling.engine.algorithms.items()
        }
        world._assembly.tables.record()

    def put_back(self) -> None:
        """Take back what has happened since; pods that waited then wait again."""
        scheduler = self._world._assembly
        scheduler.tables.put_back()
        self._world.schedule()
        scheduler.random.setstate(self._random)
        for name, rotation in self._rotations.items():
            scheduler.scheduling.engine.algorithms[name].search.rotation = rotation
