"""Trains the model of LearnedScore on placements in the offline world, and writes it.

    python examples/learned_score/train.py

Each sample is a node of a random cluster, a pod, and what the offline world answers: how many large
pods fit the cluster no more if the pod is placed there. Seeds make the samples repeatable. It needs
the packages of `requirements-training.lock`, which `make test-slow` adds to the environment.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, Final

import numpy as np
from learned_score import (  # type: ignore[import-not-found]  # beside this file
    FEATURES,
    VERSION,
    Matrix,
    features_of_rows,
)
from numpy.typing import NDArray
from skl2onnx import to_onnx
from sklearn.ensemble import GradientBoostingRegressor

from kubestow import offline
from kubestow.plugin import Pod

LARGE: Final = offline.pod("large", cpu=4, memory="16Gi")
SIZES: Final = ((4, 16), (8, 32), (16, 64), (16, 128))
"""CPUs and GiB of nodes."""
MAX_LARGE: Final = 100
PODS_PER_NODE: Final = 4


def samples(seed: int) -> Iterator[tuple[Matrix, int]]:
    """Yield the features of a placement, and the large pods that fit no more."""
    random = Random(seed)
    with offline.World(seed=seed) as world:
        for number in range(4):
            cpu, memory = random.choice(SIZES)
            world.add_nodes(offline.node(f"node-{number}", cpu=cpu, memory=f"{memory}Gi"))
        for number in range(random.randrange(12)):
            world.add_pods(random_pod(random, f"pod-{number}"))
        world.schedule()
        before = world.how_many_fit(LARGE, MAX_LARGE).total
        table = world._assembly.state.cache.table
        for row in table.rows.tolist() * PODS_PER_NODE:
            made = random_pod(random, "sample")
            _, pod = world._decoded(made)
            matrix = features_of_rows(intern(world, pod), table, np.array([row], dtype=np.intp))
            # A node without room for the pod is no feasible node.
            if (matrix[:, 2:] < 0).any():
                continue
            with world.trial() as trial:
                made["spec"]["nodeName"] = table.names[row]
                trial.add(made)
                yield matrix, before - trial.how_many_fit(LARGE, MAX_LARGE).total


def random_pod(random: Random, name: str) -> dict[str, Any]:
    """Return a pod that is small in most cases."""
    cpu = random.choice((0.1, 0.25, 0.5, 1, 1, 2, 2, 4, 6))
    return offline.pod(name, cpu=cpu, memory=f"{random.choice((1, 2, 4, 8, 16, 24))}Gi")


def intern(world: offline.World, pod: Pod) -> Pod:
    """Return the pod with its signature, which has the requests."""
    world._assembly.state.signatures.intern(pod)
    return pod


def train(matrix: Matrix, lost: NDArray[np.float64], seed: int = 0) -> bytes:
    """Return the model as an ONNX file, with the names of its features."""
    model = GradientBoostingRegressor(n_estimators=50, max_depth=4, random_state=seed)
    model.fit(matrix, lost)
    found = to_onnx(model, matrix[:1], target_opset={"": 17, "ai.onnx.ml": 3})
    for key, value in {"features": ",".join(FEATURES), "version": VERSION}.items():
        entry = found.metadata_props.add()
        entry.key, entry.value = key, value
    content: bytes = found.SerializeToString()
    return content


def data(worlds: int) -> tuple[Matrix, NDArray[np.float64]]:
    """Return the samples of that many worlds: features, and large pods that fit no more."""
    pairs = [each for seed in range(worlds) for each in samples(seed)]
    matrix = np.concatenate([each for each, _ in pairs])
    return matrix, np.array([lost for _, lost in pairs], dtype=np.float64)


def main() -> None:
    """Train, and write the file."""
    parser = argparse.ArgumentParser(description="Train the model of LearnedScore.")
    parser.add_argument("--worlds", type=int, default=400)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "room.onnx")
    options = parser.parse_args()
    content = train(*data(options.worlds))
    options.output.write_bytes(content)
    print(f"{options.output}: {len(content)} bytes")  # noqa: T201 - a command


if __name__ == "__main__":
    main()
