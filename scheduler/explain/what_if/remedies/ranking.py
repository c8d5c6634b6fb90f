"""The order of remedies, the one that takes least first, and which of them say nothing new."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from scheduler.explain.records import Code, Remedy, Step

Options = tuple[Step, ...]


def remedy(steps: Options, node: str) -> Remedy:
    """Join steps that were tried together."""
    return Remedy(
        codes=tuple(each.code.value for each in steps),
        text=", and ".join(each.text for each in steps),
        steps=steps,
        node=node,
        cost=sum(each.cost for each in steps) + 2.0 * (len(steps) - 1),
    )


def best(found: Iterable[Remedy], limit: int) -> tuple[Remedy, ...]:
    """Return those that take least.

    Left out are those that only add steps to another one, and those that set the same fields as
    another one to values that take more.
    """
    seen: list[tuple[frozenset[str], Remedy]] = []
    fields: set[tuple[object, ...]] = set()
    for each in sorted(found, key=lambda each: (each.cost, each.text)):
        texts = frozenset(step.text for step in each.steps)
        touched = (each.codes, *sorted({field for step in each.steps for field in _fields(step)}))
        if touched not in fields and not any(other <= texts for other, _ in seen):
            seen.append((texts, each))
            fields.add(touched)
    return tuple(each for _, each in seen[:limit])


def _fields(step: Step) -> Iterator[tuple[str, str, str]]:
    """Yield what the changes of a step are about; a created object by its text.

    Nodes to enlarge count as one, so that the smallest change stands for all of them.
    """
    larger = step.code is Code.MORE_ON_NODE
    for each in step.changes:
        yield each.kind, "" if larger else each.name or step.text, "" if larger else each.path


def without_one(steps: Options) -> Iterator[Options]:
    """Yield the steps without one of them, for each that may be superfluous.

    The last one is not: without it the others did not suffice. Nor is one that changes the same
    field as a later one, whose value may include what it did.
    """
    for index, step in enumerate(steps[:-1]):
        later = {
            (each.kind, each.name, each.path)
            for other in steps[index + 1 :]
            for each in other.changes
            if each.value is not None
        }
        if not any((each.kind, each.name, each.path) in later for each in step.changes):
            yield steps[:index] + steps[index + 1 :]
