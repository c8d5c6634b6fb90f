"""Access, trust and errors of commands that query a running scheduler."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from devtools.control_plane.ports import free_port
from scheduler.cli import direct, endpoint
from scheduler.cli.main import program
from tests.integration.explain.conftest import READER, STRANGER, CommandResult, Open

SHOWN = "active 0, backoff 0, unschedulable 0, gated 0, in flight 0"
INSECURE = "--insecure-skip-tls-verify"


def run(*arguments: str) -> CommandResult:
    result = CliRunner().invoke(program, arguments)
    return CommandResult(result.exit_code, result.stdout, result.stderr)


# -- users ---------------------------------------------------------------------------------------


async def test_the_user_of_the_kubeconfig_is_used(
    scheduling: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scheduling() as site:
        trust = ("--server", site.server, "--ca-file", site.ca_file)
        named = await site.run("queue", *trust, "--kubeconfig", site.kubeconfig())
        assert (named.code, named.out.splitlines()[0]) == (0, SHOWN)
        monkeypatch.setenv("KUBECONFIG", site.kubeconfig())
        found = await site.run("queue", *trust)
        # The hint after the two lines repeats the options.
        assert (found.code, found.out.splitlines()[:2]) == (0, named.out.splitlines()[:2])
        absent = await site.run("queue", *trust, "--kubeconfig", "/nowhere")
        assert absent.code == 1
        assert "kubeconfig /nowhere: no such file" in absent.err


async def test_a_token_overrides_the_kubeconfig(
    scheduling: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scheduling() as site:
        file = tmp_path / "token"
        file.write_text(f"{READER}\n")
        trust = ("--server", site.server, "--ca-file", site.ca_file)
        monkeypatch.setenv("KUBECONFIG", site.kubeconfig(STRANGER))
        assert (await site.run("queue", *trust)).code == 6
        assert (await site.run("queue", *trust, "--token-file", str(file))).code == 0


@pytest.mark.parametrize(
    ("token", "texts"),
    [
        (
            STRANGER,
            ('User "stranger" cannot get path "/debug/queue"', "clusterrole=kubestow-explainer"),
        ),
        ("nobody's", ("does not accept these credentials (the given token)", "create token")),
    ],
)
async def test_a_403_names_the_user_and_the_remedy(
    scheduling: Open, token: str, texts: tuple[str, ...]
) -> None:
    async with scheduling() as site:
        result = await site.query("queue", token=token)
    assert (result.code, result.out) == (6, "")
    for text in texts:
        assert text in result.err
    assert "client certificates" not in result.err, "it is known who asks"


async def test_without_any_credentials_the_reason_is_printed(scheduling: Open) -> None:
    async with scheduling() as site:
        result = await site.run("queue", "--server", site.server, "--ca-file", site.ca_file)
    assert result.code == 6
    assert 'User "system:anonymous" cannot get path "/debug/queue"' in result.err
    assert "none: invalid configuration: no configuration has been provided" in result.err
    assert "does not know the authority of client certificates" in result.err


# -- server certificates --------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
async def test_an_unknown_certificate_is_rejected_with_the_remedies(
    scheduling: Open, host: str
) -> None:
    async with scheduling() as site:
        where = ("--server", f"{host}:{site.port}")
        failed = await site.run("queue", *where, "--token", READER)
        assert (failed.code, failed.out) == (5, "")
        assert "is not trusted: self-signed certificate" in failed.err
        for way in (INSECURE, "--ca-file", "--tls-server-name"):
            assert way in failed.err
        assert (await site.run("queue", *where, "--token", READER, INSECURE)).code == 0
        trusted = ("--ca-file", site.ca_file)
        assert (await site.run("queue", *where, "--token", READER, *trusted)).code == 0


async def test_insecure_skip_tls_verify_applies_to_the_kubeconfigs_own_server_only(
    scheduling: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scheduling() as site:
        # https, so that the kubeconfig has TLS settings; no connection is made to it.
        careless = {"server": "https://cluster.invalid", "insecure-skip-tls-verify": True}
        kubeconfig = site.kubeconfig(READER, **careless)
        arguments = ("queue", "--server", site.server, "--kubeconfig", kubeconfig)
        failed = await site.run(*arguments)
        assert "is not trusted" in failed.err
        assert (await site.run(*arguments, "--ca-file", site.ca_file)).code == 0
        # The system's authorities are trusted, though the kubeconfig's own server needs none.
        monkeypatch.setenv("SSL_CERT_FILE", site.ca_file)
        assert (await site.run(*arguments)).code == 0


async def test_the_certificate_must_be_made_out_to_the_server_or_the_name_given(
    scheduling: Open,
) -> None:
    async with scheduling() as site:
        arguments = ("queue", "--server", site.server, "--ca-file", site.ca_file, "--token", READER)
        wrong = await site.run(*arguments, "--tls-server-name", "kubestow.example.com")
        assert "Hostname mismatch" in wrong.err
        assert (await site.run(*arguments, "--tls-server-name", "127.0.0.1")).code == 0


async def test_credentials_of_the_kubeconfig_are_not_sent_to_an_unverified_server(
    scheduling: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scheduling() as site:
        monkeypatch.setenv("KUBECONFIG", site.kubeconfig())
        arguments = ("queue", "--server", site.server, INSECURE)
        assert (await site.run(*arguments)).code == 0
        # The same server, as if it were on another machine.
        monkeypatch.setattr(direct, "is_this_machine", lambda _: False)
        failed = await site.run(*arguments)
        assert failed.code == 6
        assert 'User "system:anonymous"' in failed.err
        assert "those of the kubeconfig are kept from a server that is not this machine" in (
            failed.err
        )
        assert (await site.run(*arguments, "--token", READER)).code == 0
        refused = await site.run(*arguments, "--kubeconfig", site.kubeconfig())
        assert (refused.code, "does not use --kubeconfig" in refused.err) == (2, True)
        verified = ("queue", "--server", site.server, "--ca-file", site.ca_file)
        assert (await site.run(*verified)).code == 0


@pytest.mark.parametrize(
    ("server", "here"),
    [
        ("https://localhost:1", True),
        ("https://127.8.9.1", True),
        ("https://[::1]:10259", True),
        ("https://localhost.example.com", False),
        ("https://10.0.0.1:10259", False),
        ("https://0.0.0.0:10259", False),
        ("https://user@localhost", True),
        ("https://localhost@example.com", False),
    ],
)
def test_only_loopback_is_this_machine(server: str, here: bool) -> None:
    assert direct.is_this_machine(server) is here


# -- bad arguments and bad responses -------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["queue", "--server", "http://localhost:10259"], "nothing is served over plain HTTP"),
        (["queue", "--server", "https://"], "write https://HOST:PORT"),
        (["queue", "--server", "localhost:port"], "write https://HOST:PORT"),
        (["queue", "--limit", "0"], "0 is not in the range 1<=x<=10000"),
        (["queue", "--token", "a", "--token-file", __file__], "not both"),
        (["queue", "--token", "a\nb"], "characters that no token has"),
        (["queue", "--ca-file", "/nowhere"], "does not exist"),
        (["explain"], "give either a pod or --group"),
        (["explain", "a/b/c"], "write NAMESPACE/POD"),
        (["explain", "/web"], "write NAMESPACE/POD"),
        (["explain", "web", "--nodes", "-1"], "range 0<=x<=1000"),
    ],
)
def test_mistakes_in_arguments_are_reported_before_any_request(
    arguments: list[str], text: str
) -> None:
    result = run(*arguments)
    assert (result.code, result.out) == (2, "")
    assert text in result.err


def test_a_file_that_is_no_certificate_and_an_empty_token_file_are_named(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.touch()
    no_token = run("queue", "--token-file", str(empty))
    assert (no_token.code, f"{empty} is empty" in no_token.err) == (2, True)
    no_certificate = run("queue", "--token", "t", "--ca-file", __file__)
    assert (no_certificate.code, "no PEM certificates" in no_certificate.err) == (1, True)


def test_a_port_without_a_listener() -> None:
    result = run("queue", "--server", f"https://localhost:{free_port()}", "--token", "t")
    assert (result.code, result.out) == (5, "")
    assert "nothing listens there (connection refused)" in result.err
    assert "leave --server out" in result.err


def test_a_host_that_does_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> object:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "create_connection", unknown)
    result = run("queue", "--server", "scheduler.invalid:1", "--token", "t")
    assert "there is no host of that name" in result.err


@asynccontextmanager
async def responding(body: bytes) -> AsyncIterator[str]:
    """A server without TLS that sends this response to every request."""

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(64)
        writer.write(body)
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(respond, "127.0.0.1", 0)
    async with server:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_a_server_without_tls_has_an_error_of_its_own() -> None:
    async with responding(b"HTTP/1.1 400 Bad Request\r\n\r\n") as server:
        result = await asyncio.to_thread(run, "queue", "--server", server, "--token", "t")
    assert (result.code, "no TLS there" in result.err) == (5, True)


class Delivering:
    """A stream with a response that was sent already."""

    def __init__(self, response: bytes) -> None:
        self._response = response

    def send(self, data: bytes) -> None:
        del data

    def receive(self) -> bytes:
        sent, self._response = self._response, b""
        return sent

    def close(self) -> None:
        pass


@pytest.fixture
def sending(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that sets the response to every request."""

    def send(status: int, body: bytes, length: int | None = None) -> None:
        size = len(body) if length is None else length
        head = b"HTTP/1.1 %d x\r\nContent-Length: %d\r\n\r\n" % (status, size)
        monkeypatch.setattr(direct, "connect", lambda *_, **__: Delivering(head + body))

    return send


@pytest.mark.parametrize(
    ("status", "body", "code", "text"),
    [
        (400, b"limit=x: not a number\n", 2, "limit=x: not a number"),
        (404, b"404 page not found\n", 1, "has no /debug/queue: it is no kubestow scheduler, or"),
        (404, b"there is no pod default/web\n", 4, "there is no pod default/web"),
        (429, b"Too many requests\n", 1, "responded with 429: Too many requests"),
        (500, b'{"kind":"Status","message":"oh no"}', 1, "responded with 500: oh no"),
        (401, b'{"kind":"Status","message":"x"}', 6, "does not accept these credentials"),
        (
            401,
            b'{"kind":"Status","message":"this scheduler itself may not create tokenreviews"}',
            6,
            "this scheduler itself may not create tokenreviews.\nYour credentials may well be",
        ),
        (
            500,
            b'Internal Server Error: "/debug/queue": this scheduler itself may not create x\n',
            6,
            "this scheduler itself may not create x.",
        ),
        (500, b"this scheduler itself may not create x", 6, "kubestow check --service-account N"),
        (200, b"<html>", 1, "is of another version and answered something unknown"),
        (200, b'{"now": 1}', 1, "is of another version and answered something unknown"),
    ],
)
def test_other_responses(
    sending: Callable[..., None], status: int, body: bytes, code: int, text: str
) -> None:
    sending(status, body)
    result = run("queue", "--server", "localhost:1", "--token", "t")
    assert (result.code, result.out) == (code, "")
    assert text in result.err


def test_an_answer_that_is_cut_is_no_answer(sending: Callable[..., None]) -> None:
    sending(200, b'{"now": 1', length=100)
    result = run("queue", "--server", "localhost:1", "--token", "t")
    assert (result.code, result.out) == (5, "")
    assert "the connection ended within the answer" in result.err


def test_a_response_is_read_in_pieces_and_a_body_is_posted(sending: Callable[..., None]) -> None:
    server = endpoint.Endpoint(
        server="https://localhost:1",
        token="t",
        kubeconfig="",
        context="",
        ca_file="",
        tls_server_name="",
        insecure_skip_tls_verify=False,
    )
    sending(200, b"x" * 200_000)
    pieces = [len(each) for each in server.stream("/debug/bundle", {})]
    assert (sum(pieces), max(pieces)) == (200_000, endpoint.CHUNK_BYTES)
    sending(200, b"{}")
    assert server.post("/debug/whatif", b"{}") == b"{}"
