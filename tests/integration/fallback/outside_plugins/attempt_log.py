"""A plugin for `kubestow run --plugin-dir`: one line per attempt in the file $ATTEMPT_LOG."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from scheduler.api import Pod
from scheduler.framework import SKIP, CycleState, Status


class AttemptLog:
    """Notes pods in PreFilter, which runs once per attempt (and pass, with StrictFirst)."""

    name = "AttemptLog"
    pre_filter_reusable = False

    def __init__(self, args: object, handle: Any) -> None:
        self._file = Path(os.environ["ATTEMPT_LOG"])

    def pre_filter(self, state: CycleState, pod: Pod, table: Any) -> Status:
        with self._file.open("a") as file:
            file.write(f"{pod.metadata.namespace}/{pod.metadata.name}\n")
        return SKIP
