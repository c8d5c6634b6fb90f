"""The size of pages follows the bytes of the objects in them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler.client.paging import TARGET_PAGE_BYTES, PageSizes

PATH = "/api/v1/pods"
MEGABYTE = 1_000_000
MAX_BYTES = 64 * MEGABYTE


def test_ordinary_objects_come_as_requested() -> None:
    sizes = PageSizes()
    for _ in range(3):
        assert sizes.next(PATH, 500) == 500
        sizes.received(PATH, 500, 500, 3 * MEGABYTE)


def test_large_objects_come_a_few_at_a_time() -> None:
    sizes = PageSizes()
    sizes.received(PATH, 500, 40, 60 * MEGABYTE)
    assert sizes.next(PATH, 500) == 5
    assert sizes.next("/api/v1/nodes", 500) == 500, "another collection"


def test_a_page_that_is_too_large_is_requested_again_in_quarters() -> None:
    sizes = PageSizes()
    assert sizes.too_large(PATH, sizes.next(PATH, 500))
    assert sizes.next(PATH, 500) == 125
    assert sizes.too_large(PATH, 3)
    assert sizes.next(PATH, 500) == 1
    assert not sizes.too_large(PATH, 1), "one object: it is no use to ask again"


def test_an_empty_page_changes_little() -> None:
    sizes = PageSizes()
    sizes.received(PATH, 500, 0, 100)
    assert sizes.next(PATH, 500) == 500


def list_all(lengths: list[int]) -> tuple[list[int], int]:
    """The bytes of all pages of a list of objects, and how many were too large."""
    sizes = PageSizes()
    pages: list[int] = []
    refused = start = 0
    while start < len(lengths):
        size = sizes.next(PATH, 500)
        page = lengths[start : start + size]
        if sum(page) > MAX_BYTES:
            refused += 1
            assert sizes.too_large(PATH, size)
            continue
        pages.append(sum(page))
        sizes.received(PATH, size, len(page), sum(page))
        start += len(page)
    return pages, refused


def test_after_large_objects_pages_grow_again() -> None:
    pages, refused = list_all([3 * MEGABYTE // 2] * 500 + [5_000] * 10_000)
    assert refused == 2
    assert len(pages) < 500 / 4 + 10_000 / 500 + 10
    assert sum(each > 2 * TARGET_PAGE_BYTES for each in pages) == 1, "the first one that fits"


@given(
    st.lists(
        st.tuples(st.integers(1, 700), st.sampled_from([300, 5_000, 100_000, 3 * MEGABYTE // 2])),
        max_size=20,
    )
)
def test_every_list_ends(groups: list[tuple[int, int]]) -> None:
    lengths = [length for count, length in groups for _ in range(count)]
    pages, refused = list_all(lengths)
    assert sum(pages) == sum(lengths)
    # At most a few failed requests for each change from small objects to large ones.
    assert refused <= 4 * len(groups)
