"""Leader election in virtual time: two candidates, one Lease, and every way it can fail."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from scheduler.client.fence import LeaderFence
from scheduler.client.leader_election import (
    STANDS_BY,
    LeaderElectionOptions,
    check_timing,
    new_identity,
)
from tests.unit.client.lease_store import Candidate, LeaseStore, running
from tests.unit.client.virtual_clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store() -> LeaseStore:
    return LeaseStore()


async def test_creates_the_lease_and_renews_it(clock: ManualClock, store: LeaseStore) -> None:
    a = Candidate("a", store, clock)
    async with running(a):
        await clock.advance(0)
        assert store.spec == {
            "holderIdentity": "a",
            "leaseDurationSeconds": 15,
            "acquireTime": "2023-11-14T22:13:20.000000Z",
            "renewTime": "2023-11-14T22:13:20.000000Z",
            "leaseTransitions": 0,
        }
        await clock.advance(60)
        assert store.spec["renewTime"] == "2023-11-14T22:14:20.000000Z"
        assert store.spec["acquireTime"] == "2023-11-14T22:13:20.000000Z"
        assert a.elector.leading
        # Renewing needs one request, not two.
        assert a.lock.calls == 2 + 30


async def test_the_second_waits_and_takes_over_after_a_crash(
    clock: ManualClock, store: LeaseStore
) -> None:
    store.write(
        {
            "metadata": {"annotations": {"keep": "me"}},
            "spec": {"holderIdentity": "dead", "leaseDurationSeconds": 15, "strategy": "foreign"},
        }
    )
    b = Candidate("b", store, clock)
    async with running(b):
        await clock.advance(14.9)
        assert not b.has_led()
        await clock.advance(5)
        assert b.has_led()
    assert store.spec["leaseTransitions"] == 1
    assert store.spec["strategy"] == "foreign"
    assert store.lease is not None
    assert store.lease["metadata"]["annotations"] == {"keep": "me"}


async def test_a_clean_stop_hands_over_within_a_retry(
    clock: ManualClock, store: LeaseStore
) -> None:
    a, b = Candidate("a", store, clock), Candidate("b", store, clock)
    async with running(a) as (task,):
        await clock.advance(1)
        async with running(b):
            await clock.advance(5)
            assert not b.has_led()
            task.cancel()
            await clock.settle()
            assert store.spec["holderIdentity"] == ""
            assert not a.may_write()
            await clock.advance(2 * 2.2)
            assert b.has_led()


@pytest.mark.parametrize("holder", ["a", "b"])
async def test_a_renewal_cut_off_by_the_end_does_not_keep_the_lease(
    clock: ManualClock, store: LeaseStore, holder: str
) -> None:
    """The server executed it, or another process was faster: the known version is outdated."""
    a = Candidate("a", store, clock)
    async with running(a) as (task,):
        await clock.advance(1)
        store.write({**(store.lease or {}), "spec": {**store.spec, "holderIdentity": holder}})
        task.cancel()
        await clock.settle()
        assert store.spec["holderIdentity"] == ("" if holder == "a" else "b")


async def test_what_leads_may_finish_before_the_lease_is_released(
    clock: ManualClock, store: LeaseStore
) -> None:
    a = Candidate("a", store, clock)
    drained_with: list[bool] = []

    async def lead() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await clock.sleep(20)
            drained_with.append(a.may_write())

    task = asyncio.create_task(a.elector.run(lead))
    await clock.advance(1)
    task.cancel()
    await clock.advance(30)
    assert task.cancelled()
    # Draining took longer than the lease lasts: it was renewed meanwhile.
    assert drained_with == [True]
    assert store.spec["holderIdentity"] == ""


@pytest.mark.parametrize("fault", ["refuse", "hang", "lose response"])
async def test_leadership_ends_before_another_process_can_take_over(
    clock: ManualClock, store: LeaseStore, fault: str
) -> None:
    a, b = Candidate("a", store, clock), Candidate("b", store, clock)
    async with running(a, b):
        await clock.advance(7)
        leader, other = (a, b) if a.has_led() else (b, a)
        leader.lock.fault = fault
        both = False
        for _ in range(400):
            await clock.advance(0.1)
            both = both or (a.may_write() and b.may_write())
        assert not both
        assert leader.lost is not None
        assert other.has_led()
        assert "not renewed within 10s" in str(leader.lost)


@pytest.mark.parametrize("fault", ["404", "terminating"])
async def test_a_namespace_that_was_deleted_is_said_at_the_end(
    clock: ManualClock, store: LeaseStore, fault: str
) -> None:
    a = Candidate("a", store, clock)
    async with running(a):
        await clock.advance(5)
        a.lock.fault = fault
        await clock.advance(20)
        said = str(a.lost)
        assert "its namespace is gone" in said
        assert "kubectl create namespace kubestow-system" in said
        assert "another replica" not in said


async def test_a_lease_that_was_deleted_is_created_again(
    clock: ManualClock, store: LeaseStore
) -> None:
    a = Candidate("a", store, clock)
    async with running(a):
        await clock.advance(5)
        store.lease = None
        await clock.advance(20)
        assert store.spec["holderIdentity"] == "a"
        assert a.lost is None


async def test_a_short_outage_is_survived(clock: ManualClock, store: LeaseStore) -> None:
    a = Candidate("a", store, clock)
    async with running(a):
        await clock.advance(5)
        a.lock.fault = "refuse"
        before = a.lock.calls
        await clock.advance(7)
        assert a.lock.calls - before >= 3, "all refused"
        a.lock.fault = ""
        await clock.advance(20)
        assert a.may_write()
        assert a.lost is None


async def test_a_process_that_was_frozen_does_not_write_when_it_wakes(
    clock: ManualClock, store: LeaseStore
) -> None:
    a = Candidate("a", store, clock)
    async with running(a):
        await clock.advance(5)
        assert a.may_write()
        clock.jump(11)
        assert not a.may_write()
        await clock.advance(1)
        assert a.lost is not None


async def test_a_conflicting_write_to_the_lease_is_not_a_loss(
    clock: ManualClock, store: LeaseStore
) -> None:
    a = Candidate("a", store, clock)
    async with running(a):
        await clock.advance(5)
        assert store.lease is not None
        store.write({**store.lease, "metadata": {"annotations": {"by": "kubectl"}}})
        await clock.advance(9)
        assert a.may_write()
        assert store.lease["metadata"]["annotations"] == {"by": "kubectl"}


async def test_a_deleted_lease_is_created_again(clock: ManualClock, store: LeaseStore) -> None:
    a = Candidate("a", store, clock)
    async with running(a):
        await clock.advance(5)
        store.lease = None
        await clock.advance(6)
        assert a.may_write()
        assert store.spec["holderIdentity"] == "a"


async def test_a_stolen_lease_ends_leadership_at_the_next_renewal(
    clock: ManualClock, store: LeaseStore
) -> None:
    a = Candidate("a", store, clock)
    async with running(a):
        await clock.advance(5)
        assert store.lease is not None
        store.write({**store.lease, "spec": {**store.spec, "holderIdentity": "thief"}})
        await clock.advance(4.5)
        assert a.lost is not None
        assert "held by thief" in str(a.lost)
        assert store.spec["holderIdentity"] == "thief"


async def test_an_unreadable_lease_is_retried(clock: ManualClock, store: LeaseStore) -> None:
    store.write({"metadata": {}, "spec": {"holderIdentity": 7}})
    a = Candidate("a", store, clock)
    async with running(a):
        await clock.advance(10)
        assert not a.has_led()
        store.lease = None
        await clock.advance(5)
        assert a.has_led()


async def test_an_error_of_what_leads_comes_out_and_releases(
    clock: ManualClock, store: LeaseStore
) -> None:
    a = Candidate("a", store, clock)

    async def fails() -> None:
        msg = "broken"
        raise LookupError(msg)

    with pytest.raises(LookupError, match="broken"):
        await a.elector.run(fails)
    assert store.spec["holderIdentity"] == ""


_FAULTS = st.sampled_from(["", "", "refuse", "hang", "lose response"])


@settings(max_examples=25, deadline=None)
@given(steps=st.lists(st.tuples(_FAULTS, _FAULTS, st.floats(0.1, 12.0)), min_size=1, max_size=12))
def test_never_two_writers(steps: list[tuple[str, str, float]]) -> None:
    """Whatever happens to either connection, at no moment may both write."""

    async def scenario() -> None:
        clock, store = ManualClock(), LeaseStore()
        a, b = Candidate("a", store, clock), Candidate("b", store, clock)
        async with running(a, b):
            for fault_a, fault_b, seconds in steps:
                a.lock.fault, b.lock.fault = fault_a, fault_b
                passed = 0.0
                while passed < seconds:
                    await clock.advance(0.5)
                    passed += 0.5
                    assert not (a.may_write() and b.may_write())

    asyncio.run(scenario())


class TestFence:
    def test_is_shut_until_renewed_and_after_the_deadline(self) -> None:
        clock = ManualClock()
        fence = LeaderFence(clock, 10.0)
        assert not fence.allowed()
        clock.jump(100)
        fence.renewed(97.0)
        assert fence.remaining() == pytest.approx(7.0)
        clock.jump(6.9)
        assert fence.allowed()
        clock.jump(0.1)
        assert not fence.allowed()

    def test_stays_shut_for_good(self) -> None:
        clock = ManualClock()
        fence = LeaderFence(clock, 10.0)
        fence.renewed(0.0)
        fence.shut()
        fence.renewed(0.0)
        assert not fence.allowed()


@pytest.mark.parametrize(
    ("options", "bind_timeout", "problem"),
    [
        (LeaderElectionOptions(), 4.0, ""),
        (LeaderElectionOptions(), 5.0, "bind timeout (5s) plus leaderElection.renewDeadline (10s)"),
        (LeaderElectionOptions(lease_duration=10), 1.0, "leaseDuration (10s) must be greater"),
        (LeaderElectionOptions(retry_period=9), 1.0, "renewDeadline (10s) must be greater"),
        (LeaderElectionOptions(lease_duration=0.5, renew_deadline=0.2), 0.1, "1s or more"),
    ],
)
def test_timing_is_checked(
    options: LeaderElectionOptions, bind_timeout: float, problem: str
) -> None:
    problems = check_timing(options, bind_timeout)
    assert (problem in "; ".join(problems)) if problem else problems == []


def test_identities_differ() -> None:
    assert new_identity() != new_identity()


async def test_a_standby_says_once_who_holds_the_lease(
    clock: ManualClock, store: LeaseStore
) -> None:
    a, b = Candidate("a", store, clock), Candidate("b", store, clock)
    with capture_logs() as logs:
        async with running(a):
            await clock.advance(5)
            async with running(b):
                await clock.advance(60)
    (said,) = [each for each in logs if each["event"] == STANDS_BY]
    assert (said["lease"], said["holder"]) == ("kubestow-system/kubestow", "a")


@pytest.mark.parametrize(
    ("fault", "advice"),
    [
        ("refuse", "does the API server answer? kubestow check, with the same kubeconfig, asks it"),
        ("403", "kubestow config rbac prints the roles"),
    ],
)
async def test_what_keeps_it_from_leading_is_said_after_the_time_of_a_lease(
    clock: ManualClock, store: LeaseStore, fault: str, advice: str
) -> None:
    a = Candidate("a", store, clock)
    a.lock.fault = fault
    with capture_logs() as logs:
        async with running(a):
            await clock.advance(14)
            assert [each for each in logs if each["log_level"] == "error"] == []
            await clock.advance(60)
            (said,) = [each for each in logs if each["log_level"] == "error"]
            assert said["event"].startswith("does not lead after 1")
            assert advice in said["event"]
            a.lock.fault = ""
            await clock.advance(5)
            assert a.elector.leading


async def test_a_namespace_that_does_not_exist_is_said_at_once_and_once(
    clock: ManualClock, store: LeaseStore
) -> None:
    a = Candidate("a", store, clock)
    a.lock.fault = "404"
    with capture_logs() as logs:
        async with running(a):
            await clock.settle()
            (said,) = logs
            assert said["log_level"] == "error"
            assert said["event"].startswith("cannot lead: ")
            assert (
                "create the namespace with kubectl create namespace kubestow-system, or give "
                "--leader-elect-resource-namespace"
            ) in said["event"]
            await clock.advance(60)
            assert logs == [said]
            a.lock.fault = ""
            await clock.advance(5)
            assert a.elector.leading
