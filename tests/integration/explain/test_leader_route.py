"""The way to the leader: an API server that only reads the Lease and forwards ports, in a thread.

The real API server is in tests/envtest/test_leader_access.py; here are the failures that it does
not have on demand.
"""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from devtools.control_plane.ports import LOOPBACK, free_port
from scheduler.cli.leader import PUBLISHED_WITHIN
from scheduler.client.leader_record import ANNOTATION
from tests.integration.explain.leader_cluster import (
    NAMESPACE,
    PODS,
    QUEUE,
    Answer,
    Ask,
    Cluster,
    outside,
    status,
)

plain_http = pytest.mark.parametrize("cluster", [False], indirect=True, ids=["plain HTTP"])


def test_the_answer_of_the_leader_arrives_and_the_token_goes_to_it_alone(
    cluster: Cluster, ask: Ask
) -> None:
    assert (ask().out, ask("--token", "given").out) == (QUEUE.decode(),) * 2
    assert cluster.authorizations == ["Bearer of-the-kubeconfig", "Bearer given"]


def test_a_new_leader_is_asked_when_the_former_one_is_gone(cluster: Cluster, ask: Ask) -> None:
    def take_over(_: int) -> None:
        cluster.holder = "b"

    del cluster.listening[PODS["a"]]
    cluster.forwarded = take_over
    found = ask()
    assert (found.code, found.out, found.err) == (0, QUEUE.decode(), "")


def test_when_leaders_change_again_and_again_the_code_is_7(cluster: Cluster, ask: Ask) -> None:
    def take_over(_: int) -> None:
        cluster.holder = "b" if cluster.holder == "a" else "a"

    cluster.listening.clear()
    cluster.forwarded = take_over
    found = ask()
    assert (found.code, found.out) == (7, "")
    assert "another replica took over during the question, twice" in found.err


def test_a_leader_that_is_gone_and_still_holds_the_lease_is_not_reachable(
    cluster: Cluster, ask: Ask
) -> None:
    cluster.listening.clear()
    found = ask()
    assert (found.code, found.out) == (5, "")
    assert (
        "the leader, pod kubestow-system/a, cannot be reached: error forwarding port 1001"
        in found.err
    )


def test_a_certificate_that_was_renewed_is_accepted_when_its_hash_is_published(
    cluster: Cluster, ask: Ask
) -> None:
    right, cluster.hashes["a"] = cluster.hashes["a"], "00" * 32

    def publish(_: int) -> None:
        # The way through the API server takes longer than the leader.
        cluster.clock.sleep(PUBLISHED_WITHIN + 1.0)
        cluster.hashes["a"] = right

    cluster.forwarded = publish
    assert ask().code == 0


def test_another_certificate_gets_no_token(cluster: Cluster, ask: Ask) -> None:
    cluster.hashes["a"] = "00" * 32
    found = ask()
    assert (found.code, cluster.authorizations) == (5, [])
    assert "is not the one that it published on its Lease" in found.err


@pytest.mark.parametrize(
    ("answer", "code", "texts"),
    [
        (status(401, "Unauthorized"), 6, ("/config auth whoami",)),
        (
            status(403, 'User "u" cannot get leases'),
            6,
            ('User "u" cannot get leases', "--role=kubestow-explainer"),
        ),
        (status(404, "not found"), 5, ("there is no Lease kubestow-system/kubestow", "--lease")),
        (status(500, "etcd is gone"), 1, ("responded with 500: etcd is gone",)),
        (lambda: web.json_response({"spec": {}}), 5, ("nobody holds the Lease",)),
        (
            lambda: web.json_response({"spec": {"holderIdentity": "old_1"}}),
            5,
            ("old_1, which holds the Lease", "--server"),
        ),
        (lambda: web.Response(text="<html>"), 1, ("something else than a Lease",)),
    ],
)
def test_a_lease_that_leads_nowhere_is_explained(
    cluster: Cluster, ask: Ask, answer: Answer, code: int, texts: tuple[str, ...]
) -> None:
    cluster.lease = answer
    found = ask()
    assert (found.code, found.out) == (code, "")
    for text in texts:
        assert text in found.err


@pytest.mark.parametrize(
    ("host", "address"),
    [
        (LOOPBACK, f"{LOOPBACK}:1002"),
        ("laptop.example", "laptop.example:1002"),
        ("::1", "[::1]:1002"),
    ],
)
def test_a_host_on_the_lease_gets_nothing_and_the_user_is_told_how_to_reach_it(
    cluster: Cluster, ask: Ask, host: str, address: str
) -> None:
    cluster.lease = outside(cluster, 1002, host)
    found = ask()
    assert (found.code, found.out, cluster.authorizations) == (5, "", [])
    assert "laptop, which holds the Lease kubestow-system/kubestow, runs outside" in found.err
    assert f"--server https://{address} --ca-file FILE" in found.err


def test_not_even_a_host_with_the_right_certificate_gets_the_token(
    cluster: Cluster, ask: Ask
) -> None:
    cluster.lease = outside(cluster, cluster.listening[PODS["a"]])
    assert (ask().code, cluster.authorizations) == (5, [])


@plain_http
@pytest.mark.parametrize("host", [LOOPBACK, "localhost", socket.gethostname()])
def test_the_leader_of_an_experiment_on_this_machine_is_asked(
    cluster: Cluster, ask: Ask, host: str
) -> None:
    cluster.lease = outside(cluster, cluster.listening[PODS["a"]], host)
    found = ask()
    assert (found.code, found.out) == (0, QUEUE.decode())
    assert cluster.authorizations == ["Bearer of-the-kubeconfig"]


@plain_http
@pytest.mark.parametrize(
    ("host", "arguments"),
    [("laptop.example", ()), ("192.0.2.1", ()), (LOOPBACK, ("--token", "given"))],
)
def test_the_leader_of_an_experiment_is_on_no_other_machine_and_gets_no_other_token(
    cluster: Cluster, ask: Ask, host: str, arguments: tuple[str, ...]
) -> None:
    cluster.lease = outside(cluster, cluster.listening[PODS["a"]], host)
    found = ask(*arguments)
    assert (found.code, found.out, cluster.authorizations) == (5, "", [])
    assert "runs outside" in found.err


@plain_http
def test_the_leader_of_an_experiment_is_known_by_its_certificate(
    cluster: Cluster, ask: Ask
) -> None:
    cluster.hashes["a"] = "00" * 32
    cluster.lease = outside(cluster, cluster.listening[PODS["a"]])
    found = ask()
    assert (found.code, cluster.authorizations) == (5, [])
    assert "is not the one that it published on its Lease" in found.err


@plain_http
def test_the_leader_of_an_experiment_that_ended_is_not_reachable(
    cluster: Cluster, ask: Ask
) -> None:
    cluster.lease = outside(cluster, free_port())
    found = ask()
    assert (found.code, found.out) == (5, "")
    assert f"the leader at {LOOPBACK}:" in found.err
    assert "cannot be reached" in found.err


@pytest.mark.parametrize(
    "host", ["a..b", "x" * 300, "h/exec?x=", "a b", "\x9b31m", "fe80::1%eth0\n"]
)
def test_a_host_that_cannot_be_one_is_not_repeated_as_an_address(
    cluster: Cluster, ask: Ask, host: str
) -> None:
    cluster.lease = outside(cluster, 1002, host)
    found = ask()
    assert (found.code, cluster.authorizations) == (5, [])
    assert "is neither a name nor an address" in found.err
    assert all(each.isprintable() for each in found.err.replace("\n", ""))
    assert len(found.err) < 1500


@pytest.mark.parametrize(
    ("forged", "text"),
    [
        ({"pod": "kubestow-system/a/exec?command=sh&x="}, "no NAMESPACE/NAME"),
        ({"pod": "kubestow-system/../../../nodes/n/proxy/run"}, "no NAMESPACE/NAME"),
        ({"pod": "kubestow-system/a?ports=1#"}, "no NAMESPACE/NAME"),
        ({"pod": "kubestow-system/a%2fexec"}, "no NAMESPACE/NAME"),
        ({"pod": "kubestow-system/a\r\nHost: evil.example"}, "no NAMESPACE/NAME"),
        ({"pod": "kubestow-system/\x9b31m\u202e"}, "no NAMESPACE/NAME"),
        ({"pod": "//evil.example/a"}, "no NAMESPACE/NAME"),
        ({"pod": "kubestow.system/a"}, "no NAMESPACE/NAME"),
        ({"pod": "a" * 100_000}, "no NAMESPACE/NAME"),
        ({"pod": "tenant/a"}, "'tenant/a' is not in namespace kubestow-system"),
        ({"port": -1}, "the port -1 is none from 1 to 65535"),
        ({"port": 65536}, "the port 65536 is none from 1 to 65535"),
        ({"certificateSHA256": "AB" * 32}, "no SHA-256"),
        ({"certificateSHA256": "ab" * 31}, "no SHA-256"),
        ({"certificateSHA256": "\u0661" * 64}, "no SHA-256"),
    ],
)
def test_an_address_that_no_leader_publishes_opens_no_connection(
    cluster: Cluster, ask: Ask, forged: dict[str, Any], text: str
) -> None:
    right = {
        "holder": "a",
        "pod": f"{NAMESPACE}/a",
        "port": PODS["a"],
        "certificateSHA256": cluster.hashes["a"],
    }
    requests: list[int] = []
    cluster.forwarded = requests.append
    cluster.lease = lambda: web.json_response(
        {
            "metadata": {"annotations": {ANNOTATION: json.dumps(right | forged)}},
            "spec": {"holderIdentity": "a"},
        }
    )
    found = ask()
    assert (found.code, found.out, requests, cluster.authorizations) == (5, "", [], [])
    assert text in found.err
    assert "Nothing was sent" in found.err
    assert all(each.isprintable() for each in found.err.replace("\n", ""))
    assert len(found.err) < 1500


@pytest.mark.parametrize(
    ("answer", "code", "texts"),
    [
        (
            status(403, 'User "u" cannot create pods/portforward'),
            6,
            ("cannot create pods/portforward", "--role=kubestow-explainer --user"),
        ),
        (
            status(404, 'pods "a" not found'),
            5,
            ('pods "a" not found', "another replica takes", "get pods"),
        ),
        (status(500, "error dialing backend"), 5, ("error dialing backend",)),
        (
            status(400, "Upgrade request required"),
            9,
            ("speaks no WebSocket", "/config -n kubestow-system port-forward pod/a 1001"),
        ),
        (
            lambda: web.Response(status=403, text="<html>blocked by a proxy"),
            9,
            ("HTTP 403: <html>blocked by a proxy", "speaks no WebSocket"),
        ),
        (lambda: web.Response(text="hello"), 9, ("HTTP 200: hello", "speaks no WebSocket")),
        (lambda: web.Response(status=502, text="bad gateway"), 5, ("HTTP 502: bad gateway",)),
    ],
)
def test_a_tunnel_that_is_refused_is_explained(
    cluster: Cluster, ask: Ask, answer: Answer, code: int, texts: tuple[str, ...]
) -> None:
    cluster.upgrade = answer
    found = ask()
    assert (found.code, found.out, cluster.authorizations) == (code, "", [])
    for text in texts:
        assert text in found.err


def test_without_a_kubeconfig_the_message_says_what_is_missing(ask: Ask, tmp_path: Path) -> None:
    found = ask("--kubeconfig", str(tmp_path / "absent"))
    assert (found.code, found.out) == (5, "")
    assert "absent: no such file" in found.err


@pytest.mark.parametrize("lease", ["kubestow", "a/b/c", "/b", "a/", "a/B", "../b", "a.b/c", "a/.."])
def test_a_lease_is_a_namespace_and_a_name(ask: Ask, lease: str) -> None:
    found = ask("--lease", lease)
    assert (found.code, "write NAMESPACE/NAME" in found.err) == (2, True)
