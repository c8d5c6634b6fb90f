"""A handle for DefaultPreemption that records every write, and the pods of its tests."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any

from plugins.default_preemption import DefaultPreemption, DefaultPreemptionArgs
from scheduler.api import Pod
from scheduler.api.meta import Condition
from scheduler.framework import (
    CycleState,
    NodeToStatus,
    PostFilterResult,
)
from scheduler.framework.preemption import Candidate, Harm, PreemptionFinding, PreemptionRules
from tests.unit.plugins.clusters import Cluster, node
from tests.unit.plugins.clusters import pod as plain_pod


def pod(name: str, priority: int = 0, **parts: Any) -> Pod:
    """Build a pod whose UID is its name."""
    metadata = {"name": name, "namespace": "default", "uid": name, **parts.pop("metadata", {})}
    spec = {"priority": priority, "schedulerName": "kubestow", **parts.pop("spec", {})}
    return plain_pod(spec, metadata=metadata, **parts)


class Waiting:
    """A pod that waits at Permit."""

    def __init__(self, *, over: bool) -> None:
        self.over = over
        self.messages: list[str] = []

    def preempt(self, plugin: str, message: str) -> bool:
        self.messages.append(f"{plugin}: {message}")
        return not self.over


class PreemptionHandle:
    """The parts of `framework.Handle` that the plugin uses; records every write in `log`.

    Background work runs at once, or in `go` if `held` is a list; nothing suspends it.
    """

    def __init__(self, **gates: bool) -> None:
        self.feature_gates: Mapping[str, bool] = gates
        self.cluster = Cluster([node("n1"), node("n2")])
        self.table = self.cluster.table
        self.pods: dict[str, Pod] = {}
        self.nominated: dict[str, list[Pod]] = {}
        self.forbidden: set[tuple[str, str]] = set()
        self.finding = PreemptionFinding(message="0/2 nodes are available: 2 Full.")
        self.rules: PreemptionRules | None = None
        self.observed: list[int] = []
        self.waiting: dict[str, Waiting] = {}
        self.in_pre_bind: set[str] = set()
        #: By pod name, the result of an eviction (default True) or of a patch (default None).
        self.results: dict[str, bool | Exception] = {}
        self.shared_objects: dict[str, Any] = {}
        #: Everything written, in order.
        self.log: list[str] = []
        self.conditions: list[Condition] = []
        self.errors: list[BaseException] = []
        self.held: list[Coroutine[Any, Any, None]] | None = None
        #: Called before each eviction.
        self.meanwhile: Callable[[], None] = lambda: None
        self.preemption = self.api = self.events = self.nominator = self.listers = self

    def shared(self, name: str, make: Callable[[], Any]) -> Any:
        return self.shared_objects.setdefault(name, make())

    # -- listers, nominator ----------------------------------------------------------------------

    def __getitem__(self, plural: str) -> PreemptionHandle:
        assert plural == "pods"
        return self

    def get(self, name: str, namespace: str = "") -> Pod | None:
        return self.pods.get(name)

    def may(self, verb: str, resource: str) -> bool:
        return (verb, resource) not in self.forbidden

    def nominated_pods_for_node(self, node_name: str) -> Sequence[Pod]:
        return self.nominated.get(node_name, [])

    # -- PreemptionSearch ------------------------------------------------------------------------

    def find(
        self,
        state: CycleState,
        pod: Pod,
        statuses: NodeToStatus,
        rules: PreemptionRules,
        harm: Harm | None = None,
    ) -> PreemptionFinding:
        self.rules = rules
        return self.finding

    def others_below(self, _pod: Pod) -> dict[str, int]:
        return {}

    def own(self, pod: Pod) -> bool:
        return pod.spec.scheduler_name != "other"

    def observe(self, victims: int) -> None:
        self.observed.append(victims)

    # -- writing ---------------------------------------------------------------------------------

    def node_of(self, uid: str) -> str:
        return next(
            (node for node, pods in self.nominated.items() for each in pods if each.uid == uid), ""
        )

    async def evict(
        self,
        pods: Sequence[Pod],
        condition: Condition,
        needed: Callable[[], bool] = lambda: True,
    ) -> Sequence[bool | BaseException]:
        self.meanwhile()
        if not needed():
            return [False for _ in pods]
        self.conditions.append(condition)
        self.log.append("evict " + " ".join(each.metadata.name for each in pods))
        return [self.results.get(each.metadata.name, True) for each in pods]

    async def patch(
        self, plural: str, name: str, namespace: str, body: Mapping[str, Any], subresource: str = ""
    ) -> None:
        assert (plural, namespace, subresource) == ("pods", "default", "status")
        assert body == {"metadata": {"uid": name}, "status": {"nominatedNodeName": None}}
        self.log.append(f"clear {name}")
        result = self.results.get(name)
        if isinstance(result, Exception):
            raise result

    def record(self, regarding: Pod, *words: str | Pod) -> None:
        *kind, note, related = words
        assert kind == ["Normal", "Preempted", "Preempting"]
        assert isinstance(related, Pod)
        assert note == (
            f"Preempted by pod {related.metadata.uid} on node n1: its priority is "
            f"{related.priority}, its scheduler kubestow"
        )
        self.log.append(f"event {regarding.metadata.name}")

    def activate(self, pods: Iterable[Pod]) -> None:
        self.log += [f"activate {each.metadata.name}" for each in pods]

    # -- pods on their way -----------------------------------------------------------------------

    def waiting_pod(self, uid: str) -> Waiting | None:
        return self.waiting.get(uid)

    def preempt_binding(self, uid: str, message: str) -> bool:
        assert message == "preempted by DefaultPreemption"
        return uid in self.in_pre_bind

    def run_in_background(self, work: Coroutine[Any, Any, None], name: str) -> None:
        if self.held is not None:
            self.held.append(work)
        else:
            self._run(work)

    def go(self) -> None:
        for work in self.held or ():
            self._run(work)
        self.held = None

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            work.send(None)
        except StopIteration:
            return
        except ExceptionGroup as error:
            self.errors.append(error)
            return
        work.close()
        raise AssertionError("background work awaits something that never comes")


def preemptor(handle: PreemptionHandle, **parts: Any) -> Pod:
    made = pod("p", 100, **parts)
    handle.pods["p"] = made
    return made


def choose(handle: PreemptionHandle, *victims: Pod) -> None:
    """Make the search find these victims, which the lister has."""
    handle.pods.update({each.metadata.name: each for each in victims})
    handle.finding = PreemptionFinding(chosen=Candidate("n1", victims, 0))


def build(handle: PreemptionHandle, args: DefaultPreemptionArgs | None = None) -> DefaultPreemption:
    untyped: Any = handle
    return DefaultPreemption(args, untyped)


def run(
    handle: PreemptionHandle, pod: Pod, statuses: NodeToStatus | None = None
) -> PostFilterResult:
    return ask(build(handle), pod, statuses)


def ask(
    plugin: DefaultPreemption, pod: Pod, statuses: NodeToStatus | None = None
) -> PostFilterResult:
    """Run PostFilter without extenders."""
    result = plugin.post_filter(CycleState(), pod, statuses or NodeToStatus())
    assert isinstance(result, PostFilterResult)
    return result
