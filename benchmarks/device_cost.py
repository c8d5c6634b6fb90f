"""`python -m benchmarks.device_cost`: the cost of DynamicResources for pods without claims.

Times vary by more than this cost. So do counts of machine instructions: those of the memory
allocator depend on all that is in memory, by several thousand for an attempt. The bytecodes that
the interpreter executes vary by less than 0.1 %. They are counted in attempts of the engine at
equal pods, with all default plugins and without DynamicResources, after the first pods have filled
its caches.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any, Final

import click

from benchmarks.engine_world import EngineWorld
from scheduler.framework import plugin_names

BAR: Final = 0.01
_FIRST: Final = 10
"""Pods that are not counted."""


class _Bytecodes:
    """Counts bytecodes, as the trace function of the interpreter."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> _Bytecodes:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        self.count += event == "opcode"
        return self


def bytecodes(nodes: int, pods: int, *, devices: bool) -> float:
    """Return the bytecodes of an attempt at a pod, with the plugin or without."""
    world = EngineWorld(nodes, without="" if devices else plugin_names.DYNAMIC_RESOURCES)
    for pod in [world.pod() for _ in range(_FIRST)]:
        world.attempt(pod)
    counted = [world.pod() for _ in range(pods)]
    bytecodes = _Bytecodes()
    earlier = sys.gettrace()
    sys.settrace(bytecodes)
    try:
        for pod in counted:
            world.attempt(pod)
    finally:
        sys.settrace(earlier)
    return bytecodes.count / pods


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--nodes", default=100, help="Nodes of the cluster.")
@click.option("--pods", default=500, type=click.IntRange(1), help="Pods that are counted.")
def main(nodes: int, pods: int) -> None:
    """Count the bytecodes of an attempt at a pod without claims, with the plugin and without.

    Exits with 1 if the plugin takes more than 1 %.
    """
    counts = [bytecodes(nodes, pods, devices=each) for each in (True, False)]
    share = counts[0] / counts[1] - 1
    click.echo(f"bytecodes of an attempt with DynamicResources:    {counts[0]:,.0f}")
    click.echo(f"bytecodes of an attempt without DynamicResources: {counts[1]:,.0f}")
    click.echo(f"cost of the plugin for a pod without claims: {share:.2%}")
    if share > BAR:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
