"""A sweep: do large pods fit more often if small ones are packed? Two policies, ten seeds each.

python examples/sweep/study.py results
"""

from __future__ import annotations

import random
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from kubestow import offline, sweeps

HERE = Path(__file__).parent


def large_pods_placed(parameters: Mapping[str, Any]) -> int:
    """Fill a cluster with small pods of random sizes, then count the large ones that fit."""
    sizes = random.Random(parameters["seed"])
    config = HERE / f"{parameters['policy']}.yaml"
    with offline.World(config=config, seed=parameters["seed"]) as world:
        world.add_nodes(offline.node(cpu=16, memory="64Gi"), count=20)
        for number in range(120):
            world.add(offline.pod(f"small-{number}", cpu=sizes.choice([0.5, 1, 2])))
        world.schedule()
        world.add_pods(offline.pod("large", cpu=12), count=20)
        return len(world.schedule().placed)


def main(folder: str, processes: int | None = None) -> None:
    """Run what is not finished yet, and print the mean of each policy."""
    runs = [
        sweeps.SweepRun(f"{policy}-{seed}", {"policy": policy, "seed": seed})
        for policy in ("spread", "pack")
        for seed in range(10)
    ]
    version = sweeps.digest(HERE)  # results are reused as long as these files stay the same
    summary = sweeps.sweep(
        large_pods_placed, runs, folder, processes=processes, version=version, console=Console()
    )
    if summary.failed:
        sys.exit(f"failed: {', '.join(summary.failed)}")
    found: dict[str, list[int]] = {}
    for outcome in sweeps.read(folder):
        found.setdefault(outcome.run.parameters["policy"], []).append(outcome.result)
    for policy, placed in found.items():
        print(f"{policy}: {sum(placed) / len(placed):.1f} of 20 large pods")  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1])
