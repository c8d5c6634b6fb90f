"""The verdict about runs of several policies: which figures differ most, and which is better."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import mean
from typing import Final, NamedTuple

from scheduler.offline.figures import in_order, is_share, title, written

MORE_IS_BETTER: Final = frozenset({"placed", "finished"})
LESS_IS_BETTER: Final = frozenset(
    {"waiting", "evicted", "attempts", "zone_skew", "waiting_max"}
    | {"wait_mean", "wait_p50", "wait_p90", "wait_p99", "wait_max"}
)
RESULTS: Final = frozenset({"placed", "waiting", "evicted"})
"""Told before all others, whatever their size: whether pods got their nodes."""
DECISIVE: Final = frozenset({"placed", "waiting"})
"""Where figures disagree, these decide: no saving makes up for a pod without a node."""
TOP: Final = 3
"""Figures that are told first."""
NEGLIGIBLE: Final = 0.02
"""A difference, as a part of the larger value, that makes no policy better.

A single pod of fifty makes as much, so the next change of the cluster may turn it round.
"""


class Contrast(NamedTuple):
    """One figure of two policies."""

    figure: str
    before: Sequence[float]
    """By seed."""
    after: Sequence[float]

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
        if not (more or less) or self.size < NEGLIGIBLE:
            return None
        return (mean(self.after) > mean(self.before)) == more

    @property
    def by_chance(self) -> bool:
        """Whether the seeds of both policies overlap, so that another seed might change it."""
        if len(self.before) < 2 or len(self.after) < 2:
            return False
        return max(min(self.before), min(self.after)) <= min(max(self.before), max(self.after))

    @property
    def subject(self) -> str:
        """Subject of the figure; figures of one subject say nearly the same."""
        if self.figure.startswith("wait_") or self.figure == "waiting_max":
            return "wait"
        return "placed" if self.figure == "waiting" else self.figure.removesuffix("_mean")

    @property
    def change(self) -> str:
        """The difference such as `11 % more`; empty for shares, and if there was nothing."""
        one, other = mean(self.before), mean(self.after)
        if not one or is_share(self.figure):
            return ""
        return f"{100 * abs(other - one) / abs(one):.3g} % {'more' if other > one else 'less'}"

    def __str__(self) -> str:
        """Say the difference, such as `pods placed 30 instead of 27 (11 % more)`."""
        before, after = (written(self.figure, each) for each in (self.before, self.after))
        change = f" ({self.change})" if self.change else ""
        return f"{title(self.figure)} {after} instead of {before}{change}"


def contrasts(
    values: Mapping[str, Mapping[str, Sequence[float]]],
) -> Iterator[tuple[str, str, list[Contrast]]]:
    """Yield the first policy, each other one, and the figures that differ, the most first.

    `values` are figures by policy and name, with a value for each seed.
    """
    base, *others = values
    for other in others:
        names = in_order(values[base].keys() & values[other].keys())
        found = [Contrast(name, values[base][name], values[other][name]) for name in names]
        differing = [each for each in found if each.size]
        yield base, other, sorted(differing, key=lambda each: -each.size)


def foremost(found: Sequence[Contrast]) -> list[Contrast]:
    """Return the contrasts to tell first: at most `TOP`, each of another subject."""
    by_subject = {each.subject: each for each in reversed(found)}
    return [each for each in found if by_subject[each.subject] is each][:TOP]


def verdict(base: str, other: str, found: Sequence[Contrast]) -> str:
    """Return in a sentence or two which of two policies is better, and at what.

    Where figures disagree, only pods that got their nodes make one of them the better.

    >>> more = Contrast("placed", [20.0], [30.0])
    >>> verdict("default", "pack", [more])
    'pack is better than default: pods placed 30 instead of 20 (50 % more).'
    >>> verdict("default", "pack", [])
    'pack does as well as default: every figure is equal.'
    """
    if not found:
        return f"{other} does as well as {base}: every figure is equal."
    ranked = sorted(found, key=lambda each: (each.figure not in RESULTS, -each.size))
    judged = [each for each in ranked if each.better is not None and not each.by_chance]
    if not judged:
        return f"Neither {other} nor {base} is clearly better; see the figures that differ."
    winners = {each.better for each in judged if each.figure in DECISIVE} or {
        each.better for each in judged
    }
    if len(winners) > 1:
        return _mixed(base, other, judged)
    better = True in winners
    words = ("better", "worse") if better else ("worse", "better")
    text = f"{other} is {words[0]} than {base}: {_listed(judged, better=better)}."
    against = _listed(judged, better=not better)
    return f"{text} It is {words[1]} at this: {against}." if against else text


def _mixed(base: str, other: str, judged: Sequence[Contrast]) -> str:
    """Say what each policy is better at, the largest difference first."""
    after = sorted(judged, key=lambda each: -each.size)
    before = [Contrast(each.figure, each.after, each.before) for each in after]
    sides = [(other, _listed(after, better=True)), (base, _listed(before, better=True))]
    if not after[0].better:
        sides.reverse()
    (first, most), (second, less) = sides
    return (
        f"Neither is better at everything. {first} is better at this: {most}. "
        f"{second} is better at this: {less}."
    )


def _listed(judged: Sequence[Contrast], *, better: bool) -> str:
    return "; ".join(map(str, foremost([each for each in judged if each.better is better])))
