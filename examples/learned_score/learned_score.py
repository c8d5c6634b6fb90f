"""LearnedScore, a columnar Score: a small model says how much room for large pods a node loses.

The model is an ONNX file, which train.py learns from placements in the offline world; the runtime
is the optional extra `kubestow[learned]`. A model is data: loading it runs no code of its author,
and the names of its features and their version stand in it, so that a model for other features is
an error when the configuration is read. One thread evaluates it, so that equal nodes have equal
scores.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from kubestow.plugin import (
    CPU,
    MAX_NODE_SCORE,
    MEMORY,
    BasePlugin,
    Columns,
    ConfigurationError,
    CycleState,
    Handle,
    Int64Column,
    NodeInfo,
    NodeTableView,
    Pod,
    ReuseRule,
    Rows,
)

try:
    import onnxruntime
except ImportError:  # validate_args says what is missing
    onnxruntime = None

FEATURES: Final = ("cpu_free", "memory_free", "cpu_left", "memory_left")
"""CPUs and GiB: free on the node before the pod is placed, and left afterwards."""
VERSION: Final = "1"
"""Of the meaning of the features; greater when it changes."""
MAX_MODEL_BYTES: Final = 10_000_000
MILLICORES: Final = 1000.0
GIBIBYTE: Final = float(1 << 30)

MISSING_EXTRA: Final = "needs the package onnxruntime; install it with: pip install onnxruntime"

Matrix = NDArray[np.float32]


class LearnedScoreArgs(msgspec.Struct, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """Arguments of LearnedScore."""

    #: The model, relative to the folder of this plugin.
    model: str = "room.onnx"


class Model:
    """A model file that was checked."""

    def __init__(self, path: Path) -> None:
        """Load it.

        Raises:
            ConfigurationError: the extra is missing, or the file is no model for these features.
        """
        if onnxruntime is None:
            raise ConfigurationError(MISSING_EXTRA)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        content = content_of(path)
        try:
            self._session: Any = onnxruntime.InferenceSession(
                content, options, providers=["CPUExecutionProvider"]
            )
        # The errors of onnxruntime have no other class in common.
        except Exception as error:
            raise ConfigurationError(f"{path.name} is no ONNX model: {error}") from error
        stated = self._session.get_modelmeta().custom_metadata_map
        wanted = {"features": ",".join(FEATURES), "version": VERSION}
        for key, value in wanted.items():
            if stated.get(key) != value:
                raise ConfigurationError(
                    f"{path.name} has the {key} {stated.get(key)!r}, this plugin {value!r}: "
                    "train it with the train.py beside the plugin"
                )

    def predict(self, features: Matrix) -> NDArray[np.float32]:
        """Return (rows,): large pods that fit no more after the placement."""
        if not len(features):
            return np.zeros(0, dtype=np.float32)
        (name,) = (each.name for each in self._session.get_inputs())
        (found,) = self._session.run(None, {name: features})
        predicted: NDArray[np.float32] = np.asarray(found, dtype=np.float32).reshape(-1)
        return predicted


class LearnedScore(BasePlugin):
    """Prefers nodes that lose little room for large pods, as a model predicts it."""

    name = "example.com/LearnedScore"
    args_type = LearnedScoreArgs
    #: The features are made of nothing else, and of the pod's requests.
    score_reuse = ReuseRule(Columns.ALLOCATABLE | Columns.USAGE)

    def __init__(self, args: LearnedScoreArgs, handle: Handle) -> None:
        self._model = Model(path_of(args))

    @staticmethod
    def validate_args(args: LearnedScoreArgs) -> Iterator[tuple[str, str]]:
        """Yield (path below `args`, message) for each problem."""
        try:
            Model(path_of(args))
        except ConfigurationError as error:
            for each in error.problems:
                yield "model", each

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Return 100 for a node that loses no room, 0 for one that loses a large pod or more."""
        there, used = node.allocatable, node.requested
        free = (
            np.array([there.milli_cpu - used.milli_cpu], dtype=np.int64),
            np.array([there.memory - used.memory], dtype=np.int64),
        )
        return int(self._scores(features(pod, *free))[0])

    def score_rows(
        self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows
    ) -> Int64Column:
        """Columnar form of `score`."""
        return self._scores(features_of_rows(pod, table, rows))

    def _scores(self, matrix: Matrix) -> Int64Column:
        lost = np.nan_to_num(self._model.predict(matrix), nan=1.0)
        scores: Int64Column = np.rint(MAX_NODE_SCORE * (1.0 - np.clip(lost, 0.0, 1.0))).astype(
            np.int64
        )
        return scores


def features_of_rows(pod: Pod, table: NodeTableView, rows: Rows) -> Matrix:
    """Return (rows, len(FEATURES)); train.py uses it as well."""
    free = table.allocatable[:, rows] - table.requested[:, rows]
    return features(pod, free[CPU], free[MEMORY])


def features(pod: Pod, milli_cpu: Int64Column, memory: Int64Column) -> Matrix:
    """Return (nodes, len(FEATURES)) from what is free on the nodes."""
    requests = pod.signature.requests
    columns = (
        milli_cpu / MILLICORES,
        memory / GIBIBYTE,
        (milli_cpu - requests.milli_cpu) / MILLICORES,
        (memory - requests.memory) / GIBIBYTE,
    )
    return np.stack(columns, axis=1).astype(np.float32)


def content_of(path: Path) -> bytes:
    """Return the content of a file. Raises ConfigurationError."""
    try:
        if path.stat().st_size > MAX_MODEL_BYTES:
            raise ConfigurationError(f"{path.name} has more than {MAX_MODEL_BYTES} bytes")
        return path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{path.name}: {error.strerror}") from error


def path_of(args: LearnedScoreArgs) -> Path:
    """Return the path of the model file."""
    return Path(__file__).parent / args.model
