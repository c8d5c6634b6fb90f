"""The test kit for authors of plugins: a cluster in virtual time, and the contract suite.

`Cluster` runs the whole scheduler with your plugin, in this process and without a server; pytest
gives one to every test that has an argument `cluster` (`kubestow.pytest_plugin`). The contract
suite calls a plugin in all the ways in which the scheduler does. docs/plugins.md shows both.
"""

from scheduler.offline.builders import node, pod
from scheduler.offline.editing import WorldError
from scheduler.offline.event_log import RecordedEvent
from scheduler.testing.cluster import Cluster
from scheduler.testing.contract import (
    ContractViolation,
    PluginCase,
    check_plugin_contract,
    check_reuse_contract,
)
from scheduler.testing.examination import PluginReport, check_plugin
from scheduler.testing.snapshots import Snapshot
from scheduler.testing.speed import Speed

__all__ = [
    "Cluster",
    "ContractViolation",
    "PluginCase",
    "PluginReport",
    "RecordedEvent",
    "Snapshot",
    "Speed",
    "WorldError",
    "check_plugin",
    "check_plugin_contract",
    "check_reuse_contract",
    "node",
    "pod",
]
