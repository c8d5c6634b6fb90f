"""Requests to extenders, and the effect of their responses on a pod."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.engine.failure import MAX_MESSAGE_LENGTH
from simulator import EmbeddedCluster
from testing.embedded_service import (
    bind,
    bound_to,
    condition,
    event_notes,
    find,
    node,
    pod,
    sample,
    scheduling,
    settled,
    until,
)
from tests.integration.extenders.extender import Extender, hanging, hanging_for, names, only

NAMES: dict[str, Any] = {"nodeCacheCapable": True}
QUICK: dict[str, Any] = {"podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 1}


def entry(extender: Extender, *verbs: str, **options: Any) -> dict[str, Any]:
    """An extender that takes part in the steps named."""
    weight = {"weight": 1} if "prioritize" in verbs else {}
    return {
        "urlPrefix": extender.url + "/",
        **{f"{verb}Verb": verb for verb in verbs},
        **weight,
        **options,
    }


def message(cluster: EmbeddedCluster, name: str = "p") -> str:
    return str(condition(cluster, name).get("message", ""))


# -- filter ---------------------------------------------------------------------------------------


async def test_a_filter_gets_whole_objects_as_the_server_has_them(
    cluster: EmbeddedCluster, extender: Extender
) -> None:
    for name in ("n1", "n2", "n3"):
        cluster.create({**node(name), "x-unknown": {"to": "us"}})
    extender.answers["filter"] = lambda call: {
        "Nodes": {"items": [each for each in call["Nodes"]["items"] if names_of(each) == "n2"]}
    }
    async with scheduling(cluster, extenders=[entry(extender, "filter")]) as scheduler:
        cluster.create(pod("p", tolerations=[{"key": "k", "operator": "Exists"}]))
        await until(lambda: bound_to(cluster, "p") == "n2", "bound")
        await settled(scheduler)
    (call,) = extender.sent("filter")
    assert sorted(call) == ["NodeNames", "Nodes", "Pod"]
    assert call["NodeNames"] is None
    assert sorted(names(call)) == ["n1", "n2", "n3"]
    stored = find(cluster, "p")
    assert stored is not None
    assert call["Pod"]["spec"]["containers"] == stored["spec"]["containers"]
    assert call["Pod"]["spec"]["tolerations"] == stored["spec"]["tolerations"]
    assert call["Nodes"]["items"][0]["status"]["capacity"]["pods"] == "110"


def names_of(obj: dict[str, Any]) -> str:
    return str(obj["metadata"]["name"])


async def test_a_filter_that_keeps_nodes_gets_their_names(
    cluster: EmbeddedCluster, extender: Extender
) -> None:
    for name in ("n1", "n2", "full"):
        cluster.create(node(name, cpu="1m" if name == "full" else "4"))
    extender.answers["filter"] = only("n1")
    async with scheduling(cluster, extenders=[entry(extender, "filter", **NAMES)]):
        cluster.create(pod("p"))
        await until(lambda: bound_to(cluster, "p") == "n1", "bound")
    (call,) = extender.sent("filter")
    assert call["Nodes"] is None
    # A node that a plugin rejected is not sent.
    assert sorted(call["NodeNames"]) == ["n1", "n2"]


async def test_filters_follow_each_other_ignorable_ones_last(
    cluster: EmbeddedCluster, extender: Extender
) -> None:
    for name in ("n1", "n2", "n3"):
        cluster.create(node(name))
    extender.answers["last"] = only("n2")
    extender.answers["first"] = only("n2", "n3")
    both = [
        entry(extender, **NAMES, filterVerb="last", ignorable=True),
        entry(extender, **NAMES, filterVerb="first"),
    ]
    async with scheduling(cluster, extenders=both):
        cluster.create(pod("p"))
        await until(lambda: bound_to(cluster, "p") == "n2", "bound")
    assert extender.verbs() == ["first", "last"]
    assert sorted(names(extender.sent("last")[0])) == ["n2", "n3"]


async def test_rejections_are_told_and_any_event_brings_the_pod_back(
    cluster: EmbeddedCluster, extender: Extender
) -> None:
    for name in ("n1", "n2"):
        cluster.create(node(name))
    extender.answers["filter"] = lambda call: {
        "FailedNodes": {"n1": "no licence", "n2": "no licence"},
        "FailedAndUnresolvableNodes": {"n2": "no such device", "unheard-of": "?"},
    }
    document = {**QUICK, "extenders": [entry(extender, "filter", **NAMES)]}
    async with scheduling(cluster, **document) as scheduler:
        cluster.create(pod("p"))
        await until(lambda: message(cluster), "condition")
        assert message(cluster).startswith(
            "0/2 nodes are available: 1 no licence, 1 no such device."
        )
        assert condition(cluster, "p")["reason"] == "Unschedulable"
        (view,) = [each for each in scheduler.scheduling.queue.views() if each.name == "p"]
        assert "Extender" in view.unschedulable_plugins
        extender.answers["filter"] = only("n1", "n2", "n3")
        cluster.create(node("n3"))
        await until(lambda: bound_to(cluster, "p"), "bound")


async def test_pods_without_managed_resources_are_none_of_its_business(
    cluster: EmbeddedCluster, extender: Extender
) -> None:
    gpu = "example.com/gpu"
    cluster.create(node("n1"))
    extender.answers["filter"] = hanging
    managed = [{"name": gpu, "ignoredByScheduler": True}]
    mine = entry(extender, "filter", **NAMES, managedResources=managed)
    async with scheduling(cluster, extenders=[mine]):
        cluster.create(pod("plain"))
        await until(lambda: bound_to(cluster, "plain"), "bound")
        assert extender.calls == []
        extender.answers["filter"] = only("n1")
        devices = [{"name": "c", "resources": {"limits": {gpu: "1"}, "requests": {gpu: "1"}}}]
        # No node has any: NodeResourcesFit leaves the resource to the extender.
        cluster.create(pod("special", containers=devices))
        await until(lambda: bound_to(cluster, "special"), "bound")
        assert extender.verbs() == ["filter"]


FAULTS: list[tuple[str, Any, str]] = [
    ("status", 500, "failed filter with extender at URL {url}/filter, code 500"),
    ("redirect", 302, "failed filter with extender at URL {url}/filter, code 302"),
    ("garbage", b"<html>", 'extender "{url}/filter": malformed response: '),
    ("a wrong type", {"NodeNames": [1]}, "NodeNames: Expected `str`, got `int`"),
    ("a list", [1], 'extender "{url}/filter": malformed response: Expected `object'),
    ("a deep nest", b"[" * 100_000, 'extender "{url}/filter": malformed response: '),
    ("another node", {"NodeNames": ["n1", "n9"]},
     'claims a filtered node "n9" which is not found in the input node list'),
    ("its own error", {"Error": "disk on fire"}, 'extender "{url}/filter": disk on fire'),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "text"), [case[1:] for case in FAULTS],
                         ids=[case[0] for case in FAULTS])  # fmt: skip
async def test_a_fault_fails_the_attempt_with_url_verb_and_reason(
    cluster: EmbeddedCluster, extender: Extender, answer: Any, text: str
) -> None:
    cluster.create(node("n1"))
    extender.answers["filter"] = lambda _: answer
    document = {**QUICK, "extenders": [entry(extender, "filter", **NAMES)]}
    async with scheduling(cluster, **document):
        cluster.create(pod("p"))
        await until(lambda: message(cluster), "condition")
        assert text.format(url=extender.url) in message(cluster)
        assert f"{extender.url}/filter" in message(cluster)
        assert condition(cluster, "p")["reason"] == "SchedulerError"
        extender.answers["filter"] = only("n1")
        await until(lambda: bound_to(cluster, "p") == "n1", "retried with backoff")


async def test_a_flood_of_words_is_cut_to_what_a_pod_can_hold(
    cluster: EmbeddedCluster, extender: Extender
) -> None:
    cluster.create(node("n1"))
    cluster.create(node("n2"))
    extender.answers["filter"] = only(reason="no " * 1_000_000)
    async with scheduling(cluster, **QUICK, extenders=[entry(extender, "filter", **NAMES)]):
        cluster.create(pod("p"))
        await until(lambda: message(cluster), "condition")
        assert len(message(cluster)) == MAX_MESSAGE_LENGTH
        assert message(cluster).startswith("0/2 nodes are available: 2 no no no")
        assert message(cluster).endswith(" ...")


async def test_an_ignorable_extender_that_fails_is_passed_over(
    cluster: EmbeddedCluster, extender: Extender
) -> None:
    cluster.create(node("n1"))
    extender.answers["filter"] = lambda _: 500
    mine = entry(extender, "filter", **NAMES, ignorable=True)
    async with scheduling(cluster, extenders=[mine]):
        cluster.create(pod("p"))
        await until(lambda: bound_to(cluster, "p") == "n1", "bound")


async def test_a_hanging_extender_is_given_up_and_soon_not_called_any_more(
    cluster: EmbeddedCluster, extender: Extender
) -> None:
    cluster.create(node("n1"))
    extender.answers["filter"] = hanging_for(2)
    mine = entry(extender, "filter", **NAMES, httpTimeout="2s")
    document = {**QUICK, "extenders": [mine], "kubestow": {"extenderFailures": 2}}
    async with scheduling(cluster, **document) as scheduler:
        for name in ("a", "b", "c"):
            cluster.create(pod(name))
        await until(lambda: all(message(cluster, name) for name in ("a", "b", "c")), "conditions")
        late, skipped = "no response within 2s", "is not called: it failed 2 times in a row"
        texts = [message(cluster, name) for name in ("a", "b", "c")]
        assert sum(late in text for text in texts) == 2
        assert sum(skipped in text for text in texts) == 1
        assert all(f"{extender.url}/filter" in text for text in texts)
        assert len(extender.calls) == 2
        assert sample(scheduler, "kubestow_extender_circuit_open") == 1
        assert sample(scheduler, "kubestow_extender_requests_total", result="not_called") >= 1
        assert (
            scheduler.state.extender_transport.statistics()[extender.url + "/"]["filter"]["state"]
            == "open"
        )


@pytest.mark.parametrize("answer", [500, 400, b"garbage"])
async def test_pods_that_an_extender_fails_on_cost_others_nothing(
    cluster: EmbeddedCluster, extender: Extender, answer: Any
) -> None:
    """It answers, so it is asked about everybody: as kube-scheduler does."""
    cluster.create(node("n1", cpu="64"))

    def fail_on_bad(call: dict[str, Any]) -> Any:
        name = call["Pod"]["metadata"]["name"]
        return answer if name.startswith("bad") else {"NodeNames": call["NodeNames"]}

    extender.answers["filter"] = fail_on_bad
    mine = entry(extender, "filter", **NAMES)
    async with scheduling(cluster, extenders=[mine], kubestow={"extenderFailures": 1}) as scheduler:
        for index in range(4):
            cluster.create(pod(f"bad{index}"))
        await until(lambda: all(message(cluster, f"bad{index}") for index in range(4)), "refused")
        cluster.create(pod("good"))
        await until(lambda: bound_to(cluster, "good") == "n1", "bound")
        assert sample(scheduler, "kubestow_extender_circuit_open") == 0
        assert sample(scheduler, "kubestow_extender_requests_total", result="not_called") == 0


async def test_a_gateway_without_an_extender_counts_as_no_answer(
    cluster: EmbeddedCluster, extender: Extender
) -> None:
    cluster.create(node("n1"))
    extender.answers["filter"] = lambda _: 503
    mine = entry(extender, "filter", **NAMES)
    async with scheduling(cluster, extenders=[mine], kubestow={"extenderFailures": 1}) as scheduler:
        cluster.create(pod("a"))
        await until(lambda: sample(scheduler, "kubestow_extender_circuit_open") == 1, "open")


async def test_a_verb_that_works_does_not_keep_one_that_hangs_in_use(
    cluster: EmbeddedCluster, extender: Extender
) -> None:
    cluster.create(node("n1", cpu="64"))
    cluster.create(node("n2", cpu="64"))
    # Long enough for the verb that works on a loaded machine: it may not fail even once.
    extender.answers["prioritize"] = hanging_for(10)
    mine = entry(extender, "filter", "prioritize", **NAMES, httpTimeout="10s", weight=1)
    async with scheduling(cluster, extenders=[mine], kubestow={"extenderFailures": 2}) as scheduler:
        for index in range(10):
            cluster.create(pod(f"p{index}"))
        await until(lambda: all(bound_to(cluster, f"p{index}") for index in range(10)), "bound")
        assert extender.verbs().count("filter") == 10
        assert extender.verbs().count("prioritize") == 2
        states = scheduler.state.extender_transport.statistics()[extender.url + "/"]
        assert {verb: each["state"] for verb, each in states.items()} == {
            "filter": "closed", "prioritize": "open"
        }  # fmt: skip


async def test_nobody_waits_for_an_ignorable_extender_whose_circuit_is_open(
    cluster: EmbeddedCluster, extender: Extender
) -> None:
    cluster.create(node("n1", cpu="64"))
    extender.answers["filter"] = hanging_for(2)
    mine = entry(extender, "filter", **NAMES, httpTimeout="2s", ignorable=True)
    async with scheduling(cluster, extenders=[mine], kubestow={"extenderFailures": 1}):
        for index in range(20):
            cluster.create(pod(f"p{index}"))
        await until(lambda: all(bound_to(cluster, f"p{index}") for index in range(20)), "bound")
        assert len(extender.calls) == 1


# -- prioritize -----------------------------------------------------------------------------------


def scoring(**scores: int) -> Any:
    return lambda call: [{"Host": name, "Score": scores.get(name, 0)} for name in names(call)]


async def test_scores_count_ten_times_their_weight(
    cluster: EmbeddedCluster, extender: Extender
) -> None:
    # The plugins prefer the big node by less than 100 a plugin; 10 * 10 * 20 is more.
    cluster.create(node("big", cpu="64"))
    cluster.create(node("small", cpu="2"))
    extender.answers["prioritize"] = scoring(small=10)
    mine = entry(extender, "prioritize", **NAMES, weight=20)
    async with scheduling(cluster, extenders=[mine]):
        cluster.create(pod("p"))
        await until(lambda: bound_to(cluster, "p") == "small", "bound")


@pytest.mark.parametrize(
    "answer",
    [
        lambda call: 503,
        lambda call: [{"Host": "small", "Score": "high"}],
        lambda call: {"Host": "small"},
    ],
)
async def test_scores_that_cannot_be_used_are_ignored(
    cluster: EmbeddedCluster, extender: Extender, answer: Any
) -> None:
    cluster.create(node("big", cpu="64"))
    cluster.create(node("small", cpu="2"))
    extender.answers["prioritize"] = answer
    mine = entry(extender, "prioritize", **NAMES, weight=20)
    async with scheduling(cluster, extenders=[mine]):
        cluster.create(pod("p"))
        await until(lambda: bound_to(cluster, "p") == "big", "bound")


@pytest.mark.parametrize(
    "answer",
    [
        scoring(small=50),
        scoring(big=-10),
        lambda call: [{"Host": "elsewhere", "Score": 10}, {"Host": "small", "Score": 10}],
    ],
)
async def test_unusual_scores_count_as_upstream_and_are_reported_once(
    cluster: EmbeddedCluster, extender: Extender, answer: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.create(node("big", cpu="64"))
    cluster.create(node("small", cpu="2"))
    extender.answers["prioritize"] = answer
    mine = entry(extender, "prioritize", **NAMES, weight=20)
    async with scheduling(cluster, extenders=[mine]):
        cluster.create(pod("p"))
        await until(lambda: bound_to(cluster, "p") == "small", "bound")
        cluster.create(pod("q"))
        await until(lambda: bound_to(cluster, "q") == "small", "bound")
    assert capsys.readouterr().out.count("unusual scores of an extender") == 1


async def test_two_extenders_add_up(cluster: EmbeddedCluster, extender: Extender) -> None:
    for name in ("n1", "n2", "n3"):
        cluster.create(node(name))
    extender.answers["p1"] = scoring(n1=10, n2=6)
    extender.answers["p2"] = scoring(n3=10, n2=6)
    both = [
        entry(extender, **NAMES, prioritizeVerb="p1", weight=100),
        entry(extender, **NAMES, prioritizeVerb="p2", weight=100),
    ]
    async with scheduling(cluster, extenders=both):
        cluster.create(pod("p"))
        await until(lambda: bound_to(cluster, "p") == "n2", "bound")


# -- preempt --------------------------------------------------------------------------------------


@pytest.fixture
def important(cluster: EmbeddedCluster) -> dict[str, Any]:
    """Two full nodes, and a pod of priority that needs one of them."""
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    cluster.create({**kind, "metadata": {"name": "high"}, "value": 1000})
    for name in ("n1", "n2"):
        cluster.create(node(name, cpu="1"))
        cluster.create(pod(f"on-{name}", terminationGracePeriodSeconds=0))
        bind(cluster, f"on-{name}", name)
    return pod("p", priorityClassName="high")


def uid(cluster: EmbeddedCluster, name: str) -> str:
    found = find(cluster, name)
    assert found is not None
    return str(found["metadata"]["uid"])


@pytest.mark.parametrize("short", [True, False])
async def test_an_extender_decides_among_victims(
    cluster: EmbeddedCluster, extender: Extender, important: dict[str, Any], short: bool
) -> None:
    chosen = uid(cluster, "on-n2")
    extender.answers["preempt"] = lambda _: {
        "NodeNameToMetaVictims": {"n2": {"Pods": [{"UID": chosen}], "NumPDBViolations": 0}}
    }
    mine = entry(extender, "preempt", nodeCacheCapable=short)
    async with scheduling(cluster, extenders=[mine]):
        cluster.create(important)
        await until(lambda: bound_to(cluster, "p") == "n2", "bound")
        assert find(cluster, "on-n1") is not None
    call = extender.sent("preempt")[0]
    assert call["Pod"]["metadata"]["name"] == "p"
    if short:
        assert call["NodeNameToVictims"] is None
        assert call["NodeNameToMetaVictims"]["n2"] == {
            "Pods": [{"UID": chosen}], "NumPDBViolations": 0,
        }  # fmt: skip
    else:
        assert call["NodeNameToMetaVictims"] is None
        (victim,) = call["NodeNameToVictims"]["n2"]["Pods"]
        assert victim["spec"]["nodeName"] == "n2"
        assert victim["spec"]["terminationGracePeriodSeconds"] == 0


PREEMPT_FAULTS: list[tuple[Any, bool, str]] = [
    (500, False, "preemption: failed preempt with extender at URL {url}/preempt, code 500"),
    ({"NodeNameToMetaVictims": {"n1": {"Pods": []}}}, False,
     'preemption: extender "{url}/preempt": expected at least one victim pod on node "n1"'),
    ({"NodeNameToMetaVictims": {"n9": {"Pods": [{"UID": "u"}]}}}, False,
     'preemption: extender "{url}/preempt": node "n9" not found'),
    ({"NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "u"}]}}}, False,
     "claims to preempt pod (UID: u) on node: n1, but the pod is not found on that node"),
    ({"NodeNameToMetaVictims": {"n1": {"Pods": []}}}, True, "no candidate node for preemption"),
    ({"NodeNameToMetaVictims": None}, False, "no candidate node for preemption"),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "ignorable", "text"), PREEMPT_FAULTS)
async def test_nobody_is_evicted_when_an_extender_leaves_no_candidate(
    cluster: EmbeddedCluster, extender: Extender, important: dict[str, Any],
    answer: Any, ignorable: bool, text: str,
) -> None:  # fmt: skip
    extender.answers["preempt"] = lambda _: answer
    mine = entry(extender, "preempt", **NAMES, ignorable=ignorable)
    async with scheduling(cluster, extenders=[mine]) as scheduler:
        cluster.create(important)
        await until(lambda: message(cluster), "condition")
        assert text.format(url=extender.url) in message(cluster)
        await settled(scheduler)
        assert find(cluster, "on-n1") is not None
        assert find(cluster, "on-n2") is not None


async def test_preemption_goes_on_without_an_ignorable_extender_that_fails(
    cluster: EmbeddedCluster, extender: Extender, important: dict[str, Any]
) -> None:
    extender.answers["preempt"] = lambda _: 500
    mine = entry(extender, "preempt", **NAMES, ignorable=True)
    async with scheduling(cluster, extenders=[mine]):
        cluster.create(important)
        await until(lambda: bound_to(cluster, "p"), "bound")


# -- bind -----------------------------------------------------------------------------------------


def binder(cluster: EmbeddedCluster, then: Any = None) -> Any:
    """Binds as an extender does, then answers."""

    def answer(call: dict[str, Any]) -> Any:
        bind(cluster, call["PodName"], call["Node"])
        return {"Error": ""} if then is None else then

    return answer


async def test_an_extender_binds_instead_of_the_plugins(
    cluster: EmbeddedCluster, extender: Extender
) -> None:
    cluster.create(node("n1"))
    extender.answers["bind"] = binder(cluster)
    async with scheduling(cluster, extenders=[entry(extender, "bind")]) as scheduler:
        cluster.create(pod("p"))
        await until(lambda: event_notes(cluster, "Scheduled"), "event")
        assert bound_to(cluster, "p") == "n1"
        assert sample(scheduler, "rest_client_requests_total", method="POST", code="409") == 0
    expected = {
        "PodName": "p", "PodNamespace": "default", "PodUID": uid(cluster, "p"), "Node": "n1",
    }  # fmt: skip
    assert extender.sent("bind") == [expected]


@pytest.mark.parametrize("answer", [500, b"garbage", {"Error": "lost my connection"}])
async def test_a_bind_that_failed_after_it_was_done_counts_as_done(
    cluster: EmbeddedCluster, extender: Extender, answer: Any
) -> None:
    cluster.create(node("n1"))
    extender.answers["bind"] = binder(cluster, then=answer)
    async with scheduling(cluster, extenders=[entry(extender, "bind")]) as scheduler:
        cluster.create(pod("p"))
        await until(lambda: event_notes(cluster, "Scheduled"), "event")
        await settled(scheduler)
    assert event_notes(cluster, "FailedScheduling") == []
    assert extender.verbs() == ["bind"]


async def test_a_bind_that_was_not_done_is_tried_again(
    cluster: EmbeddedCluster, extender: Extender
) -> None:
    cluster.create(node("n1"))
    extender.answers["bind"] = lambda _: {"Error": "not today"}
    document = {**QUICK, "extenders": [entry(extender, "bind")]}
    async with scheduling(cluster, **document):
        cluster.create(pod("p"))
        await until(lambda: message(cluster), "condition")
        assert message(cluster) == f'extender "{extender.url}/bind": not today'
        extender.answers["bind"] = binder(cluster)
        await until(lambda: bound_to(cluster, "p") == "n1", "bound")


async def test_the_plugins_bind_when_an_ignorable_binder_fails(
    cluster: EmbeddedCluster, extender: Extender
) -> None:
    cluster.create(node("n1"))
    extender.answers["bind"] = lambda _: 500
    mine = entry(extender, "bind", ignorable=True)
    async with scheduling(cluster, extenders=[mine]):
        cluster.create(pod("p"))
        await until(lambda: bound_to(cluster, "p") == "n1", "bound")
    assert extender.verbs() == ["bind"]
