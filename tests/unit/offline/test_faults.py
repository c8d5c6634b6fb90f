"""Faults of files are counted, and the places of those that are listed are searched for."""

from __future__ import annotations

import itertools

import pytest

from scheduler.offline import WorldError
from scheduler.offline.faults import MAX_FAULTS, Faults


def test_only_listed_faults_search_for_their_place() -> None:
    faults, places = Faults(), itertools.count(1)
    for number in range(MAX_FAULTS + 7):
        faults.note(f"fault {number}", lambda: f"file:{next(places)}")
    assert next(places) == MAX_FAULTS + 1
    with pytest.raises(WorldError) as caught:
        faults.report()
    first, *_, last = str(caught.value).splitlines()
    assert (first, last) == ("file:1: fault 0", "and 7 more")


def test_no_fault_is_no_error() -> None:
    Faults().report()
