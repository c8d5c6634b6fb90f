"""LearnedScore places by a model; a model that does not fit is an error of the configuration."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import numpy as np
import pytest

from examples.learned_score import learned_score
from examples.learned_score.learned_score import (
    FEATURES,
    LearnedScore,
    LearnedScoreArgs,
    Model,
    path_of,
)
from scheduler.framework import ConfigurationError
from scheduler.framework.plugin_class import class_problems
from scheduler.testing import Cluster, check_plugin, node, pod

EXAMPLE: Final = Path(__file__).parents[3] / "examples" / "learned_score"
# They import ONNX and scikit-learn, which takes seconds.
pytestmark = pytest.mark.slow
MISSING: Final = "kubestow[learned] is not installed"
if "CI" not in os.environ:
    # There, what is missing is an error.
    pytest.importorskip("onnxruntime", reason=MISSING)

LARGE: Final = pod("large", cpu=4, memory="16Gi")


@pytest.fixture(scope="module")
def training() -> ModuleType:
    """The training script; it imports the plugin as a neighbour, as plugins are imported."""
    if "CI" not in os.environ:
        pytest.importorskip("skl2onnx", reason="skl2onnx is not installed")
    spec = importlib.util.spec_from_file_location("train", EXAMPLE / "train.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(EXAMPLE))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(EXAMPLE))
        sys.modules.pop("learned_score", None)
    return module


@pytest.mark.parametrize(
    ("nodes", "made", "chosen"),
    [
        # One CPU of eight costs one of two large pods, one of six CPUs none.
        ({"whole": (8, "32Gi"), "odd": (6, "24Gi")}, pod("p", cpu=1, memory="1Gi"), "odd"),
        ({"whole": (16, "64Gi"), "tight": (2, "8Gi")}, pod("p", cpu=2, memory="8Gi"), "tight"),
    ],
)
def test_room_for_large_pods_is_kept(
    cluster: Cluster, nodes: dict[str, tuple[int, str]], made: dict[str, Any], chosen: str
) -> None:
    cluster.enable(LearnedScore, weight=100)
    for name, (cpu, memory) in nodes.items():
        cluster.add_node(node(name, cpu=cpu, memory=memory))
    cluster.add_pods(made)
    cluster.assert_scheduled("p", node=chosen)


def fitting(cluster: Cluster) -> int:
    """Place small pods on nodes of three sizes; return how many large ones fit afterwards."""
    for number in range(12):
        cpu = (4, 6, 8)[number % 3]
        cluster.add_node(node(f"node-{number}", cpu=cpu, memory=f"{4 * cpu}Gi"))
    cluster.add_pods(pod("small", cpu="500m", memory="2Gi"), count=24)
    cluster.assert_scheduled("small-23")
    return cluster.world.how_many_fit(LARGE).total


def test_more_large_pods_fit_with_the_configuration_of_the_example() -> None:
    with (
        Cluster(config=EXAMPLE / "config.yaml", plugin_dirs=[EXAMPLE]) as learned,
        Cluster() as spread,
    ):
        assert fitting(learned) >= fitting(spread) + 4


def test_both_forms_and_every_batch_agree() -> None:
    report = check_plugin(LearnedScore, clusters=4)
    assert report.scores > 1
    assert list(class_problems(LearnedScore)) == []


@pytest.mark.slow
def test_a_model_is_trained_again_to_the_same_bytes(training: ModuleType, tmp_path: Path) -> None:
    samples = training.data(2)
    content = training.train(*samples)
    assert content == training.train(*samples)
    file = tmp_path / "model.onnx"
    file.write_bytes(content)
    matrix, lost = samples
    predicted = Model(file).predict(matrix)
    assert np.abs(predicted - lost).mean() < 0.5
    assert np.isfinite(predicted).all()


@pytest.mark.slow
def test_the_model_knows_placements_that_it_was_not_trained_on(training: ModuleType) -> None:
    pairs = [each for seed in range(10_000, 10_004) for each in training.samples(seed)]
    predicted = Model(EXAMPLE / "room.onnx").predict(np.concatenate([each for each, _ in pairs]))
    lost = np.array([each for _, each in pairs])
    assert (np.rint(predicted) == lost).mean() > 0.9


def problems(args: LearnedScoreArgs) -> list[tuple[str, str]]:
    return list(LearnedScore.validate_args(args))


def test_the_model_of_the_example_has_no_problems() -> None:
    assert path_of(LearnedScoreArgs()).stat().st_size < 100_000
    assert problems(LearnedScoreArgs()) == []


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("absent.onnx", "absent.onnx: No such file or directory"),
        ("config.yaml", "config.yaml is no ONNX model"),
        ("/dev/null", "null is no ONNX model"),
    ],
)
def test_a_file_that_is_no_model_is_named(file: str, message: str) -> None:
    ((path, text),) = problems(LearnedScoreArgs(model=file))
    assert path == "model"
    assert message in text


def test_a_model_for_other_features_is_refused(
    training: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "FEATURES", tuple(reversed(FEATURES)))
    file = tmp_path / "other.onnx"
    file.write_bytes(training.train(*training.data(1)))
    ((path, text),) = problems(LearnedScoreArgs(model=str(file)))
    assert path == "model"
    assert "has the features 'memory_left,cpu_left,memory_free,cpu_free', this plugin" in text


def test_a_file_that_is_too_large_is_not_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learned_score, "MAX_MODEL_BYTES", 10)
    ((_, text),) = problems(LearnedScoreArgs())
    assert text == "room.onnx has more than 10 bytes"


def test_a_missing_extra_is_a_problem_of_the_configuration(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learned_score, "onnxruntime", None)
    with pytest.raises(ConfigurationError, match=r"args\.model: needs the package onnxruntime"):
        cluster.enable(LearnedScore)
