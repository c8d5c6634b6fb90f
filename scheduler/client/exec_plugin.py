"""Credential plugins: the `exec` of a kubeconfig user, protocol client.authentication.k8s.io.

A plugin is a program of the cluster's operator, started with the privileges of this process, so it
is trusted; but it may hang, flood its output, or print secrets. It gets TIMEOUT_SECONDS, a session
of its own, no terminal and no standard input; both its pipes are read concurrently, with limits.
A timeout, an error or a cancellation ends its whole process group. Of its output only the first
line of standard error can appear in an error, truncated and with likely credentials redacted.

Upstream: client-go, plugin/pkg/client/auth/exec/exec.go.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from scheduler.client.configuration_error import ConfigurationError
from scheduler.client.structs import complete

TIMEOUT_SECONDS: Final = 30.0
"""For the whole run of a plugin. Those that query an identity provider take a second or two."""

MAX_OUTPUT_BYTES: Final = 1024 * 1024
"""On standard output: a token and a certificate chain have a few kilobytes."""

MAX_STDERR_BYTES: Final = 16 * 1024 * 1024
"""On standard error, of which all but the beginning is discarded."""

STDERR_KEPT_BYTES: Final = 4096
MAX_LINE_CHARACTERS: Final = 200
"""Of the first line of standard error in an error text."""

KILL_GRACE_SECONDS: Final = 1.0
"""Between SIGTERM and SIGKILL to the process group, and again until it must have ended."""

API_VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_INTERACTIVE_MODES: Final = ("", "Never", "IfAvailable", "Always")


class _EnvVar(msgspec.Struct):
    name: str
    value: str = ""


class ExecConfig(msgspec.Struct, rename="camel"):
    """`users[].user.exec` of a kubeconfig."""

    command: str
    api_version: str
    args: list[str] | None = None
    env: list[_EnvVar] | None = None
    interactive_mode: str = ""
    provide_cluster_info: bool = False
    install_hint: str = ""


class _Status(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: _Status | None = None


complete(ExecConfig, _ExecCredential)


@dataclass(frozen=True, slots=True)
class ExecCredential:
    """A credential from a plugin: a token, a client certificate with its key, or both."""

    token: str
    certificate: bytes
    key: bytes
    #: Wall time, seconds; None if unknown.
    expires_at: float | None


class ExecPlugin:
    """The plugin of one user. Call `run` whenever a credential is needed."""

    def __init__(
        self, config: Mapping[str, Any], folder: str, cluster: Mapping[str, Any] | None = None
    ) -> None:
        """Check the configuration; nothing is started.

        Args:
            config: the `exec` section.
            folder: the folder of the kubeconfig, to which a relative command with a slash refers.
            cluster: `spec.cluster` of an ExecCredential, passed if `provideClusterInfo` is set.

        Raises:
            ConfigurationError: the section cannot be used.
        """
        try:
            parsed = msgspec.convert(config, ExecConfig)
        except msgspec.ValidationError as error:
            raise ConfigurationError(f"exec: {error}") from error
        if parsed.api_version not in API_VERSIONS:
            raise ConfigurationError(
                f"exec: apiVersion {parsed.api_version!r} is not supported; "
                f"supported are {' and '.join(API_VERSIONS)}"
            )
        if parsed.interactive_mode not in _INTERACTIVE_MODES:
            raise ConfigurationError(
                f"exec: interactiveMode {parsed.interactive_mode!r} is none of Never, IfAvailable, "
                "Always"
            )
        if parsed.interactive_mode == "Always":
            raise ConfigurationError(
                "exec: interactiveMode Always needs a terminal, which a scheduler does not have"
            )
        if not parsed.command:
            raise ConfigurationError("exec: command is missing")
        command = parsed.command
        if "/" in command:
            command = str(Path(folder) / command)
        self._argv = [command, *(parsed.args or ())]
        self._install_hint = parsed.install_hint
        self._api_version = parsed.api_version
        spec: dict[str, Any] = {"interactive": False}
        if parsed.provide_cluster_info:
            spec["cluster"] = dict(cluster or {})
        request = {"apiVersion": parsed.api_version, "kind": "ExecCredential", "spec": spec}
        self._env = {each.name: each.value for each in parsed.env or ()}
        self._env["KUBERNETES_EXEC_INFO"] = json.dumps(request)

    async def run(self) -> ExecCredential:
        """Start the plugin and read its credential. Cancellation ends the plugin.

        Raises:
            ConfigurationError: it failed, took too long, or did not print a usable credential.
        """
        output = await self._output()
        try:
            credential = msgspec.json.decode(output, type=_ExecCredential)
        except (ValueError, RecursionError):
            # Neither the output nor the decoder's error, which quotes some of it.
            raise self._error("did not print an ExecCredential as JSON") from None
        if credential.kind != "ExecCredential" or credential.api_version != self._api_version:
            raise self._error(f"did not print an ExecCredential of {self._api_version}")
        status = credential.status or _Status()
        if bool(status.client_certificate_data) != bool(status.client_key_data):
            raise self._error("printed a certificate without a key, or a key without a certificate")
        if not status.token and not status.client_key_data:
            raise self._error("printed neither a token nor a client certificate")
        expiry = status.expiration_timestamp
        return ExecCredential(
            status.token,
            status.client_certificate_data.encode(),
            status.client_key_data.encode(),
            None if expiry is None else expiry.timestamp(),
        )

    def _error(self, text: str) -> ConfigurationError:
        return ConfigurationError(f"exec: {self._argv[0]} {text}")

    async def _start(self) -> tuple[asyncio.SubprocessTransport, _Process]:
        loop = asyncio.get_running_loop()
        try:
            return await loop.subprocess_exec(
                lambda: _Process(loop.create_future()),
                *self._argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=os.environ | self._env,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            # ValueError: a NUL in an argument.
            hint = f"\n{self._install_hint}" if self._install_hint else ""
            reason = getattr(error, "strerror", None) or str(error)
            raise self._error(f"cannot be started: {reason}{hint}") from error

    async def _output(self) -> bytes:
        # When cancelled during the start of a program, asyncio ends that process only, and waits
        # until its pipes are closed, which is as long as its children live. So finish the start,
        # which takes a moment, and end the group.
        starting = asyncio.create_task(self._start())
        try:
            transport, process = await asyncio.shield(starting)
        except asyncio.CancelledError:
            transport, process = await starting
            await _end_group(transport.get_pid(), process)
            transport.close()
            raise
        ended = False
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await process.ended
            ended = True
        except TimeoutError:
            raise self._error(f"did not end within {TIMEOUT_SECONDS:g} s") from None
        except _TooMuchError as error:
            raise self._error(str(error)) from None
        finally:
            if not ended:
                await _end_group(transport.get_pid(), process)
            transport.close()
        status = transport.get_returncode()
        if status:
            line = first_line(bytes(process.stderr))
            raise self._error(f"ended with status {status}" + (f": {line}" if line else ""))
        return bytes(process.stdout)


class _TooMuchError(Exception):
    """The plugin printed more than the limit."""


class _Process(asyncio.SubprocessProtocol):
    """Keeps the output within its limits, and notes when process and pipes have ended."""

    def __init__(self, ended: asyncio.Future[None]) -> None:
        self.ended = ended
        self.exited = asyncio.Event()
        self.stdout = bytearray()
        self.stderr = bytearray()
        self._stderr_size = 0

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Keep a piece of the output, unless the limit was exceeded already."""
        if self.ended.done():
            return
        if fd == 1:
            self.stdout += data
            if len(self.stdout) > MAX_OUTPUT_BYTES:
                self._fail(f"printed more than {MAX_OUTPUT_BYTES} bytes on standard output")
            return
        self._stderr_size += len(data)
        self.stderr += data[: STDERR_KEPT_BYTES - len(self.stderr)]
        if self._stderr_size > MAX_STDERR_BYTES:
            self._fail(f"printed more than {MAX_STDERR_BYTES} bytes on standard error")

    def _fail(self, text: str) -> None:
        self.stdout.clear()
        self.ended.set_exception(_TooMuchError(text))

    def process_exited(self) -> None:
        """Note the exit of the process; its children may still run."""
        self.exited.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the process has exited and both pipes are closed."""
        if not self.ended.done():
            self.ended.set_result(None)


async def _end_group(group: int, process: _Process) -> None:
    """End all processes of the group, by SIGTERM first."""
    _signal_group(group, signal.SIGTERM)
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(KILL_GRACE_SECONDS):
                await process.exited.wait()
    finally:
        # Also when cancelled a second time; and for children that have outlived the process.
        _signal_group(group, signal.SIGKILL)
    with suppress(TimeoutError):
        async with asyncio.timeout(KILL_GRACE_SECONDS):
            await process.exited.wait()


def _signal_group(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


_SECRETS: Final = (
    # user:password@host, and queries, which carry codes and signatures
    (re.compile(r"://[^/\s@]*@"), "://***@"),
    (re.compile(r"\?\S+"), "?***"),
    (re.compile(r"(?i)\b(bearer|basic|negotiate)\s+\S+"), r"\1 ***"),
    (
        re.compile(
            r"(?i)([\w.-]*(?:token|secret|pass|pwd|key|credential|auth|assertion|session|signature"
            r"|cookie|code)[\w.-]*[\"']?\s*[:=]\s*)(\"[^\"]*\"?|'[^']*'?|\S+)"
        ),
        r"\1***",
    ),
    # Long runs of letters and digits that are neither a word nor a path.
    (re.compile(r"(?=[\w+=~.%-]*\d)[\w+=~.%-]{16,}"), "***"),
    (re.compile(r"(?=[\w+/=-]*\d)(?=[\w+/=-]*[A-Z])(?=[\w+/=-]*[a-z])[\w+/=-]{24,}"), "***"),
)


def first_line(stderr: bytes) -> str:
    r"""Return the first line that is not empty, truncated, with likely credentials redacted.

    >>> first_line(b"error: token=abc refused by https://jane:pw@idp.example/x?code=1\\nmore")
    'error: token=*** refused by https://***@idp.example/x?***'
    >>> first_line(b"")
    ''
    """
    text = stderr.decode("utf-8", "replace").strip()
    # Longer than the text shown, so that no secret is cut to a harmless-looking part.
    line = text.splitlines()[0][: 4 * MAX_LINE_CHARACTERS] if text else ""
    line = "".join(each if each.isprintable() else " " for each in line)
    for pattern, replacement in _SECRETS:
        line = pattern.sub(replacement, line)
    return line if len(line) <= MAX_LINE_CHARACTERS else f"{line[:MAX_LINE_CHARACTERS]}..."
