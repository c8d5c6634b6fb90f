"""A plugin that draws lots, in a module of its own, since modules are checked."""

from __future__ import annotations

import random
from datetime import datetime
from typing import ClassVar

from scheduler.api import Pod
from scheduler.framework import CycleState, Handle, NoArgs, NodeInfo


class Lottery:
    """Scores at random."""

    name: ClassVar[str] = "example.com/Lottery"

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        self.started = datetime.now()  # noqa: DTZ005 - the fault that is to be found

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return random.randrange(100)
