"""Functions that the runs of tests call; workers import them by name."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def double(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return twice a number, or raise."""
    number = parameters["number"]
    if number < 0:
        raise ValueError(f"{number} is negative")
    return {"b": 2 * number, "a": [number, "é"]}


def packed(parameters: Mapping[str, Any]) -> Any:
    """Return the placements of a small world; kill the process first if `file` is not there."""
    if "file" in parameters:
        killed_once(parameters)
    from scheduler import offline  # other functions begin faster without it

    with offline.World(seed=parameters["seed"]) as world:
        world.add_nodes(offline.node(cpu=4), count=3)
        world.add_pods(offline.pod(cpu=1), count=5)
        world.schedule()
        return world.placements()


def killed_once(parameters: Mapping[str, Any]) -> str:
    """End the process of the first attempt as if memory had run out."""
    begun = Path(parameters["file"])
    if not begun.exists():
        begun.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return "second attempt"


def always_killed(parameters: Mapping[str, Any]) -> str:
    """End the process, every time, of the runs that say so."""
    if parameters.get("killed"):
        os.kill(os.getpid(), signal.SIGKILL)
    return "finished"


def no_json(_: Mapping[str, Any]) -> object:
    """Return a value that JSON cannot hold."""
    return object()


def ended(_: Mapping[str, Any]) -> None:
    """Leave as a script would."""
    raise SystemExit(4)


def paused(parameters: Mapping[str, Any]) -> None:
    """Write the number of the process into a pipe, and never return."""
    Path(parameters["pipe"]).write_text(str(os.getpid()))
    while True:
        signal.pause()
