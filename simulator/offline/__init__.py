"""The offline world: the scheduler and a cluster in one process, without a server, in virtual time.

The same engine, queue and plugins that decide in a cluster decide here, from a dump of a cluster or
from objects that a script makes. docs/simulate.md has a first example.
"""

from simulator.offline.builders import JsonObject, node, pod
from simulator.offline.editing import WorldError
from simulator.offline.reading import Objects
from simulator.offline.records import Capacity, Eviction, Placement, Result, Verdict, Waiting
from simulator.offline.trace import Arrival, read_csv
from simulator.offline.trial import Trial
from simulator.offline.world import World

__all__ = [
    "Arrival",
    "Capacity",
    "Eviction",
    "JsonObject",
    "Objects",
    "Placement",
    "Result",
    "Trial",
    "Verdict",
    "Waiting",
    "World",
    "WorldError",
    "node",
    "pod",
    "read_csv",
]
