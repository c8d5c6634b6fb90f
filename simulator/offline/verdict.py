"""The verdict about runs of several policies: which figures differ most, and which is better."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import mean
from typing import Final, NamedTuple

from simulator.offline.figures import in_order, meanings, spread

MORE_IS_BETTER: Final = frozenset({"placed", "finished"})
LESS_IS_BETTER: Final = frozenset(
    {"waiting", "evicted", "attempts", "zone_skew", "waiting_max"}
    | {"wait_mean", "wait_p50", "wait_p90", "wait_p99", "wait_max"}
)
TOP: Final = 3
"""Figures that are told first."""


class Contrast(NamedTuple):
    """One figure of two policies."""

    figure: str
    before: Sequence[float]
    """By seed."""
    after: Sequence[float]
    meaning: str

    @property
    def size(self) -> float:
        """The difference as a part of the larger value, from 0 to 1."""
        one, other = mean(self.before), mean(self.after)
        return abs(other - one) / max(abs(one), abs(other)) if one != other else 0.0

    @property
    def better(self) -> bool | None:
        """Whether the second policy is better; None if neither way is."""
        more = self.figure in MORE_IS_BETTER or "_allocation" in self.figure
        less = self.figure in LESS_IS_BETTER or "_fragmentation" in self.figure
        if not (more or less) or not self.size:
            return None
        return (mean(self.after) > mean(self.before)) == more

    @property
    def by_chance(self) -> bool:
        """Whether the seeds of both policies overlap, so that another seed might change it."""
        if len(self.before) < 2 or len(self.after) < 2:
            return False
        return max(min(self.before), min(self.after)) <= min(max(self.before), max(self.after))

    def __str__(self) -> str:
        """Say the difference, such as `30 instead of 27, 11 % more: pods that were placed`."""
        text = f"{spread(self.after)} instead of {spread(self.before)}"
        one, other = mean(self.before), mean(self.after)
        if one:
            word = "more" if other > one else "less"
            text += f", {100 * abs(other - one) / abs(one):.3g} % {word}"
        return f"{text}: {self.meaning}"


def contrasts(
    values: Mapping[str, Mapping[str, Sequence[float]]],
) -> Iterator[tuple[str, str, list[Contrast]]]:
    """Yield the first policy, each other one, and the figures that differ, the most first.

    `values` are figures by policy and name, with a value for each seed.
    """
    base, *others = values
    for other in others:
        names = in_order(values[base].keys() & values[other].keys())
        said = meanings(names)
        found = [
            Contrast(name, values[base][name], values[other][name], said[name]) for name in names
        ]
        # A mean over the time says little that the figure at the end does not say.
        differing = [
            each
            for each in found
            if each.size and each.figure.removesuffix("_mean") not in {*names} - {each.figure}
        ]
        yield base, other, sorted(differing, key=lambda each: -each.size)


def verdict(base: str, other: str, found: Sequence[Contrast]) -> str:
    """Return in a sentence which of two policies is better, and at what.

    >>> more = Contrast("placed", [20.0], [30.0], "pods that were placed")
    >>> verdict("default", "pack", [more])
    'pack is better than default at placed (30 instead of 20).'
    >>> verdict("default", "pack", [])
    'pack does as well as default: every figure is equal.'
    """
    if not found:
        return f"{other} does as well as {base}: every figure is equal."
    good, bad = (
        [each for each in found if each.better is wanted and not each.by_chance]
        for wanted in (True, False)
    )
    if not good and not bad:
        return f"Neither {other} nor {base} is clearly better; see the figures that differ."
    worse = "worse" if good else f"worse than {base}"
    parts = [
        f"{word} at {'; '.join(map(_short, own[:TOP]))}"
        for word, own in ((f"better than {base}", good), (worse, bad))
        if own
    ]
    return f"{other} is {', but '.join(parts)}."


def _short(each: Contrast) -> str:
    return f"{each.figure} ({spread(each.after)} instead of {spread(each.before)})"
