"""The catalogue itself: complete, generated anew each time, and of the declared sizes."""

from __future__ import annotations

import json

import pytest

from devtools.hostile.catalogue import CASES, WORST, Dimension, HostileCase, chosen, encode, name_of
from devtools.hostile.templates import TEMPLATES
from scheduler.client.resources import RESOURCES

MAX_REQUEST_BYTES = 3 * 1024 * 1024
"""Limit of the API server for a request body."""


def test_every_resource_that_the_client_knows_is_in_the_catalogue() -> None:
    assert set(TEMPLATES) == set(RESOURCES)
    assert {case.plural for case in CASES.values()} == set(RESOURCES)


@pytest.mark.parametrize("plural", sorted(TEMPLATES))
def test_every_kind_is_extreme_in_every_dimension(plural: str) -> None:
    assert {case.dimension for case in chosen(plural=plural)} == set(Dimension)


@pytest.mark.parametrize("dimension", list(Dimension))
def test_objects_are_json_that_a_server_accepts(dimension: Dimension) -> None:
    for case in chosen(dimension=dimension):
        if case.plural == "pods":
            assert len(encode(case.object(case.full))) < MAX_REQUEST_BYTES, case.name
        if "deep" not in case.name:
            assert json.loads(encode(case.object()))["kind"], case.name


def test_two_objects_of_a_case_have_different_names() -> None:
    for case in CASES.values():
        first, second = case.objects(2)
        assert name_of(first) != name_of(second), case.name
        assert encode(first) == encode(case.object()), f"{case.name}: generated anew each time"


def test_a_growing_case_grows_with_its_size() -> None:
    for case in CASES.values():
        if case.grows:
            small, large = (len(encode(case.object(size))) for size in _sizes(case))
            assert small < large, case.name


def test_unique_objects_share_nothing_but_their_keys() -> None:
    for case in chosen(dimension=Dimension.UNIQUENESS, plural="pods"):
        first, second = (set(encode(each).split(b'"')) for each in case.objects(2))
        own = [piece for piece in first - second if piece.strip(b"{}[]:,")]
        assert len(own) >= case.small / 2, case.name


def test_the_worst_are_large() -> None:
    for case in WORST:
        assert len(encode(case.object(case.full))) > 50_000


def _sizes(case: HostileCase) -> tuple[int, int]:
    return case.small, case.small + 1
