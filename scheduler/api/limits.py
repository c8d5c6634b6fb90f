"""Limits of the terms that are read of one pod: far above any workload, low enough for one cycle.

The API server limits only the size of a pod, which may therefore state 25,000 terms. Terms are
evaluated one by one within one turn of the event loop, which blocks everything else. A pod beyond a
limit is unschedulable with a message; one bound by another scheduler counts as if it had no such
terms.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Final

from scheduler.api.meta import LabelSelector
from scheduler.api.pod import (
    Affinity,
    NodeSelector,
    NodeSelectorTerm,
    PreferredSchedulingTerm,
    TopologySpreadConstraint,
)

MAX_POD_TERMS: Final = 2500
"""Terms of pod affinity and anti-affinity with their requirements beyond the first; requirements
and label keys of topology spread constraints."""
MAX_NODE_CONDITIONS: Final = 3000
"""Terms and requirements of nodeSelector and node affinity."""
MAX_VALUES: Final = 25_000
"""Values in one such list, and namespaces."""
MAX_SPREAD_CONSTRAINTS: Final = 250
"""Topology spread constraints."""
MAX_VOLUMES: Final = 2500
"""Volumes with a source that scheduling reads."""

TOO_MANY: Final = "{what}: kubestow reads at most {limit}"


def pod_affinity_excess(affinity: Affinity) -> str:
    """Return the message if (anti-)affinity terms exceed a limit, else an empty string."""
    conditions, values = 0, 0
    for side in (affinity.pod_affinity, affinity.pod_anti_affinity):
        if side is None:
            continue
        for term in chain(side.required, (each.pod_affinity_term for each in side.preferred)):
            conditions += 1
            values += len(term.namespaces)
            for selector in (term.label_selector, term.namespace_selector):
                if selector is not None:
                    more, longer = _size(selector)
                    conditions += max(more - 1, 0)
                    values += longer
            if conditions > MAX_POD_TERMS:
                break
    return _excess("pod affinity terms", conditions, MAX_POD_TERMS) or _excess(
        "values in pod affinity terms", values, MAX_VALUES
    )


def node_selector_excess(
    node_selector: Mapping[str, str] | None, required: NodeSelector | None
) -> str:
    """Return the message if node requirements exceed a limit, else an empty string."""
    terms = () if required is None else required.node_selector_terms
    return _node_terms_excess(terms, len(node_selector or ()))


def preferred_terms_excess(terms: Iterable[PreferredSchedulingTerm]) -> str:
    """Return the message if node preferences exceed a limit, else an empty string."""
    return _node_terms_excess((each.preference for each in terms), 0)


def spread_excess(constraints: Sequence[TopologySpreadConstraint]) -> str:
    """Return the message if spread constraints exceed a limit, else an empty string."""
    if len(constraints) > MAX_SPREAD_CONSTRAINTS:
        return _excess("topology spread constraints", len(constraints), MAX_SPREAD_CONSTRAINTS)
    conditions, values = 0, 0
    for each in constraints:
        conditions += len(each.match_label_keys)
        if each.label_selector is not None:
            more, longer = _size(each.label_selector)
            conditions += more
            values += longer
    what = "requirements in topology spread constraints"
    return _excess(what, conditions, MAX_POD_TERMS) or _excess(
        "values in topology spread constraints", values, MAX_VALUES
    )


def _node_terms_excess(terms: Iterable[NodeSelectorTerm], conditions: int) -> str:
    values = 0
    for term in terms:
        conditions += max(len(term.match_expressions) + len(term.match_fields), 1)
        if conditions > MAX_NODE_CONDITIONS:
            break
        for each in (*term.match_expressions, *term.match_fields):
            values += len(each.values)
    return _excess("node selector requirements", conditions, MAX_NODE_CONDITIONS) or _excess(
        "values in node selector requirements", values, MAX_VALUES
    )


def _size(selector: LabelSelector) -> tuple[int, int]:
    """Return the numbers of requirements and of values of a selector."""
    expressions = selector.match_expressions
    return (
        len(selector.match_labels) + len(expressions),
        sum([len(each.values) for each in expressions]),
    )


def _excess(what: str, number: int, limit: int) -> str:
    return TOO_MANY.format(what=f"too many {what}", limit=limit) if number > limit else ""
