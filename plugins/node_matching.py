"""Node selectors over label columns, the columnar form of `scheduler.api.node_selectors`.

Labels are compared as value ids, so a selector costs a few array operations per requirement.
Functions take `rows` and the `index` that `row_selection.selector`
made of them, and return one bool per entry of `rows`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import numpy as np

from plugins.row_selection import is_node
from scheduler.api import selectors
from scheduler.api.node_selectors import (
    METADATA_NAME,
    CompiledNodeSelector,
    CompiledNodeSelectorTerm,
    RequiredNodeAffinity,
)
from scheduler.api.pod import Pod
from scheduler.api.selectors import Requirement
from scheduler.framework import BoolColumn, Int32Column, LabelValues, NodeTableView, Rows

_FEW_VALUES: Final = 4
_ACCEPT_ABSENCE: Final = (selectors.NOT_IN, selectors.DOES_NOT_EXIST)


def matches_required(pod: Pod, labels: Mapping[str, str], name: str) -> bool:
    """Whether a node satisfies the pod's pin, nodeSelector map and required affinity."""
    if pod.pin and pod.pin != name:
        return False
    required = pod.signature.required_node_affinity
    return required is None or required.matches(labels, name)


def required_mask(
    required: RequiredNodeAffinity, table: NodeTableView, rows: Rows, index: slice | Rows
) -> BoolColumn:
    """Nodes that satisfy the nodeSelector map and the required affinity."""
    mask = _all_of(required.node_selector.requirements, table, index)
    if mask is False:
        return np.zeros(len(rows), dtype=np.bool_)
    if required.selector is None:
        return np.ones(len(rows), dtype=np.bool_) if mask is True else mask
    chosen = node_selector_mask(required.selector, table, rows, index)
    if mask is not True:
        chosen &= mask
    return chosen


def node_selector_mask(
    selector: CompiledNodeSelector, table: NodeTableView, rows: Rows, index: slice | Rows
) -> BoolColumn:
    """Nodes that satisfy one of the terms."""
    mask = np.zeros(len(rows), dtype=np.bool_)
    named = []
    for term in selector.terms:
        row = _only_row(term, table)
        if row is not None:
            named.append(row)
            continue
        found = _term_mask(term, table, rows, index)
        if found is False:
            continue
        if found is True:
            return np.ones(len(rows), dtype=np.bool_)
        mask |= found
        if mask.all():
            break
    if named:
        mask |= np.isin(rows, named)
    return mask


def term_mask(
    term: CompiledNodeSelectorTerm, table: NodeTableView, rows: Rows, index: slice | Rows
) -> BoolColumn | bool:
    """Nodes that satisfy every requirement; none if the term did not parse.

    Returns True or False instead of a column if all nodes have the same result: a pod may have
    thousands of terms about labels that no node has.
    """
    row = _only_row(term, table)
    if row is not None:
        found: BoolColumn = rows == row
        return found
    return _term_mask(term, table, rows, index)


def _term_mask(
    term: CompiledNodeSelectorTerm, table: NodeTableView, rows: Rows, index: slice | Rows
) -> BoolColumn | bool:
    if term.error is not None:
        return False
    mask = _all_of(term.labels, table, index)
    for requirement in term.fields:
        if mask is False:
            return False
        found = _field_mask(requirement, table, rows)
        mask = found if mask is True else mask & found
    return mask


def _only_row(term: CompiledNodeSelectorTerm, table: NodeTableView) -> int | None:
    """Return the row of a term that is one node name, -1 if unknown; None for other terms."""
    if term.error is not None or term.labels or len(term.fields) != 1:
        return None
    only = term.fields[0]
    if only.key != METADATA_NAME or only.operator != selectors.IN or len(only.values) != 1:
        return None
    row = table.row_of(only.values[0])
    return -1 if row is None else row


def requirement_mask(
    requirement: Requirement, table: NodeTableView, index: slice | Rows
) -> BoolColumn | bool:
    """Nodes whose label satisfies one requirement; True or False if all or none do.

    `NotIn` and `DoesNotExist` accept no label.
    """
    operator, key = requirement.operator, requirement.key
    values = table.label_values(key)
    if not values.ids:
        return operator in _ACCEPT_ABSENCE
    match operator:
        case selectors.IN:
            return _one_of(requirement, values, table, index)
        case selectors.NOT_IN:
            found = _one_of(requirement, values, table, index)
            return True if found is False else ~found
        case selectors.EXISTS:
            return table.label_column(key)[index] >= 0
        case selectors.DOES_NOT_EXIST:
            return table.label_column(key)[index] < 0
    return _compared(requirement, values, table, index)


def _all_of(
    requirements: tuple[Requirement, ...], table: NodeTableView, index: slice | Rows
) -> BoolColumn | bool:
    mask: BoolColumn | bool = True
    for requirement in requirements:
        found = requirement_mask(requirement, table, index)
        if found is False:
            return False
        if found is not True:
            mask = found if mask is True else mask & found
    return mask


def _one_of(
    requirement: Requirement, values: LabelValues, table: NodeTableView, index: slice | Rows
) -> BoolColumn | Literal[False]:
    ids = values.ids
    value_ids = [ids[value] for value in requirement.values if value in ids]
    if not value_ids:
        return False
    column = table.label_column(requirement.key)[index]
    if len(value_ids) > _FEW_VALUES:
        return _look_up(len(ids), value_ids, column)
    mask: BoolColumn = column == value_ids[0]
    for value_id in value_ids[1:]:
        mask |= column == value_id
    return mask


def _compared(
    requirement: Requirement, values: LabelValues, table: NodeTableView, index: slice | Rows
) -> BoolColumn | Literal[False]:
    if requirement.number is None:
        return False
    if requirement.operator == selectors.GREATER:
        holds = values.integers > requirement.number
    else:
        holds = values.integers < requirement.number
    value_ids = np.flatnonzero(holds & values.is_integer)
    if not len(value_ids):
        return False
    return _look_up(len(values.ids), value_ids, table.label_column(requirement.key)[index])


def _look_up(values: int, value_ids: list[int] | Rows, column: Int32Column) -> BoolColumn:
    # The extra last entry is read by id -1, a missing label.
    table = np.zeros(values + 1, dtype=np.bool_)
    table[value_ids] = True
    found: BoolColumn = table[column]
    return found


def _field_mask(requirement: Requirement, table: NodeTableView, rows: Rows) -> BoolColumn:
    if requirement.key != METADATA_NAME:
        # An unknown field has the value "" on every node.
        return np.full(len(rows), requirement.accepts(""), dtype=np.bool_)
    # A field requirement has exactly one value.
    mask = is_node(table, rows, requirement.values[0])
    return mask if requirement.operator == selectors.IN else ~mask
