"""Limits of a live question: it is answered between scheduling cycles, in slices of milliseconds.

What is checked here cannot be cut into slices: every trial of a question changes all objects anew,
and a plugin looks at all terms of a pod at once. An offline world has no such limits.
"""

from __future__ import annotations

from typing import Any, Final

from scheduler.explain.records import WhatIfQuestion
from scheduler.explain.records.what_if import MAX_COPIES, MAX_SECONDS
from scheduler.explain.what_if.changes import ChangeError, JsonObject
from scheduler.explain.what_if.edits import MAX_EDITS

MAX_FIELDS: Final = 50
MAX_SELECTORS: Final = 50
"""Names and selectors of nodes to drop or to cordon: a selector looks at every node."""
MAX_ENTRIES: Final = 50
"""Entries of one list or map, such as containers, terms, tolerations, labels, resources."""
MAX_VALUES: Final = 5000
"""Values in all objects of a question; a node of a cloud provider has about 100."""
MAX_DEPTH: Final = 20
MAX_POD_ENTRIES: Final = 50
"""Entries of one list or map of a pod for which remedies are looked for."""
MAX_POD_VALUES: Final = 1000
"""Values of such a pod, of those that scheduling reads; one with 20 containers has about 300."""


def check_question(asked: WhatIfQuestion) -> None:
    """Check counts and ranges. Raises ChangeError."""
    if bool(asked.pod) == (asked.manifest is not None):
        raise ChangeError("give either a pod, namespace/name, or the manifest of one")
    _in_range("copies", asked.copies, 1, MAX_COPIES)
    _in_range("seconds", asked.seconds, 0.1, MAX_SECONDS)
    for node in asked.add_nodes:
        _in_range("count of nodes to add", node.count, 1, MAX_EDITS)
        for name, entries in (
            ("resources", node.resources), ("labels", node.labels), ("taints", node.taints),
        ):  # fmt: skip
            _at_most(f"{name} of a node to add", len(entries), MAX_ENTRIES)
    _at_most("nodes to add", sum(each.count for each in asked.add_nodes), MAX_EDITS)
    _at_most("nodes to drop or cordon", len(asked.drop_nodes) + len(asked.cordon), MAX_SELECTORS)
    _at_most("pods to remove", len(asked.remove_pods), MAX_EDITS)
    _at_most("changes", len(asked.changes), MAX_EDITS)
    _at_most("fields", len(asked.fields), MAX_FIELDS)
    sizes = Sizes()
    for change in asked.changes:
        sizes.add(change.value, f"{change.kind} {change.name}")
    for path, value in asked.fields.items():
        sizes.add(value, path)


def check_pod(pod: JsonObject, key: str) -> None:
    """Check that a search for remedies would not take long. Raises ChangeError."""
    Sizes(MAX_POD_VALUES).add(pod, f"pod {key}", MAX_POD_ENTRIES)


class Sizes:
    """Sums up the values in the objects of one question."""

    def __init__(self, most: int = MAX_VALUES) -> None:
        self._most = most
        self._values = 0

    def add(self, value: Any, where: str, entries: int = MAX_ENTRIES) -> None:
        """Count the values of an object. Raises ChangeError if it, or the sum, is too large."""
        level = [value]
        for _ in range(MAX_DEPTH):
            self._values += len(level)
            if self._values > self._most:
                raise ChangeError(
                    f"{where[:80]}: the objects of a live question may have {self._most} values; "
                    "use an offline world for more (docs/simulate.md)"
                )
            level = [each for container in level for each in _entries(container, where, entries)]
            if not level:
                return
        raise ChangeError(f"{where[:80]}: nests too deeply, at most {MAX_DEPTH} levels")

    def add_node(self, node: JsonObject, count: int) -> None:
        """Count the values of equal nodes. Raises ChangeError as `add`."""
        before = self._values
        self.add(node, "nodes to add", MAX_VALUES)
        self._values += (self._values - before) * (count - 1)
        self.add(None, "nodes to add")


def _entries(container: Any, where: str, most: int) -> list[Any]:
    if not isinstance(container, dict | list):
        return []
    _at_most(f"{where[:80]}: entries of one list or map", len(container), most)
    return list(container.values()) if isinstance(container, dict) else container


def _at_most(name: str, count: int, most: int) -> None:
    if count > most:
        raise ChangeError(
            f"{name}: {count}, and a live question may have {most}; "
            "use an offline world for more (docs/simulate.md)"
        )


def _in_range(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise ChangeError(f"{name}={value:g}: give a number from {least:g} to {most:g}")
