"""Plots of results, and progress in a notebook or a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TextIO

from scheduler.explain.records.wording import counted


def plot(samples: Sequence[Mapping[str, float]]) -> Any:
    """Return a matplotlib figure of samples; see `Result.plot`."""
    if not samples:
        raise ValueError("nothing to plot: let the run take samples, such as run(samples=200)")
    try:
        # Not matplotlib.figure alone: a notebook shows figures once pyplot is imported.
        import matplotlib.pyplot as plt  # noqa: PLC0415 - optional
    except ImportError as error:
        raise ImportError("plots are drawn by matplotlib: pip install matplotlib") from error

    figure, (used, waiting) = plt.subplots(1, 2, figsize=(9, 3), layout="constrained")
    # Whoever asked shows it; what is open would be shown a second time.
    plt.close(figure)
    hours = samples[-1]["time"] > 2 * 3600
    times = [each["time"] / (3600 if hours else 60) for each in samples]
    for name in samples[0]:
        if name.endswith("_allocation"):
            label = name.removesuffix("_allocation")
            used.plot(times, [each[name] for each in samples], label=label)
    waiting.step(times, [each["waiting"] for each in samples], where="post")
    used.set(title="Requested, per cent of allocatable", ylim=(0, 101))
    used.legend()
    waiting.set(title="Pods that wait")
    waiting.set_ylim(bottom=0)
    for axes in (used, waiting):
        axes.set_xlabel("hour" if hours else "minute")
    return figure


def progress(file: TextIO | None = None) -> Callable[[Mapping[str, float]], None]:
    """Return a function for `World.run(on_sample=...)` that shows how far a run is, in one line.

    >>> import io
    >>> from kubestow import offline
    >>> shown = io.StringIO()
    >>> with offline.World() as world:
    ...     _ = world.run(until=60.0, samples=2, on_sample=offline.progress(shown))
    >>> shown.getvalue()[-60:].strip()
    '60 s: 0 nodes, 0 pods waiting'
    """
    out = sys.stderr if file is None else file

    def show(sample: Mapping[str, float]) -> None:
        text = (
            f"{sample['time']:,.0f} s: {counted(round(sample['nodes']), 'node')}, "
            f"{counted(round(sample['waiting']), 'pod')} waiting"
        )
        # Blanks, since the line before may have been longer.
        print(f"\r{text:<60}", end="", file=out, flush=True)

    return show
