"""Extenders that fail: the condition of the pod, ignorable extenders, and open circuits."""

from __future__ import annotations

from typing import Any

import pytest

from devtools.embedded_service import (
    ConditionLog,
    bound_to,
    condition,
    node,
    pod,
    sample,
    scheduling,
    until,
)
from scheduler.engine.failure import MAX_MESSAGE_LENGTH
from simulator import EmbeddedCluster
from tests.integration.extenders.extender import ExtenderServer, hanging_for, only
from tests.integration.extenders.setup import BY_NAME, QUICK, entry, message

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


@pytest.mark.parametrize(("response", "text"), [case[1:] for case in FAULTS],
                         ids=[case[0] for case in FAULTS])  # fmt: skip
async def test_a_fault_fails_the_attempt_with_url_verb_and_reason(
    cluster: EmbeddedCluster, extender: ExtenderServer, response: Any, text: str
) -> None:
    cluster.create(node("n1"))
    extender.responses["filter"] = lambda _: response
    document = {**QUICK, "extenders": [entry(extender, "filter", **BY_NAME)]}
    async with scheduling(cluster, **document):
        cluster.create(pod("p"))
        await until(lambda: message(cluster), "condition")
        assert text.format(url=extender.url) in message(cluster)
        assert f"{extender.url}/filter" in message(cluster)
        assert condition(cluster, "p")["reason"] == "SchedulerError"
        extender.responses["filter"] = only("n1")
        await until(lambda: bound_to(cluster, "p") == "n1", "retried with backoff")


async def test_a_long_reason_is_cut_to_the_length_of_a_condition(
    cluster: EmbeddedCluster, extender: ExtenderServer
) -> None:
    cluster.create(node("n1"))
    cluster.create(node("n2"))
    extender.responses["filter"] = only(reason="no " * 1_000_000)
    async with scheduling(cluster, **QUICK, extenders=[entry(extender, "filter", **BY_NAME)]):
        cluster.create(pod("p"))
        await until(lambda: message(cluster), "condition")
        assert len(message(cluster)) == MAX_MESSAGE_LENGTH
        assert message(cluster).startswith("0/2 nodes are available: 2 no no no")
        assert message(cluster).endswith(" ...")


async def test_the_failure_of_an_ignorable_extender_is_ignored(
    cluster: EmbeddedCluster, extender: ExtenderServer
) -> None:
    cluster.create(node("n1"))
    extender.responses["filter"] = lambda _: 500
    mine = entry(extender, "filter", **BY_NAME, ignorable=True)
    async with scheduling(cluster, extenders=[mine]):
        cluster.create(pod("p"))
        await until(lambda: bound_to(cluster, "p") == "n1", "bound")


async def test_an_extender_that_hangs_opens_its_circuit(
    cluster: EmbeddedCluster, extender: ExtenderServer
) -> None:
    cluster.create(node("n1"))
    extender.responses["filter"] = hanging_for(2)
    mine = entry(extender, "filter", **BY_NAME, httpTimeout="2s")
    document = {**QUICK, "extenders": [mine], "kubestow": {"extenderFailures": 2}}
    shown = ConditionLog(cluster).messages
    async with scheduling(cluster, **document) as scheduler:
        for name in ("a", "b", "c"):
            cluster.create(pod(name))
        await until(lambda: all(map(shown, ("a", "b", "c"))), "conditions")
        late, skipped = "no response within 2s", "is not called: it failed 2 times in a row"
        # The first of each: a second attempt may have been skipped meanwhile.
        texts = [shown(name)[0] for name in ("a", "b", "c")]
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


@pytest.mark.parametrize("response", [500, 400, b"garbage"])
async def test_error_responses_for_single_pods_leave_the_circuit_closed(
    cluster: EmbeddedCluster, extender: ExtenderServer, response: Any
) -> None:
    """It responds, so it is called for every other pod, as by kube-scheduler."""
    cluster.create(node("n1", cpu="64"))

    def fail_on_bad(call: dict[str, Any]) -> Any:
        name = call["Pod"]["metadata"]["name"]
        return response if name.startswith("bad") else {"NodeNames": call["NodeNames"]}

    extender.responses["filter"] = fail_on_bad
    mine = entry(extender, "filter", **BY_NAME)
    async with scheduling(cluster, extenders=[mine], kubestow={"extenderFailures": 1}) as scheduler:
        for index in range(4):
            cluster.create(pod(f"bad{index}"))
        await until(lambda: all(message(cluster, f"bad{index}") for index in range(4)), "refused")
        cluster.create(pod("good"))
        await until(lambda: bound_to(cluster, "good") == "n1", "bound")
        assert sample(scheduler, "kubestow_extender_circuit_open") == 0
        assert sample(scheduler, "kubestow_extender_requests_total", result="not_called") == 0


async def test_a_gateway_without_an_extender_counts_as_no_response(
    cluster: EmbeddedCluster, extender: ExtenderServer
) -> None:
    cluster.create(node("n1"))
    extender.responses["filter"] = lambda _: 503
    mine = entry(extender, "filter", **BY_NAME)
    async with scheduling(cluster, extenders=[mine], kubestow={"extenderFailures": 1}) as scheduler:
        cluster.create(pod("a"))
        await until(lambda: sample(scheduler, "kubestow_extender_circuit_open") == 1, "open")


async def test_each_verb_has_a_circuit_of_its_own(
    cluster: EmbeddedCluster, extender: ExtenderServer
) -> None:
    cluster.create(node("n1", cpu="64"))
    cluster.create(node("n2", cpu="64"))
    # Long enough for the verb that works on a loaded machine: it may not fail even once.
    extender.responses["prioritize"] = hanging_for(10)
    mine = entry(extender, "filter", "prioritize", **BY_NAME, httpTimeout="10s", weight=1)
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


async def test_no_pod_waits_for_an_ignorable_extender_whose_circuit_is_open(
    cluster: EmbeddedCluster, extender: ExtenderServer
) -> None:
    cluster.create(node("n1", cpu="64"))
    extender.responses["filter"] = hanging_for(2)
    mine = entry(extender, "filter", **BY_NAME, httpTimeout="2s", ignorable=True)
    async with scheduling(cluster, extenders=[mine], kubestow={"extenderFailures": 1}):
        for index in range(20):
            cluster.create(pod(f"p{index}"))
        await until(lambda: all(bound_to(cluster, f"p{index}") for index in range(20)), "bound")
        assert len(extender.calls) == 1
