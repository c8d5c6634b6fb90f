"""Choice of the connection to close."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler.service.serving.connections import ConnectionStage, ConnectionTable

LIMIT, PER_CLIENT = 6, 3


def table() -> ConnectionTable[int]:
    return ConnectionTable(limit=LIMIT, limit_per_client=PER_CLIENT)


def test_a_client_beyond_its_share_loses_its_own_oldest_silent_connection() -> None:
    connections = table()
    assert [connections.add(each, "a") for each in (1, 2, 3)] == [None] * 3
    connections.advance(1, ConnectionStage.STARTING)
    assert connections.add(4, "b") is None
    assert connections.add(5, "a") == 2


def test_when_all_places_are_taken_the_oldest_silent_connection_of_all_makes_room() -> None:
    connections = table()
    for each in range(LIMIT):
        connections.add(each, f"client {each}")
    connections.advance(0, ConnectionStage.SERVING)
    connections.advance(1, ConnectionStage.STARTING)
    assert connections.add(9, "newest") == 2


def test_requests_being_answered_go_last() -> None:
    connections = table()
    for each, stage in enumerate(
        (ConnectionStage.SERVING, ConnectionStage.STARTING, ConnectionStage.STARTING)
    ):
        connections.add(each, "a")
        connections.advance(each, stage)
    assert connections.add(9, "a") == 1


def test_what_was_removed_stays_removed() -> None:
    connections = table()
    connections.add(1, "a")
    connections.remove(1)
    connections.remove(1)
    connections.advance(1, ConnectionStage.SERVING)
    assert len(connections) == 0
    assert connections.oldest() is None


steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from("abcdef")),
        st.tuples(
            st.sampled_from([ConnectionStage.STARTING, ConnectionStage.SERVING]), st.integers(0, 40)
        ),
        st.tuples(st.just("remove"), st.integers(0, 40)),
    ),
    max_size=60,
)


@given(steps)
def test_no_limit_is_exceeded_and_the_newest_stays(taken: list[tuple[object, object]]) -> None:
    connections = table()
    clients: dict[int, str] = {}
    stages: dict[int, ConnectionStage] = {}
    for number, (what, argument) in enumerate(taken):
        if what == "add":
            victim = connections.add(number, argument)
            clients[number], stages[number] = str(argument), ConnectionStage.SILENT
            if victim is not None:
                assert victim != number
                own = [each for each in clients if clients[each] == argument]
                rivals = own if len(own) > PER_CLIENT else list(clients)
                rivals.remove(number)
                assert stages[victim] == min(stages[each] for each in rivals)
                connections.remove(victim)
                del clients[victim], stages[victim]
        elif what == "remove":
            assert isinstance(argument, int)
            connections.remove(argument)
            clients.pop(argument, None)
            stages.pop(argument, None)
        else:
            assert isinstance(what, ConnectionStage)
            assert isinstance(argument, int)
            connections.advance(argument, what)
            if argument in stages:
                stages[argument] = what
        assert set(connections.connections()) == set(clients)
        assert len(connections) <= LIMIT
        assert all(list(clients.values()).count(each) <= PER_CLIENT for each in clients.values())
