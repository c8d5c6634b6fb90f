"""The package's `__init__` is its contract."""

from __future__ import annotations

import scheduler.api


def test_public_names_are_sorted_distinct_and_there() -> None:
    names = scheduler.api.__all__
    assert len(set(names)) == len(names)
    assert [name for name in names if not hasattr(scheduler.api, name)] == []


def test_everything_public_in_the_package_is_listed() -> None:
    submodules = {"names", "images", "ports", "requests", "shape"}
    listed = set(scheduler.api.__all__)
    found = {
        name
        for name, value in vars(scheduler.api).items()
        if not name.startswith("_")
        and getattr(value, "__module__", "").startswith("scheduler.api.")
        and name not in submodules
    }
    assert found <= listed
