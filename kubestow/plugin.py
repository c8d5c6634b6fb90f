"""Everything that a plugin imports: extension points, statuses, the Handle, objects of the API.

    from kubestow.plugin import CycleState, NodeInfo, Pod, Status

The names are the same objects as in the packages behind this module, which may be rearranged; this
module keeps them. It loads neither the running scheduler nor the simulator.
"""

from kubestow import packages

packages.check("scheduler")

from scheduler import api, framework
from scheduler.api import *
from scheduler.framework import *
from scheduler.framework.bundled import MemoryInBundle, StateInBundle
from scheduler.framework.grouping import AlikePlugin
from scheduler.framework.plugin import (
    AsyncPostFilterPlugin,
    AsyncPreFilterPlugin,
    DryRunPostFilterPlugin,
    UnschedulableReasonPlugin,
)

__all__ = [
    "AlikePlugin",
    "AsyncPostFilterPlugin",
    "AsyncPreFilterPlugin",
    "DryRunPostFilterPlugin",
    "MemoryInBundle",
    "StateInBundle",
    "UnschedulableReasonPlugin",
]
__all__ += api.__all__
__all__ += framework.__all__
