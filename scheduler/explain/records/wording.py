"""Words for records: lengths of time, lists, changes of objects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final


def span(seconds: float) -> str:
    """Write a length of time with its two largest units.

    >>> span(0.2), span(59.6), span(61), span(7260), span(200_000)
    ('0s', '1m', '1m1s', '2h1m', '2d7h')
    """
    left = max(0, round(seconds))
    parts: list[tuple[int, str]] = []
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        number, left = divmod(left, size)
        if number or parts or unit == "s":
            parts.append((number, unit))
    return "".join(f"{number}{unit}" for number, unit in parts[:2] if number) or "0s"


def counted(count: int, noun: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "problem"), counted(0, "problem")
    ('1 problem', '0 problems')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def one_of(words: Sequence[str]) -> str:
    """Join alternatives.

    >>> one_of(["a"]), one_of(["a", "b", "c"])
    ('a', 'a, b or c')
    """
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def shortened(text: str, limit: int) -> str:
    """Put a text into one line of at most `limit` characters.

    >>> shortened("a b", 9), shortened("12345 6789", 8)
    ('a b', '12345 6…')
    """
    line = " ".join(text[: 4 * limit].split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def quantity(resource: str, amount: float) -> str:
    """Write an amount of a resource as people read it.

    >>> quantity("cpu", 3.5), quantity("memory", 6442450944), quantity("example.com/gpu", 2.0)
    ('3.5', '6Gi', '2')
    >>> quantity("memory", 1500), quantity("memory", -1610612736)
    ('1.46Ki', '-1.5Gi')
    """
    if resource != "memory" and not resource.startswith(("ephemeral-storage", "hugepages-")):
        return f"{amount:.0f}" if abs(amount) >= 100 or amount == round(amount) else f"{amount:.3g}"
    for unit, size in (("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)):
        if abs(amount) >= size:
            return (
                f"{amount / size:.3g}{unit}"
                if abs(amount) < 1000 * size
                else f"{amount / size:.0f}{unit}"
            )
    return f"{amount:.0f}"


_NOUNS: Final = {
    "AssignedPod": "a placed pod",
    "UnscheduledPod": "a pending pod",
    "TargetPod": "the pod itself",
    "Node": "a node",
    "Pod": "a pod",
    "Time": "time",
    "*": "anything",
}
_VERBS: Final = {
    "Add": "appears",
    "Delete": "goes",
    "Update": "changes",
    "UpdateNodeAllocatable": "changes what it offers",
    "UpdateNodeLabel": "changes its labels",
    "UpdateNodeTaint": "changes its taints",
    "UpdateNodeCondition": "changes its conditions",
    "UpdateNodeAnnotation": "changes its annotations",
    "UpdateNodeDeclaredFeature": "changes its features",
    "UpdatePodLabel": "changes its labels",
    "UpdatePodScaleDown": "requests less",
    "UpdatePodToleration": "changes its tolerations",
    "UpdatePodSchedulingGatesEliminated": "loses its scheduling gates",
    "UpdatePodGeneratedResourceClaim": "gets its resource claim",
    "UpdatePodSchedulingStatus": "changes its status",
    "UpdatePodAnnotation": "changes its annotations",
    "Tick": "passes",
    "AttemptOutcome": "is rejected",
}
_BY_LENGTH: Final = sorted(_VERBS, key=len, reverse=True)


def changes(labels: Iterable[str]) -> list[str]:
    """Write labels of cluster events as clauses, one for each kind of object.

    >>> changes(["NodeAdd", "NodeUpdateNodeTaint", "AssignedPodDelete"])
    ['a node appears or changes its taints', 'a placed pod goes']
    >>> changes(["storage.k8s.io/CSINodeAdd", "TimeTick", "other"])
    ['a CSINode appears', 'time passes', 'other']
    """
    verbs: dict[str, list[str]] = {}
    for label in labels:
        action = next((each for each in _BY_LENGTH if label.endswith(each)), "")
        resource = label.removesuffix(action)
        verb = _VERBS.get(action, "")
        found = verbs.setdefault(resource, [])
        if verb and verb not in found:
            found.append(verb)
    return [f"{_noun(each, bool(words))} {one_of(words)}".strip() for each, words in verbs.items()]


def _noun(resource: str, has_verb: bool) -> str:
    plain = resource.rpartition("/")[2]
    return _NOUNS.get(resource, f"a {plain}" if has_verb else plain)
