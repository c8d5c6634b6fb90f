"""ImageLocality: prefers nodes that have the pod's images (upstream `image_locality.go`).

An image's size counts in proportion to the share of nodes that have it, so that one node with a
rare image does not attract every pod of a workload. A node's score therefore depends on other
nodes as well.

Image volumes count like containers, also in the upper bound; in v1.36.2 they only add to the sum
(kubernetes#138952).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Final

import numpy as np

from plugins.row_selection import FEW, no_scores
from scheduler.api.pod import Pod
from scheduler.framework import (
    MAX_NODE_SCORE,
    Columns,
    CycleState,
    Handle,
    ImageState,
    Int64Column,
    NoArgs,
    NodeInfo,
    NodeTableView,
    ReuseRule,
    Rows,
    plugin_names,
)

MEBIBYTE: Final = 1 << 20
MIN_THRESHOLD: Final = 23 * MEBIBYTE
"""Bytes below which images are not worth a score."""
MAX_THRESHOLD: Final = 1000 * MEBIBYTE
"""Bytes per image at which the score is 100."""


class ImageLocality:
    """Scores nodes by the images they have."""

    name: ClassVar[str] = plugin_names.IMAGE_LOCALITY
    score_reuse: ClassVar[ReuseRule | None] = ReuseRule(Columns.IMAGES, ("images", "node_count"))

    def __init__(self, args: NoArgs | None, handle: Handle) -> None:
        self._handle = handle

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """0 to 100 by the scaled bytes of images that are there."""
        present = _present(pod, node.image_states, self._handle.table.node_count)
        total = sum(contribution for image, contribution in present if node.row in image.rows)
        return _scaled(total, len(pod.signature.images))

    def score_rows(
        self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows
    ) -> Int64Column:
        """Columnar form of `score`."""
        present = list(_present(pod, table.images, table.node_count))
        if not present:
            return no_scores(rows)
        images = len(pod.signature.images)
        if len(rows) <= FEW:
            totals = [sum(part for image, part in present if row in image.rows) for row in rows]
            return np.array([_scaled(total, images) for total in totals], dtype=np.int64)
        return _scaled_column(_totals(table, rows, present), images)


def _present(
    pod: Pod, states: Mapping[str, ImageState], node_count: int
) -> Iterator[tuple[ImageState, int]]:
    """Yield the pod's images that some node has, once per reference, with their scaled bytes."""
    for reference in pod.signature.images:
        image = states.get(reference)
        if image is not None:
            # Share first, then size: the order decides the last bit, and with it the truncation.
            yield image, int(float(image.size) * (float(len(image.rows)) / float(node_count)))


def _totals(
    table: NodeTableView, rows: Rows, present: Sequence[tuple[ImageState, int]]
) -> Int64Column:
    totals = np.zeros(table.capacity, dtype=np.int64)
    for image, contribution in present:
        holders = np.fromiter(image.rows, dtype=np.intp, count=len(image.rows))
        totals[holders] += contribution
    taken: Int64Column = totals[rows]
    return taken


def _scaled(total: int, images: int) -> int:
    if total <= MIN_THRESHOLD:
        return 0
    most = MAX_THRESHOLD * images
    return MAX_NODE_SCORE * (min(total, most) - MIN_THRESHOLD) // (most - MIN_THRESHOLD)


def _scaled_column(totals: Int64Column, images: int) -> Int64Column:
    most = MAX_THRESHOLD * images
    above = np.clip(totals, MIN_THRESHOLD, most) - MIN_THRESHOLD
    scaled: Int64Column = MAX_NODE_SCORE * above // (most - MIN_THRESHOLD)
    return scaled
