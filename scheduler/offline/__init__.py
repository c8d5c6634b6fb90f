"""The offline world: the scheduler and a cluster in one process, without a server, in virtual time.

The same engine, queue and plugins that decide in a cluster decide here, from a dump of a cluster or
from objects that a script makes. docs/simulate.md has a first example.
"""

from scheduler.offline import generator, openb
from scheduler.offline.builders import JsonObject, node, pod
from scheduler.offline.consolidation import Consolidation, Emptied, Kept, consolidate
from scheduler.offline.editing import WorldError
from scheduler.offline.growth import NodeKind, NodesNeeded, node_like, nodes_needed
from scheduler.offline.reading import Objects
from scheduler.offline.records import (
    Capacity,
    Eviction,
    Placement,
    Result,
    Verdict,
    Waiting,
    to_json,
)
from scheduler.offline.shown import progress
from scheduler.offline.trace import Arrival, read_csv
from scheduler.offline.trial import Trial
from scheduler.offline.world import World

__all__ = [
    "Arrival",
    "Capacity",
    "Consolidation",
    "Emptied",
    "Eviction",
    "JsonObject",
    "Kept",
    "NodeKind",
    "NodesNeeded",
    "Objects",
    "Placement",
    "Result",
    "Trial",
    "Verdict",
    "Waiting",
    "World",
    "WorldError",
    "consolidate",
    "generator",
    "node",
    "node_like",
    "nodes_needed",
    "openb",
    "pod",
    "progress",
    "read_csv",
    "to_json",
]
