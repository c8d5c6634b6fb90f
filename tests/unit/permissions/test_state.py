"""Missing permissions, found by reviews and by reflectors, and what follows from them."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs

from scheduler.api.pod_groups import NATIVE_POD_GROUPS
from scheduler.client.custom_resources import resource_of
from scheduler.client.errors import ApiError, ConnectionFailed, RequestError, StatusBody
from scheduler.client.resources import (
    CSI_STORAGE_CAPACITIES as CAPACITIES,
)
from scheduler.client.resources import (
    NODES,
    POD_DISRUPTION_BUDGETS,
    RESOURCE_QUOTAS,
)
from scheduler.framework import Permission
from scheduler.permissions.declarations import followed
from scheduler.permissions.state import (
    ADVICE,
    GRANTED,
    OPTIONAL,
    REQUIRED,
    STUCK_SECONDS,
    PermissionState,
    accesses,
)
from tests.unit.client.virtual_clock import ManualClock

READ = ("list", "watch")
NODES_READ = Permission(resource="nodes", verbs=READ, purpose="Nodes")
QUOTAS = Permission(resource="resourcequotas", verbs=READ, purpose="Quotas", without="no quotas")
BUDGETS = Permission(
    group="policy", resource="poddisruptionbudgets", verbs=READ, purpose="P", without="none preempt"
)
BIND = Permission(resource="pods/binding", verbs=("create",), purpose="Binder")


ACCOUNT = 'nodes is forbidden: User "system:serviceaccount:ops:bot" cannot list resource "nodes"'


def rejected(status: int, message: str = "") -> ApiError:
    return ApiError("GET", "/x", status=status, body=StatusBody(message=message))


class Gauges:
    def __init__(self) -> None:
        self.values: dict[tuple[str, str, bool], bool] = {}

    def missing_permission(
        self, resource: str, verb: str, *, required: bool, missing: bool
    ) -> None:
        self.values[resource, verb, required] = missing


class Fixture:
    def __init__(self) -> None:
        self.clock, self.gauges, self.granted = ManualClock(), Gauges(), 0
        self.state = PermissionState(self.clock, self.gauges)
        self.state.declare([NODES_READ, QUOTAS, BUDGETS, BIND])
        self.state.on_granted.subscribe(self.count)

    def count(self) -> None:
        self.granted += 1


@pytest.fixture
def fixture() -> Fixture:
    return Fixture()


GONE = ConnectionFailed("GET", "/x", "refused", sent=False)


@pytest.mark.parametrize(
    ("resource", "error", "goes_on", "may_list", "ready"),
    [
        (RESOURCE_QUOTAS, rejected(403), True, False, True),
        (RESOURCE_QUOTAS, rejected(404), True, False, True),
        (POD_DISRUPTION_BUDGETS, rejected(404), True, True, True),
        (POD_DISRUPTION_BUDGETS, rejected(403), True, False, True),
        (NODES, rejected(403), False, False, False),
        (NODES, rejected(404), None, True, True),
        (NODES, rejected(500), None, True, True),
        (RESOURCE_QUOTAS, rejected(503), None, True, True),
        (RESOURCE_QUOTAS, GONE, None, True, True),
        (RESOURCE_QUOTAS, None, False, True, True),
    ],
)
def test_a_response_to_a_reflector_decides(
    fixture: Fixture,
    resource: object,
    error: RequestError | None,
    goes_on: bool | None,
    may_list: bool,
    ready: bool,
) -> None:
    state = fixture.state
    found = state.contacted(resource, error)  # type: ignore[arg-type]
    if error is not None:
        assert found is goes_on
    assert state.may("list", resource.plural) is may_list  # type: ignore[attr-defined]
    assert (state.ready() is None) is ready


def test_a_watch_that_opens_again_ends_it(fixture: Fixture) -> None:
    state = fixture.state
    state.contacted(RESOURCE_QUOTAS, rejected(403))
    assert state.degraded() == "missing permissions: list/watch resourcequotas: no quotas"
    assert fixture.gauges.values["resourcequotas", "list", False] is True
    assert fixture.granted == 0
    state.contacted(RESOURCE_QUOTAS, None)
    assert state.degraded() is None
    assert fixture.gauges.values["resourcequotas", "list", False] is False
    assert fixture.granted == 1


def test_one_version_of_a_resource_may_be_served_without_the_other(fixture: Fixture) -> None:
    state = fixture.state
    older, *_, newer = map(resource_of, NATIVE_POD_GROUPS)
    state.declare([followed(older.plural, ())])
    assert state.contacted(newer, rejected(404)), "nothing waits for it"
    assert not state.serves(newer.plural)
    assert state.serves(older.plural), "as far as is known"
    state.contacted(older, rejected(403))
    assert not state.may("list", older.plural), "the lack of a permission is seen nevertheless"
    state.contacted(older, None)
    assert state.serves(older.plural)
    state.contacted(older, rejected(404))
    assert not state.serves(older.plural)
    state.contacted(newer, None)
    assert state.serves(newer.plural)


def test_what_a_reflector_met_counts_more_than_a_review(fixture: Fixture) -> None:
    state = fixture.state
    state.reviewed({QUOTAS: READ}, ())
    assert not state.may("list", "resourcequotas")
    state.contacted(RESOURCE_QUOTAS, None)
    assert state.may("list", "resourcequotas")
    state.reviewed({QUOTAS: READ}, ())
    assert state.may("list", "resourcequotas")


def test_what_discovery_does_not_have_is_not_missing(fixture: Fixture) -> None:
    state = fixture.state
    state.contacted(POD_DISRUPTION_BUDGETS, rejected(403))
    state.reviewed({BUDGETS: READ}, [BUDGETS])
    assert state.may("list", "poddisruptionbudgets")
    # The API was installed meanwhile, without a rule for it.
    state.reviewed({BUDGETS: READ}, ())
    assert not state.may("list", "poddisruptionbudgets")


def test_a_required_permission_that_is_missing_gives_the_rule(fixture: Fixture) -> None:
    fixture.state.reviewed({BIND: ("create",), QUOTAS: READ}, ())
    assert fixture.state.ready() == (
        "missing permissions: create pods/binding; add these rules:\n"
        '- {apiGroups: [""], resources: [pods/binding], verbs: [create]}'
    )
    assert fixture.gauges.values["pods/binding", "create", True] is True


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        (None, True),
        (rejected(404), False),
        (rejected(403), True),
        (rejected(429), None),
        (rejected(503), None),
        (ConnectionFailed("GET", "/x", "refused", sent=False), None),
    ],
)
async def test_an_answer_is_newer_than_the_question(
    fixture: Fixture, response: RequestError | None, answer: bool | None
) -> None:
    state = fixture.state
    budgets = POD_DISRUPTION_BUDGETS
    state.contacted(budgets, rejected(404))

    async def look() -> RequestError | None:
        state.contacted(budgets, response)
        return response

    state.looks[budgets.plural] = look
    assert not state.serves(budgets.plural)
    assert await state.served_now(budgets.plural) is answer


async def test_discovery_is_asked_again_where_a_resource_may_not_be_listed(
    fixture: Fixture,
) -> None:
    state = fixture.state
    budgets = POD_DISRUPTION_BUDGETS
    absent: list[Permission] = [BUDGETS]

    async def look() -> RequestError | None:
        return rejected(403)

    async def review() -> None:
        state.reviewed({BUDGETS: READ}, absent)

    state.looks[budgets.plural] = look
    state.reviews.append(review)
    await review()
    assert await state.served_now(budgets.plural) is False
    absent.clear()
    assert not state.serves(budgets.plural), "as far as is known"
    assert await state.served_now(budgets.plural) is True
    absent.append(BUDGETS)
    await review()
    state.contacted(budgets, None)
    assert state.serves(budgets.plural), "its watch is open, whatever discovery said before"


async def test_it_is_not_alive_after_two_minutes_without_a_change(fixture: Fixture) -> None:
    state, clock = fixture.state, fixture.clock
    state.reviewed({BIND: ("create",), NODES_READ: READ}, ())
    await clock.advance(STUCK_SECONDS - 1)
    assert state.alive() is None
    # Somebody is at work: the time begins anew.
    state.reviewed({BIND: ("create",)}, ())
    await clock.advance(STUCK_SECONDS - 1)
    assert state.alive() is None
    state.reviewed({BIND: ("create",)}, ())
    await clock.advance(1)
    assert state.alive() == state.ready() is not None
    state.reviewed({}, ())
    assert state.alive() is None


async def test_optional_permissions_never_end_it(fixture: Fixture) -> None:
    fixture.state.reviewed({QUOTAS: READ}, ())
    await fixture.clock.advance(10 * STUCK_SECONDS)
    assert fixture.state.alive() is fixture.state.ready() is None


def test_each_change_is_logged_once_with_the_rule(fixture: Fixture) -> None:
    with capture_logs() as logs:
        for _ in range(3):
            fixture.state.contacted(POD_DISRUPTION_BUDGETS, rejected(403))
            fixture.state.contacted(NODES, rejected(403))
        for _ in range(2):
            fixture.state.contacted(NODES, None)
    assert [(each["log_level"], each["event"]) for each in logs] == [
        ("warning", OPTIONAL),
        ("error", REQUIRED),
        ("info", GRANTED),
    ]
    assert logs[0]["without"] == ["none preempt (poddisruptionbudgets.policy)"]
    assert logs[0]["rules"] == (
        "- {apiGroups: [policy], resources: [poddisruptionbudgets], verbs: [list, watch]}"
    )
    assert logs[1]["missing"] == logs[2]["permissions"] == ["list/watch nodes"]


def test_a_review_is_one_line_for_what_is_required_and_one_for_the_rest(fixture: Fixture) -> None:
    state = fixture.state
    state.granting = ("kubestow", "config", "rbac", "my profile.yaml")
    others = [replace(QUOTAS, resource=f"others{number}") for number in range(9)]
    state.declare([*state.declared, *others])
    with capture_logs() as logs:
        with state.reviewing():
            state.contacted(NODES, rejected(403, ACCOUNT))
            state.contacted(RESOURCE_QUOTAS, rejected(403, ACCOUNT))
            assert logs == []
            denied = {each: each.verbs for each in (NODES_READ, BIND, QUOTAS, BUDGETS, *others)}
            state.reviewed(denied, ())
        state.contacted(POD_DISRUPTION_BUDGETS, rejected(403, ACCOUNT))
    required, optional = logs
    assert (required["log_level"], required["event"]) == ("error", REQUIRED)
    assert required["missing"] == ["list/watch nodes", "create pods/binding"]
    assert required["rules"].count("\n") == 1
    assert required["error"] == ACCOUNT
    assert required["grant"] == (
        "an administrator grants all of it with: kubestow config rbac 'my profile.yaml' "
        "--service-account ops/bot | kubectl apply -f -"
    )
    assert (optional["log_level"], optional["event"]) == ("warning", OPTIONAL)
    assert optional["without"][1] == "none preempt (poddisruptionbudgets.policy)"
    assert optional["without"][0].startswith("no quotas (resourcequotas, others0, others1,")
    assert "rules" not in optional, "they would hide the text"
    with capture_logs() as logs, state.reviewing():
        state.reviewed({**denied, NODES_READ: ("watch",)}, ())
    assert logs == [], "the reflector knows better"


def test_another_permission_that_is_missing_later_is_another_line(fixture: Fixture) -> None:
    state = fixture.state
    with state.reviewing():
        state.reviewed({BIND: ("create",)}, ())
    with capture_logs() as logs:
        for denied in ({BIND: ("create",)}, {BIND: ("create",), NODES_READ: READ}):
            with state.reviewing():
                state.reviewed(denied, ())
    assert [each["missing"] for each in logs] == [["list/watch nodes"]]


@pytest.mark.parametrize("message", ["", 'User "ann" cannot list resource "nodes"', "no entry"])
def test_a_user_who_is_no_account_is_led_to_the_check(fixture: Fixture, message: str) -> None:
    fixture.state.granting = ("kubestow", "config", "rbac")
    with capture_logs() as logs:
        fixture.state.contacted(NODES, rejected(403, message))
    assert logs[0]["grant"] == ADVICE
    assert logs[0].get("error", "") == message


def test_a_review_that_fails_hides_nothing(fixture: Fixture) -> None:
    state = fixture.state

    def fail() -> None:
        with state.reviewing():
            state.contacted(NODES, rejected(403))
            raise KeyError

    with capture_logs() as logs, pytest.raises(KeyError):
        fail()
    assert [each["event"] for each in logs] == [REQUIRED]


def test_only_the_verbs_that_are_missing_are_added(fixture: Fixture) -> None:
    fixture.state.reviewed({QUOTAS: ("watch",)}, ())
    assert fixture.state.missing == {QUOTAS: ("watch",)}
    assert fixture.state.may("list", "resourcequotas")
    assert not fixture.state.may("watch", "resourcequotas")


def test_what_was_not_declared_is_allowed(fixture: Fixture) -> None:
    assert fixture.state.may("delete", "pods")
    assert not fixture.state.contacted(CAPACITIES, rejected(403))


def test_each_verb_and_name_is_reviewed() -> None:
    lease = Permission(
        group="coordination.k8s.io", resource="leases", verbs=("get", "update"), names=("a",),
        namespace="n", purpose="x",
    )  # fmt: skip
    assert [(each.verb, each.name, each.namespace) for each in accesses(lease)] == [
        ("get", "a", "n"),
        ("update", "a", "n"),
    ]
    assert accesses(Permission(urls=("/debug/queue",), verbs=("get",), purpose="x")) == ()


async def test_what_is_missing_and_declared_again_is_no_change(fixture: Fixture) -> None:
    state = fixture.state
    state.reviewed({BIND: ("create",), QUOTAS: READ}, ())
    await fixture.clock.advance(STUCK_SECONDS)
    with capture_logs() as logs:
        state.declare([replace(BIND, purpose="Another binder"), BUDGETS, NODES_READ])
    assert logs == []
    assert state.alive() is not None
    assert fixture.gauges.values["pods/binding", "create", True] is True
    assert fixture.gauges.values["resourcequotas", "list", False] is False
    with capture_logs() as logs:
        state.declare([replace(BIND, without="nothing is bound"), QUOTAS])
    assert [each["missing"] for each in logs] == [["create pods/binding"]]
    assert fixture.gauges.values["pods/binding", "create", True] is False
    assert fixture.gauges.values["pods/binding", "create", False] is True
    assert fixture.granted == 0


def test_resources_of_equal_plurals_in_different_groups_are_told_apart(fixture: Fixture) -> None:
    usage = "metrics.k8s.io/v1beta1/nodes"
    plugin = SimpleNamespace(name="P", required_resources=(usage,))
    fixture.state.declare([NODES_READ, followed(usage, [plugin])])
    assert not fixture.state.contacted(resource_of(usage), rejected(403))
    assert not fixture.state.may("list", usage)
    assert fixture.state.may("list", "nodes")
    fixture.state.contacted(resource_of(usage), None)
    assert fixture.state.may("list", usage)
    fixture.state.contacted(NODES, rejected(403))
    assert fixture.state.may("list", usage)
    assert not fixture.state.may("list", "nodes")


def test_a_custom_resource_that_is_absent_is_no_missing_permission(fixture: Fixture) -> None:
    racks = "example.com/v1/racks"
    permission = followed(racks, [SimpleNamespace(name="P", required_resources=(racks,))])
    assert (permission.group, permission.resource) == ("example.com", "racks")
    fixture.state.declare([permission])
    assert fixture.state.contacted(resource_of(racks), rejected(404))
    assert fixture.state.may("list", racks)
