"""Start, leadership and end of a run: which work completes, which is abandoned, the exit code."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Self

import pytest
import structlog

from devtools.control_plane.ports import free_port
from devtools.embedded_service import (
    BindLog,
    bound_to,
    configuration,
    event_notes,
    node,
    plugin,
    pod,
    until,
)
from scheduler import cel
from scheduler.client import exec_plugin, transport
from scheduler.client.errors import ConnectionFailed
from scheduler.client.http.request import HeaderBlock, Request
from scheduler.client.transport import Transport
from scheduler.framework import Code, Status
from scheduler.process import application
from scheduler.process.application import EXIT_FAILED, EXIT_FORCED, EXIT_OK, Application
from scheduler.service.options import AccessOptions, RunOptions, ServingOptions
from scheduler.service.supervision import CancelledFromWithinError
from simulator import EmbeddedCluster, FaultRule
from simulator.objects import JsonObject

ELECTION = {
    "leaderElect": True,
    # Long enough that a slow machine does not lose the Lease.
    "leaseDuration": "100s",
    "renewDeadline": "60s",
    "retryPeriod": "200ms",
    "resourceNamespace": "default",
}
SOON_LOST = {**ELECTION, "leaseDuration": "4s", "renewDeadline": "3s"}
NO_ELECTION = {"leaderElect": False}
GET_POD = Request("GET", "/api/v1/namespaces/default/pods/a", HeaderBlock({}))


@asynccontextmanager
async def running(
    cluster: EmbeddedCluster,
    election: dict[str, Any],
    plugins: tuple[type[Any], ...] = (),
    **more: Any,
) -> AsyncIterator[tuple[Application, asyncio.Task[int]]]:
    """Start a run in a task of its own; cancel it at the end if it still runs."""
    # Must fit between the renew deadline and the expiry of the Lease.
    bind_timeout = "500ms" if election is SOON_LOST else "30s"
    document = {"leaderElection": election, "kubestow": {"bindTimeout": bind_timeout}, **more}
    loaded, registry = configuration(plugins, document)
    options = RunOptions(master=cluster.url, serving=ServingOptions(secure_port=0))
    application = Application(loaded, registry, options)
    task = asyncio.create_task(application.serve(handle_signals=False))
    try:
        yield application, task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def lease(cluster: EmbeddedCluster) -> JsonObject:
    versions = cluster.store.items("leases.coordination.k8s.io", "default")
    return dict(versions[0].obj["spec"]) if versions else {}


def leads(application: Application) -> bool:
    """Whether it leads by its own record; the API server stores the Lease earlier."""
    text = application.metrics.exposition()[0].decode()
    return any(
        line.startswith("leader_election_master_status{") and line.endswith(" 1.0")
        for line in text.splitlines()
    )


async def test_a_stop_lets_binds_finish_and_writes_their_events(
    cluster: EmbeddedCluster,
) -> None:
    cluster.create(node("n1"))
    cluster.clock.set_rate(0)
    cluster.faults.add(
        FaultRule(action="delay", verb="create", resource="pods/binding", seconds=60)
    )
    async with running(cluster, NO_ELECTION) as (application, run):
        cluster.create(pod("a"))
        await until(lambda: cluster.faults.describe()[0]["acted"] == 1, "bind under way")
        application.stop()
        cluster.create(pod("late"))
        await asyncio.sleep(0)
        assert not run.done()
        cluster.clock.advance(61)
        assert await run == EXIT_OK
    assert bound_to(cluster, "a") == "n1"
    assert not bound_to(cluster, "late")
    assert event_notes(cluster, "Scheduled") == ["Successfully assigned default/a to n1"]
    assert event_notes(cluster, "FailedScheduling") == []


async def test_a_stop_lets_pre_bind_finish(cluster: EmbeddedCluster) -> None:
    began, go_on = asyncio.Event(), asyncio.Event()

    async def pre_bind(*_: object) -> None:
        began.set()
        await go_on.wait()

    cluster.create(node("n1"))
    async with running(cluster, NO_ELECTION, (plugin("Slow", pre_bind=pre_bind),)) as (app, run):
        cluster.create(pod("a"))
        await began.wait()
        app.stop()
        await asyncio.sleep(0)
        go_on.set()
        assert await run == EXIT_OK
    assert bound_to(cluster, "a") == "n1"
    assert event_notes(cluster, "FailedScheduling") == []


async def test_a_stop_does_not_wait_forever(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(application, "DRAIN_SECONDS", 0.1)
    cluster.create(node("n1"))
    cluster.faults.add(FaultRule(action="silence", verb="create", resource="pods/binding"))
    async with running(cluster, NO_ELECTION) as (app, run):
        cluster.create(pod("a"))
        await until(lambda: cluster.faults.describe()[0]["acted"] == 1, "bind under way")
        app.stop()
        assert await run == EXIT_OK


async def test_a_plugin_that_cancels_the_scheduling_loop_ends_the_process_with_the_cause(
    cluster: EmbeddedCluster,
) -> None:
    def cancel(*_: object) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()

    cluster.create(node("n1"))

    async def serve() -> None:
        async with running(cluster, NO_ELECTION, (plugin("Cancels", filter=cancel),)) as (_, run):
            cluster.create(pod("a"))
            await asyncio.wait((run,))

    with pytest.raises(ExceptionGroup) as caught:
        await serve()
    assert caught.group_contains(CancelledFromWithinError, match="scheduling loop: cancelled by")


async def test_a_pod_that_waits_at_permit_does_not_hold_up_a_stop(cluster: EmbeddedCluster) -> None:
    called = asyncio.Event()

    def permit(*_: object) -> tuple[Status, float]:
        called.set()
        return Status(Code.WAIT), 600.0

    cluster.create(node("n1"))
    async with running(cluster, NO_ELECTION, (plugin("Wait", permit=permit),)) as (app, run):
        cluster.create(pod("a"))
        await called.wait()
        app.stop()
        assert await run == EXIT_OK
    assert not bound_to(cluster, "a")


@pytest.mark.parametrize("with_class", [False, True])
async def test_tables_for_expressions_are_made_before_the_first_claim_if_there_are_classes(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch, with_class: bool
) -> None:
    made: list[str] = []
    monkeypatch.setattr(cel, "prepare", lambda: made.append(threading.current_thread().name))
    device_class = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "spec": {}}
    objects = [node("n1"), pod("a"), device_class | {"metadata": {"name": "gpu"}}]
    for each in objects[: None if with_class else 2]:
        cluster.create(each)
    async with running(cluster, NO_ELECTION) as (app, run):
        await until(lambda: bound_to(cluster, "a"), "a bound")
        assert [name != threading.main_thread().name for name in made] == [True] * with_class
        app.stop()
        await run


async def test_a_stop_before_the_first_lists_came_ends_the_run(cluster: EmbeddedCluster) -> None:
    cluster.faults.add(FaultRule(action="silence", verb="list", resource="nodes"))
    async with running(cluster, NO_ELECTION) as (app, run):
        await until(lambda: cluster.faults.describe()[0]["acted"] == 1, "list under way")
        app.stop()
        assert await run == EXIT_OK


async def test_an_unreachable_api_server_is_waited_for(cluster: EmbeddedCluster) -> None:
    rule = cluster.faults.add(FaultRule(action="cut"))
    cluster.create(node("n1"))
    cluster.create(pod("a"))
    async with running(cluster, ELECTION) as (app, run):
        await until(lambda: cluster.faults.describe()[0]["acted"] > 5, "several attempts")
        assert not run.done()
        cluster.faults.remove(rule)
        await until(lambda: bound_to(cluster, "a"), "a bound")
        app.stop()
        assert await run == EXIT_OK
    assert lease(cluster)["holderIdentity"] == "", "released"


async def test_only_the_leader_schedules_and_the_next_one_takes_over(
    cluster: EmbeddedCluster,
) -> None:
    binds = BindLog(cluster)
    cluster.create(node("n1", cpu="100"))
    async with running(cluster, ELECTION) as (first, first_run):
        await until(lambda: lease(cluster).get("holderIdentity"), "a leader")
        holder = lease(cluster)["holderIdentity"]
        async with running(cluster, ELECTION) as (second, second_run):
            for number in range(5):
                cluster.create(pod(f"p{number}"))
            await until(lambda: len(binds.entries) == 5, "bound by the first")
            assert lease(cluster)["holderIdentity"] == holder
            first.stop()
            assert await first_run == EXIT_OK
            await until(lambda: lease(cluster)["holderIdentity"] not in ("", holder), "taken over")
            for number in range(5):
                cluster.create(pod(f"q{number}"))
            await until(lambda: len(binds.entries) == 10, "bound by the second")
            assert lease(cluster)["leaseTransitions"] == 1
            second.stop()
            assert await second_run == EXIT_OK


def listed(application: Application) -> bool:
    application.metrics.refresh()
    text = application.metrics.exposition()[0].decode()
    return 'kubestow_list_duration_seconds_count{resource="pods"} ' in text


async def test_a_replica_may_leave_its_caches_empty_until_it_leads(
    cluster: EmbeddedCluster,
) -> None:
    cluster.create(node("n1"))
    cluster.create(pod("a"))
    async with running(cluster, ELECTION) as (first, first_run):
        await until(lambda: bound_to(cluster, "a"), "bound by the first")
        leases = lease(cluster)["leaseTransitions"]
        async with running(cluster, ELECTION, delayCacheUntilActive=True) as (second, second_run):
            await until(lambda: _requested_the_lease(second), "standing by")
            assert listed(first)
            assert not listed(second)
            first.stop()
            assert await first_run == EXIT_OK
            cluster.create(pod("b"))
            await until(lambda: bound_to(cluster, "b"), "bound by the second")
            assert listed(second)
            assert lease(cluster)["leaseTransitions"] == leases + 1
            second.stop()
            assert await second_run == EXIT_OK
    assert lease(cluster)["holderIdentity"] == "", "released"


def _requested_the_lease(application: Application) -> bool:
    text = application.metrics.exposition()[0].decode()
    return any(
        line.startswith("rest_client_requests_total{") and 'method="GET"' in line
        for line in text.splitlines()
    )


async def test_a_delayed_replica_stops_while_it_fills_its_caches(cluster: EmbeddedCluster) -> None:
    cluster.faults.add(FaultRule(action="error", verb="list", resource="nodes", code=503))
    async with running(cluster, ELECTION, delayCacheUntilActive=True) as (only, run):
        await until(lambda: leads(only), "leading")
        only.stop()
        assert await run == EXIT_OK
    assert lease(cluster)["holderIdentity"] == "", "released"


async def test_a_candidate_stops_without_touching_the_lease(cluster: EmbeddedCluster) -> None:
    async with running(cluster, ELECTION) as (_, __):
        await until(lambda: lease(cluster).get("holderIdentity"), "a leader")
        holder = lease(cluster)["holderIdentity"]
        async with running(cluster, ELECTION) as (second, second_run):
            second.stop()
            assert await second_run == EXIT_OK
        assert lease(cluster)["holderIdentity"] == holder


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["error", "silence", "cut"])
async def test_a_lease_that_cannot_be_renewed_ends_the_run(
    cluster: EmbeddedCluster, fault: str
) -> None:
    cluster.create(node("n1"))
    async with running(cluster, SOON_LOST) as (_, run):
        cluster.create(pod("a"))
        await until(lambda: bound_to(cluster, "a"), "leading")
        cluster.faults.add(FaultRule(action=fault, resource="leases"))  # type: ignore[arg-type]
        assert await run == EXIT_FAILED
        assert lease(cluster)["holderIdentity"], "not released: it could not be reached"


@pytest.mark.slow
async def test_the_lease_has_connections_of_its_own(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Transport] = []

    class Recorded(Transport):
        async def __aenter__(self) -> Self:
            opened.append(self)
            return await super().__aenter__()

    limit = 64
    monkeypatch.setattr(transport, "CONNECTION_LIMIT", limit)
    monkeypatch.setattr(application, "Transport", Recorded)
    cluster.faults.add(FaultRule(action="silence", verb="get", resource="pods"))
    renewals = set()

    def renewed() -> bool:
        renewals.add(lease(cluster)["renewTime"])
        return len(renewals) > 3

    async def hang() -> None:
        with suppress(ConnectionFailed):
            await opened[0].exchange(GET_POD, 60.0)

    async with running(cluster, ELECTION) as (app, run):
        await until(lambda: leads(app), "leading")
        hanging = [asyncio.create_task(hang()) for _ in range(limit)]
        await asyncio.sleep(0)
        await until(renewed, "renewed while all other connections are taken")
        for task in hanging:
            task.cancel()
        await asyncio.wait(hanging)
        app.stop()
        assert await run == EXIT_OK
    assert lease(cluster)["holderIdentity"] == "", "released"
    for each in opened:
        with pytest.raises(RuntimeError, match="closed"):
            await each.exchange(GET_POD, 1.0)


async def test_a_lease_taken_by_another_replica_ends_the_run(cluster: EmbeddedCluster) -> None:
    async with running(cluster, ELECTION) as (app, run):
        await until(lambda: leads(app), "leading")
        (version,) = cluster.store.items("leases.coordination.k8s.io", "default")
        stolen = {**version.obj, "spec": {**version.obj["spec"], "holderIdentity": "thief"}}
        cluster.store.update("leases.coordination.k8s.io", "default", version.name, stolen)
        assert await run == EXIT_FAILED
        assert lease(cluster)["holderIdentity"] == "thief"


async def start(cluster: EmbeddedCluster, directory: Path) -> asyncio.subprocess.Process:
    """`kubestow run` as a process."""
    kubeconfig = cluster.write_kubeconfig(directory / "kubeconfig")
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "scheduler", "run", f"--kubeconfig={kubeconfig}",
        "--leader-elect=false", "--secure-port=0",
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
async def test_a_second_signal_ends_the_process_at_once(
    cluster: EmbeddedCluster, tmp_path: Path, second: signal.Signals
) -> None:
    cluster.create(node("n1"))
    cluster.create(pod("a"))
    cluster.faults.add(FaultRule(action="silence", verb="create", resource="pods/binding"))
    process = await start(cluster, tmp_path)
    try:
        await until(lambda: cluster.faults.describe()[0]["acted"] == 1, "bind under way")
        process.send_signal(signal.SIGTERM)
        assert process.stdout is not None
        while b"stopping" not in await process.stdout.readline():
            pass
        process.send_signal(second)
        output, _ = await process.communicate()
        assert process.returncode == EXIT_FORCED
        assert b"second signal" in output
    finally:
        with suppress(ProcessLookupError):
            process.kill()


@pytest.mark.slow
async def test_one_signal_ends_the_process_cleanly(
    cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    cluster.create(node("n1"))
    cluster.create(pod("a"))
    process = await start(cluster, tmp_path)
    try:
        await until(lambda: bound_to(cluster, "a"), "a bound")
        process.send_signal(signal.SIGTERM)
        output, _ = await process.communicate()
        assert process.returncode == EXIT_OK, output.decode()
    finally:
        with suppress(ProcessLookupError):
            process.kill()


class TestACredentialPluginThatHangs:
    """The plugin hangs at its first call or at a later one."""

    def kubeconfig(self, cluster: EmbeddedCluster, folder: Path, *, hangs_at: int) -> Path:
        """A kubeconfig whose plugin succeeds until its call number `hangs_at`."""
        credential = (
            '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",'
            '"status":{"token":"t"}}'
        )
        script = folder / "plugin.sh"
        script.write_text(
            f"#!/bin/sh\ncd '{folder}'\necho >>calls\n"
            f"if [ $(wc -l <calls) -lt {hangs_at} ]; then echo '{credential}'; exit; fi\n"
            "trap '' TERM\necho $$ >pid.part\nmv pid.part pid\nwhile :; do sleep 60; done\n"
        )
        script.chmod(0o755)
        path = folder / "exec.kubeconfig"
        user = {
            "exec": {
                "apiVersion": "client.authentication.k8s.io/v1",
                "command": str(script),
                "interactiveMode": "Never",
            }
        }
        document = {
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": cluster.url}}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        }
        path.write_text(json.dumps(document))
        return path

    # The scheduler's own connections, the Lease's, and those of delegated authentication.
    @pytest.mark.parametrize("call", [1, 2, 3])
    async def test_does_not_keep_the_run_from_stopping(
        self,
        cluster: EmbeddedCluster,
        tmp_path: Path,
        call: int,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(exec_plugin, "KILL_GRACE_SECONDS", 0.1)
        path = self.kubeconfig(cluster, tmp_path, hangs_at=call)
        connection = {"clientConnection": {"kubeconfig": str(path)}, "leaderElection": ELECTION}
        loaded, registry = configuration((), connection)
        options = RunOptions(
            serving=ServingOptions(secure_port=free_port(), bind_address="127.0.0.1"),
            access=AccessOptions(authentication_kubeconfig=str(path)),
        )
        application = Application(loaded, registry, options)
        run = asyncio.create_task(application.serve(handle_signals=False))
        await until((tmp_path / "pid").exists, "plugin hangs")
        application.stop()
        assert await run == EXIT_OK
        pid = (tmp_path / "pid").read_text().strip()
        await until(lambda: not alive(pid), "plugin ended")
        assert len((tmp_path / "calls").read_text().splitlines()) == call

    @pytest.mark.slow
    async def test_does_not_keep_the_process_from_ending(
        self, cluster: EmbeddedCluster, tmp_path: Path
    ) -> None:
        path = self.kubeconfig(cluster, tmp_path, hangs_at=1)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "scheduler", "run", f"--kubeconfig={path}", "--secure-port=0",
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        try:
            await until((tmp_path / "pid").exists, "plugin hangs")
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(60):
                output, _ = await process.communicate()
            assert process.returncode == EXIT_OK, output.decode()
            assert not alive((tmp_path / "pid").read_text().strip())
        finally:
            with suppress(ProcessLookupError):
                process.kill()


def alive(pid: str) -> bool:
    """Whether the process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def test_a_silent_api_server_is_mentioned_at_the_start(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(application, "SLOW_START_SECONDS", 0.01)
    rule = cluster.faults.add(FaultRule(action="silence", verb="list", resource="nodes"))
    with structlog.testing.capture_logs() as lines:
        async with running(cluster, NO_ELECTION) as (app, run):
            await until(lambda: any("missing" in line for line in lines), "the line is written")
            app.stop()
            assert await run == EXIT_OK
    cluster.faults.remove(rule)
    (line,) = (line for line in lines if "missing" in line)
    assert "the first lists of the API server are not complete" in line["event"]
    assert "nodes" in line["missing"]
    assert line["server"] == cluster.url
