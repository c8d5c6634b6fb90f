"""Schedulers that the user runs on this machine, and what the environment says of others."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from devtools.control_plane.ports import LOOPBACK
from scheduler.client.local_address import AddressFile, LocalAddress, folder
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

Own = Callable[..., None]


@pytest.fixture
def own(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Own:
    """Return a function that writes the file of a scheduler of this user, which is replica a."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))

    def write(pid: int = os.getpid(), **fields: Any) -> None:
        address = LocalAddress(
            pid,
            cluster.address["server"],
            "",
            LOOPBACK,
            cluster.listening[PODS["a"]],
            cluster.hashes["a"],
        )
        directory = folder()
        assert directory is not None
        with monkeypatch.context() as patched:
            patched.setattr("os.getpid", lambda: pid)
            AddressFile(directory).write(msgspec.structs.replace(address, **fields))

    return write


def test_a_leader_outside_of_the_cluster_that_the_user_runs_here_is_asked(
    cluster: Cluster, ask: Ask, own: Own
) -> None:
    cluster.lease = outside(cluster, 1002, "laptop.example")
    own(lease=f"{NAMESPACE}/kubestow")
    assert (ask().out, ask("--token", "given").out) == (QUEUE.decode(),) * 2
    assert cluster.authorizations == ["Bearer of-the-kubeconfig", "Bearer given"]


@pytest.mark.parametrize(
    "lease", [status(404, "no"), status(403, "no"), lambda: web.json_response({"spec": {}})]
)
def test_a_scheduler_without_a_lease_that_the_user_runs_here_is_asked(
    cluster: Cluster, ask: Ask, own: Own, lease: Answer
) -> None:
    cluster.lease = lease
    own()
    assert (ask().code, cluster.authorizations) == (0, ["Bearer of-the-kubeconfig"])


@pytest.mark.parametrize("local", [False, True])
def test_the_role_that_helps_is_that_of_the_installation_or_one_of_its_own(
    cluster: Cluster, ask: Ask, own: Own, local: bool
) -> None:
    if local:
        cluster.lease = status(404, "no")
        own()
    cluster.refusal = status(403, 'User "u" cannot get path "/debug/queue"')
    found = ask()
    role = "kubestow-local-explainer" if local else "kubestow-explainer"
    # Not with the kubeconfig of the user, who may not create it.
    assert f"rbac --explainer{' --local' * local} | kubectl apply" in found.err
    assert f"kubectl create clusterrolebinding {role}-u" in found.err
    assert f"--clusterrole={role} --user=u" in found.err


def test_of_several_without_a_lease_one_must_be_named(cluster: Cluster, ask: Ask, own: Own) -> None:
    cluster.lease = status(404, "no")
    own(scheduler_names=("one",))
    own(os.getppid(), port=1, scheduler_names=("other", "third"))
    found = ask()
    port = cluster.listening[PODS["a"]]
    assert (found.code, cluster.authorizations) == (1, [])
    assert f"  --server https://{LOOPBACK}:{port}  schedulerName one" in found.err
    assert f"  --server https://{LOOPBACK}:1  schedulerName other, third" in found.err
    # Its certificate is known from its file.
    assert ask("--server", f"https://{LOOPBACK}:{port}").out == QUEUE.decode()
    assert cluster.authorizations == ["Bearer of-the-kubeconfig"]


def test_of_several_with_a_lease_the_leader_is_asked(cluster: Cluster, ask: Ask, own: Own) -> None:
    cluster.lease = outside(cluster, 1002, "laptop.example")
    lease = f"{NAMESPACE}/kubestow"
    own(lease=lease)
    own(os.getppid(), lease=lease, port=1, certificate_sha256="00" * 32)
    own(1, lease=lease, port=1, certificate_sha256="11" * 32)
    assert ask().out == QUEUE.decode()


@pytest.mark.parametrize("way", ["option", "environment"])
@pytest.mark.parametrize("lease", [status(404, "no"), lambda: web.json_response({"spec": {}})])
def test_who_names_a_lease_gets_no_answer_of_a_scheduler_without_one(
    cluster: Cluster, ask: Ask, own: Own, lease: Answer, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.lease = lease
    own()
    name = f"{NAMESPACE}/kubestow"
    if way == "environment":
        monkeypatch.setenv("KUBESTOW_LEASE", name)
    found = ask() if way == "environment" else ask("--lease", name)
    assert (found.code, cluster.authorizations) == (5, [])
    assert f"Lease {name}" in found.err
    assert "without --lease it is found on the machine" in " ".join(found.err.split())


@pytest.mark.parametrize(
    "fields",
    [
        {"lease": "other/kubestow"},
        {"api_server": "https://another.example"},
        {"certificate_sha256": "00" * 32},
    ],
)
def test_another_scheduler_of_the_user_gets_nothing(
    cluster: Cluster, ask: Ask, own: Own, fields: dict[str, Any]
) -> None:
    cluster.lease = outside(cluster, 1002, "laptop.example")
    own(**{"lease": f"{NAMESPACE}/kubestow"} | fields)
    found = ask()
    assert (found.code, cluster.authorizations) == (5, [])
    assert "runs outside" in found.err


def test_a_scheduler_of_the_user_with_another_certificate_than_its_file_gets_nothing(
    cluster: Cluster, ask: Ask, own: Own
) -> None:
    cluster.lease = status(404, "no")
    own(certificate_sha256="00" * 32)
    found = ask()
    assert (found.code, cluster.authorizations) == (5, [])


def test_a_file_that_others_can_write_leads_nowhere(
    cluster: Cluster, ask: Ask, own: Own, tmp_path: Path
) -> None:
    cluster.lease = status(404, "no")
    own()
    (file,) = (tmp_path / "kubestow").iterdir()
    file.chmod(0o622)
    assert (ask().code, cluster.authorizations) == (5, [])


def test_the_address_can_come_from_the_environment(
    cluster: Cluster, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = cluster.listening[PODS["a"]]
    monkeypatch.setenv("KUBESTOW_SERVER", f"https://{LOOPBACK}:{port}")
    found = ask("--insecure-skip-tls-verify")
    assert (found.code, cluster.authorizations) == (0, ["Bearer of-the-kubeconfig"])


def test_the_command_line_overrides_the_environment(
    cluster: Cluster, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBESTOW_SERVER", "https://elsewhere.example")
    monkeypatch.setenv("KUBESTOW_TLS_SERVER_NAME", "another")
    found = ask("--lease", f"{NAMESPACE}/other")
    assert (found.code, cluster.authorizations) == (0, ["Bearer of-the-kubeconfig"])
