"""In whatever order things happen: sums equal a recount, no limit is exceeded, nothing leaks."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from plugins.resource_quota.accounts import Role
from plugins.resource_quota.ledger import Ledger
from plugins.resource_quota.records import Together
from scheduler.api import Pod
from scheduler.api.policy import ResourceQuota
from tests.unit.plugins.resource_quota.objects import pod, quota

NAMES = [f"p{number}" for number in range(4)]
UIDS = st.sampled_from(NAMES)
SIZES = st.sampled_from(["0", "300m", "1", "2"])
SCOPES = st.sampled_from([(), ("Terminating",), ("NotTerminating",), ("NotBestEffort",)])
KINDS = st.sampled_from(["gated", "deferred", "plain"])


class LedgerMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.ledger = self.new_ledger()
        self.ledger.mark_synced()
        self.pods: dict[str, Pod] = {}
        self.kinds: dict[str, str] = {}
        self.specs: dict[str, dict[str, int]] = {}
        self.reserved: set[str] = set()
        self.nominated: set[str] = set()
        self.quotas: dict[str, ResourceQuota] = {}
        self.foreign = False

    def new_ledger(self) -> Ledger:
        return Ledger()

    def _limit(self, made: ResourceQuota) -> None:
        self.quotas[made.metadata.name] = made
        self.ledger.set_quota(made)

    def _show(self, uid: str, cpu: str, kind: str, **parts: object) -> None:
        self.kinds[uid] = kind
        self.pods[uid] = pod(
            uid,
            cpu,
            gates=kind == "gated",
            deferred=kind == "deferred",
            spec=self.specs[uid],
            **parts,  # type: ignore[arg-type]
        )
        self.ledger.observe(self.pods[uid])

    @rule(name=st.sampled_from("ab"), hard=st.sampled_from([0, 1000, 2500]), scopes=SCOPES)
    def set_quota(self, name: str, hard: int, scopes: tuple[str, ...]) -> None:
        self.foreign = True  # A limit may now be below what is taken.
        self._limit(quota(name, hard={"requests.cpu-millis": hard}, scopes=scopes))

    @rule(name=st.sampled_from("ab"))
    def remove_quota(self, name: str) -> None:
        self.quotas.pop(name, None)
        self.ledger.remove_quota("default", name)

    @initialize(
        signatures=st.lists(st.tuples(SIZES, KINDS), min_size=len(NAMES), max_size=len(NAMES))
    )
    def populate(self, signatures: list[tuple[str, str]]) -> None:
        for uid, (cpu, kind) in zip(NAMES, signatures, strict=True):
            self.show(uid, cpu, kind, deadline=False)

    @rule(uid=UIDS, cpu=SIZES, kind=KINDS, deadline=st.booleans())
    def show(self, uid: str, cpu: str, kind: str, deadline: bool) -> None:
        if uid in self.pods and self.pods[uid].spec.node_name:
            return
        if uid in self.reserved:
            return
        spec = {"activeDeadlineSeconds": 5} if deadline else {}
        self.specs[uid] = spec
        self._show(uid, cpu, kind)

    @rule(uid=UIDS, phase=st.sampled_from(["Running", "Succeeded"]), cpu=SIZES)
    def bind_seen(self, uid: str, phase: str, cpu: str) -> None:
        self.foreign |= uid in self.pods and uid not in self.reserved
        self._bind(uid, phase, cpu)

    def _bind(self, uid: str, phase: str, cpu: str) -> None:
        if uid not in self.pods:
            return
        if uid in self.reserved:
            cpu = self.pods[uid].spec.containers[0].resources.requests["cpu"]  # type: ignore[assignment]
        self.reserved.discard(uid)
        self._show(uid, cpu, self.kinds[uid], node="n", status={"phase": phase})

    @rule(uid=UIDS, grace=st.sampled_from([0, 5]))
    def delete(self, uid: str, grace: int) -> None:
        known = self.pods.get(uid)
        if known is None:
            return
        going = {"deletionTimestamp": "1970-01-01T00:17:00Z", "deletionGracePeriodSeconds": grace}
        cpu = str(known.spec.containers[0].resources.requests["cpu"])
        node = known.spec.node_name
        self._show(uid, cpu, self.kinds[uid], node=node, metadata=going)

    @rule(uid=UIDS)
    def forget(self, uid: str) -> None:
        self.ledger.forget(uid)
        self.pods.pop(uid, None)
        self.reserved.discard(uid)
        self.nominated.discard(uid)

    @rule(uid=UIDS)
    def enqueue(self, uid: str) -> None:
        known = self.pods.get(uid)
        if known is None or known.spec.node_name or known.spec.scheduling_gates:
            return
        found = self.ledger.violations(known)
        if found:
            self.ledger.hold(uid, found, self.now)
            assert uid in self.reserved or uid not in set(self.ledger.reserved())
        else:
            self.ledger.admit(uid, self.now)

    @rule(uids=st.sets(UIDS, min_size=2), need=st.integers(1, 4))
    def enqueue_together(self, uids: set[str], need: int) -> None:
        """Run the check of a group before its cycle."""
        waiting = [
            uid
            for uid in sorted(uids & self.pods.keys() - self.reserved)
            if not (self.pods[uid].spec.node_name or self.pods[uid].spec.scheduling_gates)
        ]
        if len(waiting) < need:
            return
        leader, found = self.ledger.violations_together(waiting, need)
        if found:
            self.ledger.hold(leader, found, self.now, Together(tuple(waiting), need))
            assert all(map(self.ledger.holds, waiting))
        else:
            for uid in filter(self.ledger.leads, waiting):
                self.ledger.admit(uid, self.now)

    @rule(uid=UIDS)
    def reserve(self, uid: str) -> None:
        known = self.pods.get(uid)
        if known is None or known.spec.node_name or known.spec.scheduling_gates:
            return
        if not self.ledger.reserve(known):
            self.reserved.add(uid)

    @rule(uid=UIDS)
    def commit(self, uid: str) -> None:
        """Run the steps of the engine: PreFilter, the end of the nomination, Reserve."""
        known = self.pods.get(uid)
        if known is None or known.spec.node_name or known.spec.scheduling_gates:
            return
        if not self.ledger.violations(known):
            self.nominate(uid, "")
            assert not self.ledger.reserve(known)
            self.reserved.add(uid)

    @rule(uid=UIDS)
    def unreserve(self, uid: str) -> None:
        self.ledger.unreserve(uid)
        self.reserved.discard(uid)

    @rule(uid=UIDS, node=st.sampled_from(["n", ""]))
    def nominate(self, uid: str, node: str) -> None:
        if uid in self.pods:
            self.ledger.nominate(self.pods[uid], node)
            (self.nominated.add if node else self.nominated.discard)(uid)

    @rule(order=st.permutations(NAMES))
    def restart(self, order: list[str]) -> None:
        """Another process: pods are listed in any order, each with its nomination."""
        self.ledger = self.new_ledger()
        self.reserved.clear()
        for each in self.quotas.values():
            self.ledger.set_quota(each)
        for uid in order:
            if uid in self.pods:
                self.ledger.observe(self.pods[uid])
                if uid in self.nominated:
                    self.ledger.nominate(self.pods[uid], "n")
        self.ledger.run_due(self.now)
        self.ledger.mark_synced()

    @rule(seconds=st.sampled_from([0.0, 0.3, 10.0]))
    def time(self, seconds: float) -> None:
        self.now += seconds
        self.ledger.run_due(self.now)

    @rule(uid=UIDS)
    def attempted(self, uid: str) -> None:
        self.ledger.attempted(uid)

    @rule(uid=UIDS)
    def unplaced(self, uid: str) -> None:
        """No node has room; what is claimed is put right between cycles."""
        known = self.pods.get(uid)
        if known is None or known.spec.node_name or self.ledger.holds(uid):
            return
        if self.ledger.claims.violations(known):
            self.ledger.claims.await_turn(uid)
        else:
            self.ledger.claims.add(uid)
        for account in self.ledger.accounts():
            self.ledger.claims.withdraw(account)
            assert not account.overclaimed()
            for each in self.ledger.claims.take_claimable(account):
                assert not self.ledger.claims.violations(each)

    @invariant()
    def sums_equal_a_recount(self) -> None:
        self.ledger.validate()

    @precondition(lambda self: not self.foreign)
    @invariant()
    def reservations_never_exceed_a_limit(self) -> None:
        for account in self.ledger.accounts():
            assert not account.over()

    def teardown(self) -> None:
        for uid in list(self.pods):
            self.forget(uid)
        self.ledger.validate()
        for account in self.ledger.accounts():
            assert not account.charges
            assert all(not any(account.sums[role]) for role in Role)
        assert self.ledger.statistics().held == 0
        self.ledger.run_due(self.now + 1000)
        assert self.ledger.next_due() is None


class FixedQuotaMachine(LedgerMachine):
    """Limits that stay, and no bindings by others: nothing is ever exceeded."""

    def __init__(self) -> None:
        super().__init__()
        self._limit(quota("a", hard={"requests.cpu-millis": 2500}))
        self._limit(quota("b", hard={"requests.cpu-millis": 1000}, scopes=["NotTerminating"]))

    # Without the decorator they are rules no more.
    def set_quota(self) -> None:
        pass

    def remove_quota(self) -> None:
        pass

    @rule(uid=UIDS)
    def bind_seen(self, uid: str) -> None:
        if uid in self.reserved:
            self._bind(uid, "Running", "1")


class NominationMachine(FixedQuotaMachine):
    """The machine with few rules, so that nominations meet pending pods."""

    def __init__(self) -> None:
        super().__init__()
        self.quotas.clear()
        self.ledger = self.new_ledger()
        self._limit(quota("a", hard={"requests.cpu-millis": 2500}))
        self.ledger.mark_synced()

    @initialize(
        signatures=st.lists(
            st.tuples(st.sampled_from(["1", "2"]), st.sampled_from(["deferred", "plain"])),
            min_size=len(NAMES),
            max_size=len(NAMES),
        )
    )
    def populate(self, signatures: list[tuple[str, str]]) -> None:
        self.signatures = dict(zip(NAMES, signatures, strict=True))

    @rule(uid=UIDS)
    def show(self, uid: str) -> None:
        if uid not in self.pods:
            cpu, kind = self.signatures[uid]
            self.specs[uid] = {}
            self._show(uid, cpu, kind)

    @rule(uid=UIDS)
    def preempt(self, uid: str) -> None:
        self.show(uid)
        self.nominate(uid, "n")

    @rule(uid=UIDS)
    def bind_seen(self, uid: str) -> None:
        self.show(uid)
        if not self.pods[uid].spec.node_name:
            self.commit(uid)
            super().bind_seen(uid)

    def delete(self) -> None:
        pass

    def time(self) -> None:
        pass


class FairMachine(FixedQuotaMachine):
    """The machine with quota kept for starving pods."""

    def new_ledger(self) -> Ledger:
        return Ledger(hold_after=0.2, max_hold=5.0)


TestLedger = LedgerMachine.TestCase
TestFair = FairMachine.TestCase
TestFixedQuota = FixedQuotaMachine.TestCase
TestNominations = NominationMachine.TestCase
TestLedger.settings = TestFixedQuota.settings = TestFair.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
TestNominations.settings = settings(TestLedger.settings, max_examples=120)
