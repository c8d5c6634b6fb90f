"""The embedded cluster of kubestow: an API server in this process, a fake kubelet, faults, a clock.

Public: `EmbeddedCluster` for tests and the demo, `serve` for the command line, and the parts that
drive one (`SimClock`, `FaultRule`, `Settings`, `ApiError`). It imitates kube-apiserver v1.37 as far
as schedulers, kubectl and our tests look; it is no conformant API server and keeps nothing on disk.
"""

from simulator.clock import SimClock
from simulator.cluster import EmbeddedCluster, serve
from simulator.controllers.kubelet import Settings
from simulator.errors import ApiError
from simulator.faults import FaultRule

__all__ = ["ApiError", "EmbeddedCluster", "FaultRule", "Settings", "SimClock", "serve"]
