"""The store: versions, history, order, concurrency."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.objects import JsonObject, decode_json
from simulator.store import (
    AlreadyExistsError,
    CompactedError,
    MissingError,
    StaleError,
    Store,
    StoreChange,
)


def _obj(name: str, **more: object) -> JsonObject:
    return {"metadata": {"name": name}, **more}


def test_resource_versions_increase_across_tables() -> None:
    store = Store()
    first = store.create("pods", "ns", "a", _obj("a"))
    second = store.create("nodes", "", "n", _obj("n"))
    assert second.rv == first.rv + 1
    assert second.obj["metadata"]["resourceVersion"] == str(second.rv)


def test_a_second_create_of_a_name_is_refused() -> None:
    store = Store()
    store.create("pods", "ns", "a", _obj("a"))
    with pytest.raises(AlreadyExistsError):
        store.create("pods", "ns", "a", _obj("a"))
    assert store.count("pods") == 1


def test_writes_name_the_version_they_were_made_from() -> None:
    store = Store()
    old = store.create("pods", "ns", "a", _obj("a"))
    store.update("pods", "ns", "a", _obj("a", n=1), expected=old.rv)
    with pytest.raises(StaleError):
        store.update("pods", "ns", "a", _obj("a", n=2), expected=old.rv)
    with pytest.raises(StaleError):
        store.delete("pods", "ns", "a", expected=old.rv)
    with pytest.raises(MissingError):
        store.delete("pods", "ns", "b")


def test_a_deletion_has_a_version_of_its_own_and_shows_the_last_state() -> None:
    store = Store()
    store.create("pods", "ns", "a", _obj("a", n=7))
    gone = store.delete("pods", "ns", "a")
    assert gone.obj["n"] == 7
    assert gone.rv == store.rv
    assert store.items("pods") == []


def test_lists_are_in_key_order_and_by_namespace() -> None:
    store = Store()
    for namespace, name in (("b", "x"), ("a", "z"), ("a", "y")):
        store.create("pods", namespace, name, _obj(name))
    assert [(v.namespace, v.name) for v in store.items("pods")] == [
        ("a", "y"),
        ("a", "z"),
        ("b", "x"),
    ]
    assert [v.name for v in store.items("pods", "a")] == ["y", "z"]
    store.delete("pods", "a", "y")
    assert [v.name for v in store.items("pods")] == ["z", "x"]


def test_old_versions_stay_as_they_were_when_an_object_changes() -> None:
    store = Store()
    old = store.create("pods", "ns", "a", _obj("a", n=1))
    before = old.encoded()
    store.update("pods", "ns", "a", {**old.obj, "n": 2})
    assert decode_json(before)["n"] == 1
    assert old.obj["n"] == 1
    assert old.encoded() is before


def test_history_beyond_the_limit_is_compacted() -> None:
    store = Store(history=3)
    versions = [store.create("pods", "ns", f"p{n}", _obj(f"p{n}")) for n in range(5)]
    assert [c.rv for c in store.changes_since("pods", versions[1].rv)] == [
        v.rv for v in versions[2:]
    ]
    with pytest.raises(CompactedError, match=f"too old resource version: {versions[0].rv}"):
        store.changes_since("pods", versions[0].rv)


def test_compaction_on_demand_spares_what_comes_after() -> None:
    store = Store()
    store.create("pods", "ns", "a", _obj("a"))
    floor = store.compact()
    later = store.create("pods", "ns", "b", _obj("b"))
    assert [c.rv for c in store.changes_since("pods", floor)] == [later.rv]
    with pytest.raises(CompactedError):
        store.changes_since("pods", floor - 1)


def test_a_subscriber_that_writes_does_not_disorder_the_others() -> None:
    store = Store()
    seen: list[tuple[str, int]] = []

    def writes(table: str, change: StoreChange) -> None:
        if change.version.name == "a":
            store.create("pods", "ns", "reaction", _obj("reaction"))

    store.subscribe("pods", writes)
    store.subscribe("pods", lambda _table, change: seen.append((change.version.name, change.rv)))
    store.create("pods", "ns", "a", _obj("a"))
    assert [name for name, _ in seen] == ["a", "reaction"]
    assert seen[0][1] < seen[1][1]


def test_an_unsubscribed_subscriber_is_not_called_again() -> None:
    store = Store()
    seen: list[StoreChange] = []
    undo = store.subscribe(None, lambda _table, change: seen.append(change))
    store.create("pods", "ns", "a", _obj("a"))
    undo()
    store.create("pods", "ns", "b", _obj("b"))
    assert [change.version.name for change in seen] == ["a"]


_NAMES = st.sampled_from(["a", "b", "c"])
_STEPS = st.lists(st.tuples(st.sampled_from(["create", "update", "delete"]), _NAMES), max_size=40)


@given(_STEPS)
def test_state_at_any_version_equals_what_was_listed_then(steps: list[tuple[str, str]]) -> None:
    store = Store()
    states: dict[int, list[tuple[str, object]]] = {}
    for number, (verb, name) in enumerate(steps):
        found = store.get("pods", "ns", name)
        if verb == "create" and found is None:
            store.create("pods", "ns", name, _obj(name, n=number))
        elif verb == "update" and found is not None:
            store.update("pods", "ns", name, _obj(name, n=number))
        elif verb == "delete" and found is not None:
            store.delete("pods", "ns", name)
        states[store.rv] = [(v.name, v.obj["n"]) for v in store.items("pods")]
    for rv, state in states.items():
        assert [(v.name, v.obj["n"]) for v in store.items_at("pods", rv)] == state
    assert store.count("pods") == len(store.items("pods"))


@given(_STEPS, st.integers(min_value=0, max_value=40))
def test_list_then_changes_gives_the_present(steps: list[tuple[str, str]], cut: int) -> None:
    """A list and the changes after it give the current state: what every reflector relies on."""
    store = Store()
    mirror: dict[str, int] = {}
    since = store.rv
    for number, (verb, name) in enumerate(steps):
        if number == cut:
            mirror = {v.name: v.rv for v in store.items("pods")}
            since = store.rv
        if verb == "create" and store.get("pods", "ns", name) is None:
            store.create("pods", "ns", name, _obj(name))
        elif verb == "update" and store.get("pods", "ns", name) is not None:
            store.update("pods", "ns", name, _obj(name))
        elif verb == "delete" and store.get("pods", "ns", name) is not None:
            store.delete("pods", "ns", name)
    for change in store.changes_since("pods", since):
        if change.type == "DELETED":
            del mirror[change.version.name]
        else:
            assert (change.type == "ADDED") is (change.version.name not in mirror)
            mirror[change.version.name] = change.rv
    assert mirror == {v.name: v.rv for v in store.items("pods")}
