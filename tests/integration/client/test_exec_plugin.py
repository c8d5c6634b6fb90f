"""Credential plugins as real programs: what they are given, what is taken of them, how they end."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
import uvloop

from devtools.loop_time import pass_time
from scheduler.client import exec_plugin
from scheduler.client.errors import ConfigurationError
from scheduler.client.exec_plugin import ExecCredential, ExecPlugin, first_line
from tests.integration.client.faulty_server import until

V1 = "client.authentication.k8s.io/v1"
V1BETA1 = "client.authentication.k8s.io/v1beta1"
CANARY = "s3cr3t-canary-0123456789"


def credential(version: str = V1, **status: Any) -> str:
    return json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status})


def plugin(folder: Path, script: str, cluster: Any = None, **config: Any) -> ExecPlugin:
    """A plugin that is a shell script."""
    path = folder / "plugin.sh"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return ExecPlugin({"apiVersion": V1, "command": str(path), **config}, str(folder), cluster)


class TestProtocol:
    """The input of plugins, and the output that is a credential."""

    async def test_a_token(self, tmp_path: Path) -> None:
        response = credential(token="t", expirationTimestamp="2026-01-01T00:00:00Z")
        found = await plugin(tmp_path, f"echo '{response}'").run()
        assert found == ExecCredential("t", b"", b"", 1767225600.0)

    async def test_a_certificate(self, tmp_path: Path) -> None:
        response = credential(clientCertificateData="c", clientKeyData="k")
        found = await plugin(tmp_path, f"echo '{response}'").run()
        assert found == ExecCredential("", b"c", b"k", None)

    async def test_the_older_version(self, tmp_path: Path) -> None:
        made = plugin(tmp_path, f"echo '{credential(V1BETA1, token='t')}'", apiVersion=V1BETA1)
        assert (await made.run()).token == "t"

    async def test_it_gets_the_cluster_its_arguments_and_its_environment(
        self, tmp_path: Path
    ) -> None:
        script = (
            'printf "%s\\n" "$KUBERNETES_EXEC_INFO" "$1" "$COLOUR" "$PATH" >input\n'
            f"echo '{credential(token='t')}'"
        )
        made = plugin(
            tmp_path,
            f"cd '{tmp_path}'\n{script}",
            {"server": "https://one:6443", "config": {"audience": "a"}},
            provideClusterInfo=True,
            args=["an argument"],
            env=[{"name": "COLOUR", "value": "blue"}],
            interactiveMode="IfAvailable",
        )
        await made.run()
        info, argument, colour, path = (tmp_path / "input").read_text().splitlines()
        assert json.loads(info) == {
            "apiVersion": V1,
            "kind": "ExecCredential",
            "spec": {
                "interactive": False,
                "cluster": {"server": "https://one:6443", "config": {"audience": "a"}},
            },
        }
        assert (argument, colour, path) == ("an argument", "blue", os.environ["PATH"])

    async def test_it_has_neither_a_terminal_nor_our_standard_input(self, tmp_path: Path) -> None:
        script = f"read line && exit 3; [ -t 0 ] && exit 4; echo '{credential(token='t')}'"
        assert (await plugin(tmp_path, script).run()).token == "t"

    async def test_a_command_with_a_slash_is_relative_to_the_kubeconfig(
        self, tmp_path: Path
    ) -> None:
        (tmp_path / "bin").mkdir()
        plugin(tmp_path / "bin", f"echo '{credential(token='t')}'")
        made = ExecPlugin({"apiVersion": V1, "command": "./bin/plugin.sh"}, str(tmp_path))
        assert (await made.run()).token == "t"

    @pytest.mark.parametrize(
        ("response", "problem"),
        [
            ("", "did not print an ExecCredential as JSON"),
            (f"{{{CANARY}", "did not print an ExecCredential as JSON"),
            (json.dumps({"status": {"token": CANARY}}), "did not print an ExecCredential of"),
            (credential(V1BETA1, token=CANARY), "did not print an ExecCredential of"),
            (credential(), "neither a token nor a client certificate"),
            (credential(token=CANARY, clientKeyData=CANARY), "a key without a certificate"),
            (credential(token=[CANARY]), "did not print an ExecCredential as JSON"),
            (credential(token="t", expirationTimestamp=CANARY), "as JSON"),
            ("[" * 5000, "as JSON"),
        ],
    )
    async def test_malformed_output_is_not_shown(
        self, tmp_path: Path, response: str, problem: str
    ) -> None:
        (tmp_path / "response").write_text(response)
        with pytest.raises(ConfigurationError, match=problem) as caught:
            await plugin(tmp_path, f"cat {tmp_path}/response").run()
        assert CANARY not in chain(caught.value)

    @pytest.mark.parametrize(
        ("config", "problem"),
        [
            ({"command": "x"}, "apiVersion"),
            ({"command": "x", "apiVersion": "v1alpha1"}, "is not supported"),
            ({"apiVersion": V1}, "command"),
            ({"apiVersion": V1, "command": ""}, "command is missing"),
            ({"apiVersion": V1, "command": "x", "args": "y"}, "args"),
            ({"apiVersion": V1, "command": "x", "interactiveMode": "Always"}, "needs a terminal"),
            ({"apiVersion": V1, "command": "x", "interactiveMode": "Maybe"}, "none of Never"),
        ],
    )
    def test_a_configuration_that_cannot_work(self, config: Any, problem: str) -> None:
        with pytest.raises(ConfigurationError, match=problem):
            ExecPlugin(config, "/")

    async def test_a_program_that_is_not_there_and_how_to_get_it(self) -> None:
        config = {"apiVersion": V1, "command": "/nowhere/x", "installHint": "install x"}
        with pytest.raises(ConfigurationError, match=r"/nowhere/x cannot be started.*\ninstall x"):
            await ExecPlugin(config, "/").run()


def chain(error: BaseException | None) -> str:
    """An error's text and that of all behind it."""
    return "" if error is None else f"{error!r} {chain(error.__cause__)} {chain(error.__context__)}"


class TestLimits:
    """Whatever a plugin does, it is over in time and nothing of it is left."""

    @pytest.fixture(autouse=True)
    def quick(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(exec_plugin, "KILL_GRACE_SECONDS", 0.1)

    async def test_one_that_hangs_is_ended_with_its_children(self, tmp_path: Path) -> None:
        script = (
            "trap '' TERM\nsh -c \"trap '' TERM; sleep 60\" &\n"
            f"echo $$ $! >{tmp_path}/pids.tmp; mv {tmp_path}/pids.tmp {tmp_path}/pids\nwait"
        )
        running = asyncio.create_task(plugin(tmp_path, script).run())
        await until((tmp_path / "pids").exists)
        await time_is_over()
        with pytest.raises(ConfigurationError, match="did not end within 30 s"):
            await running
        await until(lambda: not any(map(alive, pids(tmp_path))))

    async def test_one_that_leaves_a_child_with_its_pipes(self, tmp_path: Path) -> None:
        # The child waits for the end of its parent, which is adopted then.
        script = (
            f"(while kill -0 $$ 2>/dev/null; do sleep 0.02; done;"
            f" touch {tmp_path}/alone; exec sleep 60) &\n"
            f"echo $! >{tmp_path}/pids\necho '{credential(token='t')}'"
        )
        running = asyncio.create_task(plugin(tmp_path, script).run())
        await until((tmp_path / "alone").exists)
        await time_is_over()
        with pytest.raises(ConfigurationError, match="did not end within"):
            await running
        await until(lambda: not any(map(alive, pids(tmp_path))))

    async def test_cancellation_ends_it(self, tmp_path: Path) -> None:
        script = f"echo $$ >{tmp_path}/pids.tmp; mv {tmp_path}/pids.tmp {tmp_path}/pids; sleep 60"
        running = asyncio.create_task(plugin(tmp_path, script).run())
        await until((tmp_path / "pids").exists)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await until(lambda: not any(map(alive, pids(tmp_path))))

    @pytest.mark.parametrize("turns", range(10))
    async def test_cancellation_while_it_starts_does_not_wait_for_its_children(
        self, tmp_path: Path, turns: int
    ) -> None:
        running = asyncio.create_task(plugin(tmp_path, "sleep 60 &\nwait").run())
        for _ in range(turns):
            await asyncio.sleep(0)
        running.cancel()
        async with asyncio.timeout(50):
            with pytest.raises(asyncio.CancelledError):
                await running

    @pytest.mark.parametrize("stream", [1, 2])
    async def test_output_without_end(
        self, tmp_path: Path, stream: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(exec_plugin, "MAX_STDERR_BYTES", 2 * 1024 * 1024)
        taken: list[int] = []
        receive = exec_plugin._Process.pipe_data_received

        def count(process: Any, fd: int, data: bytes) -> None:
            receive(process, fd, data)
            taken.append(len(process.stdout) + len(process.stderr))

        monkeypatch.setattr(exec_plugin._Process, "pipe_data_received", count)
        script = f"echo $$ >{tmp_path}/pids\nexec yes {CANARY} >&{stream}"
        with pytest.raises(ConfigurationError, match="printed more than") as caught:
            await plugin(tmp_path, script).run()
        assert CANARY not in chain(caught.value)
        assert max(taken) <= exec_plugin.MAX_OUTPUT_BYTES
        await until(lambda: not any(map(alive, pids(tmp_path))))

    async def test_a_megabyte_on_standard_error_first(self, tmp_path: Path) -> None:
        script = f"yes {CANARY} | head -c 1000000 >&2\necho '{credential(token='t')}'"
        assert (await plugin(tmp_path, script).run()).token == "t"

    async def test_only_the_first_line_of_standard_error_is_shown(self, tmp_path: Path) -> None:
        script = f"echo 'no session for token={CANARY}' >&2\necho {CANARY} >&2\nexit 7"
        with pytest.raises(ConfigurationError) as caught:
            await plugin(tmp_path, script).run()
        assert str(caught.value).endswith("ended with status 7: no session for token=***")
        assert CANARY not in chain(caught.value)


def pids(folder: Path) -> list[int]:
    return [int(each) for each in (folder / "pids").read_text().split()]


async def time_is_over() -> None:
    """Its time passes, once it is waited for: a process may be quicker than who started it."""
    for _ in range(50):
        await asyncio.sleep(0)
    pass_time(exec_plugin.TIMEOUT_SECONDS)


def alive(pid: int) -> bool:
    """Whether it runs; a process that was not waited for yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("", ""),
        ("\n\n  error: exec format\nmore", "error: exec format"),
        ("could not read /etc/kubernetes/credentials/config: denied",) * 2,
        ("Authorization: Bearer abc", "Authorization: *** ***"),
        ('{"accessToken": "abc def", "x": 1}', '{"accessToken": ***, "x": 1}'),
        ("password='a b' wrong", "password=*** wrong"),
        (
            "get https://u:p@h.example/path?code=abc&x=y: 401",
            "get https://***@h.example/path?*** 401",
        ),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJqYW5lIn0.c2lnbmF0dXJl expired", "*** expired"),
        ("bad key AKIAIOSFODNN7EXAMPLE", "bad key ***"),
        ("bad wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "bad ***"),
        ("\x1b[31mred\x1b[0m", " [31mred [0m"),
        ("x " * 500, "x " * 100 + "..."),
    ],
)
def test_a_line_without_what_looks_like_a_credential(line: str, shown: str) -> None:
    assert first_line(line.encode()) == shown


async def test_in_another_thread_as_for_the_lease(tmp_path: Path) -> None:
    made = plugin(tmp_path, f"echo '{credential(token='t')}'")
    results: list[str] = []

    def run() -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            results.append(runner.run(made.run()).token)

    thread = threading.Thread(target=run)
    thread.start()
    await asyncio.to_thread(thread.join, 60)
    assert results == ["t"]
