"""The order of remedies, the one that takes least first, and which of them say nothing new."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from scheduler.explain.records import Code, Remedy, Step

Options = tuple[Step, ...]
_Touched = tuple[tuple[str, ...], frozenset[tuple[str, str, str]]]


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
    another one, or further ones, to values that take more. Those that label another node count as
    one.
    """
    seen: dict[_Touched, tuple[frozenset[str], Remedy]] = {}
    labelled: dict[_Touched, set[str]] = {}
    for each in sorted(found, key=lambda each: (each.cost, each.text)):
        texts = frozenset(step.text for step in each.steps)
        fields = frozenset(field for step in each.steps for field in _fields(step))
        touched = each.codes, fields
        labelled.setdefault(touched, set()).update(
            step.node for step in each.steps if step.code is Code.LABEL_NODE
        )
        if not any(
            other <= texts or (codes == each.codes and less <= fields)
            for (codes, less), (other, _) in seen.items()
        ):
            seen[touched] = texts, each
    chosen = list(seen.items())[:limit]
    return tuple(_of_one_of(each, len(labelled[touched])) for touched, (_, each) in chosen)


def _of_one_of(found: Remedy, nodes: int) -> Remedy:
    """Return a remedy in words that say that labelling any one of `nodes` would do."""
    if nodes < 2:
        return found
    steps = tuple(
        replace(each, text=each.text.replace(
            f"label node {each.node} with", f"label one of {nodes} nodes, such as {each.node}, with"
        ))
        if each.code is Code.LABEL_NODE
        else each
        for each in found.steps
    )  # fmt: skip
    return remedy(steps, found.node)


def _fields(step: Step) -> Iterator[tuple[str, str, str]]:
    """Yield what the changes of a step are about; a created object by its text.

    Nodes to enlarge count as one, so that the smallest change stands for all of them. So do nodes
    to label. A class is what is created, whether or not its devices were tried.
    """
    larger, labels = step.code is Code.MORE_ON_NODE, step.code is Code.LABEL_NODE
    for each in step.changes:
        if step.code is Code.CREATE_DEVICE_CLASS and each.action != "add":
            continue
        name = "" if larger or labels else each.name or step.text
        yield each.kind, name, "" if larger else each.path


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
