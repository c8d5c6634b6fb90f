"""Node selectors over label columns: the columnar form of `scheduler.api.node_selectors`.

Labels are compared as small value ids, so a selector costs a few array operations per requirement,
whatever its values look like. Functions take `rows` and the `index` that `row_selection.selector`
made of them, and return one bool per entry of `rows`.
"""

from __future__ import annotations

import numpy as np

from scheduler.api import selectors
from scheduler.api.node_selectors import (
    METADATA_NAME,
    CompiledNodeSelector,
    CompiledNodeSelectorTerm,
    RequiredNodeAffinity,
)
from scheduler.api.selectors import Requirement
from scheduler.framework import BoolColumn, Int32Column, NodeTableView, Rows

_FEW_VALUES = 4


def required_mask(
    required: RequiredNodeAffinity, table: NodeTableView, rows: Rows, index: slice | Rows
) -> BoolColumn:
    """Nodes that satisfy the nodeSelector map and the required affinity."""
    mask = _all_of(required.node_selector.requirements, table, len(rows), index)
    if required.selector is not None:
        mask &= node_selector_mask(required.selector, table, rows, index)
    return mask


def node_selector_mask(
    selector: CompiledNodeSelector, table: NodeTableView, rows: Rows, index: slice | Rows
) -> BoolColumn:
    """Nodes that satisfy one of the terms."""
    mask = np.zeros(len(rows), dtype=np.bool_)
    for term in selector.terms:
        mask |= term_mask(term, table, rows, index)
    return mask


def term_mask(
    term: CompiledNodeSelectorTerm, table: NodeTableView, rows: Rows, index: slice | Rows
) -> BoolColumn:
    """Nodes that satisfy every requirement; none when the term could not be parsed."""
    if term.invalid:
        return np.zeros(len(rows), dtype=np.bool_)
    mask = _all_of(term.labels, table, len(rows), index)
    for requirement in term.fields:
        mask &= _field_mask(requirement, table, rows)
    return mask


def requirement_mask(
    requirement: Requirement, table: NodeTableView, index: slice | Rows
) -> BoolColumn:
    """Nodes whose label satisfies one requirement; `NotIn` and `DoesNotExist` accept no label."""
    column = table.label_column(requirement.key)[index]
    match requirement.operator:
        case selectors.IN:
            return _one_of(requirement, table, column)
        case selectors.NOT_IN:
            return ~_one_of(requirement, table, column)
        case selectors.EXISTS:
            return column >= 0
        case selectors.DOES_NOT_EXIST:
            return column < 0
    return _compared(requirement, table, column)


def _all_of(
    requirements: tuple[Requirement, ...], table: NodeTableView, count: int, index: slice | Rows
) -> BoolColumn:
    mask = np.ones(count, dtype=np.bool_)
    for requirement in requirements:
        mask &= requirement_mask(requirement, table, index)
    return mask


def _one_of(requirement: Requirement, table: NodeTableView, column: Int32Column) -> BoolColumn:
    ids = table.label_values(requirement.key).ids
    wanted = [ids[value] for value in requirement.values if value in ids]
    if len(wanted) > _FEW_VALUES:
        return _look_up(len(ids), wanted, column)
    mask = np.zeros(len(column), dtype=np.bool_)
    for value_id in wanted:
        mask |= column == value_id
    return mask


def _compared(requirement: Requirement, table: NodeTableView, column: Int32Column) -> BoolColumn:
    if requirement.number is None:
        return np.zeros(len(column), dtype=np.bool_)
    values = table.label_values(requirement.key)
    if requirement.operator == selectors.GREATER:
        holds = values.integers > requirement.number
    else:
        holds = values.integers < requirement.number
    return _look_up(len(values.ids), np.flatnonzero(holds & values.is_integer), column)


def _look_up(values: int, wanted: list[int] | Rows, column: Int32Column) -> BoolColumn:
    # One entry more than there are values: id -1, a missing label, reads the last one.
    table = np.zeros(values + 1, dtype=np.bool_)
    table[wanted] = True
    found: BoolColumn = table[column]
    return found


def _field_mask(requirement: Requirement, table: NodeTableView, rows: Rows) -> BoolColumn:
    if requirement.key != METADATA_NAME:
        # No such field: it reads as empty text on every node.
        return np.full(len(rows), requirement.accepts(""), dtype=np.bool_)
    named = [row for row in map(table.row_of, requirement.values) if row is not None]
    mask: BoolColumn = np.isin(rows, named)
    return mask if requirement.operator == selectors.IN else ~mask
