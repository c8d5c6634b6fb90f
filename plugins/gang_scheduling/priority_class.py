"""PriorityClasses that PodGroups name in the annotation `kubestow.io/priority-class`.

A class is looked up whenever its group is tried, so that changes of classes take effect at once. It
can only lower the priority for preemption: the members keep the priorities that the API server has
assigned under its quotas.
"""

from __future__ import annotations

from typing import Final

from scheduler.api.policy import PriorityClass
from scheduler.framework import Handle
from scheduler.groups import PRIORITY_CLASS, GroupTerms

PRIORITY_CLASSES: Final = "priorityclasses"

OF_CLASS: Final = "PriorityClass {name}"
OF_OBJECT: Final = "PodGroup"
NO_CLASS: Final = 'annotation {name}: there is no PriorityClass "{value}"'
NOT_LISTED: Final = 'annotation {name}: kubestow may not list PriorityClasses, "{value}" among them'


class GroupPriorities:
    """The priorities of groups."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def priority(self, terms: GroupTerms) -> int | None:
        """Return the priority of a group; None: the priority of its members."""
        found = self._class(terms)
        return terms.priority if found is None else found.value

    def never_preempts(self, terms: GroupTerms) -> bool:
        """Whether the group must not preempt, even if its members may."""
        found = self._class(terms)
        return terms.never_preempts or (found is not None and found.preemption_policy == "Never")

    def source(self, terms: GroupTerms) -> str:
        """Return where the priority of a group is stated, for people."""
        found = self._class(terms)
        return OF_OBJECT if found is None else OF_CLASS.format(name=found.metadata.name)

    def fault(self, terms: GroupTerms) -> str:
        """Return why the class of a group is ignored; empty if it is valid, or there is none."""
        if not terms.priority_class or self._class(terms) is not None:
            return ""
        text = NO_CLASS if self._handle.may("list", PRIORITY_CLASSES) else NOT_LISTED
        return text.format(name=PRIORITY_CLASS, value=terms.priority_class)

    def _class(self, terms: GroupTerms) -> PriorityClass | None:
        if not terms.priority_class:
            return None
        found: PriorityClass | None = self._handle.listers[PRIORITY_CLASSES].get(
            terms.priority_class
        )
        return found
