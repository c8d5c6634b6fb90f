"""An API server that cannot be reached, or does not accept the credentials.

Commands say why, and what named it, in one sentence.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from devtools.control_plane.ports import free_port
from scheduler.cli import exit_codes
from tests.unit.cli.command_line import Shell

COMMANDS = [
    (["explain", "a/b"], exit_codes.UNREACHABLE),
    (["check"], exit_codes.OTHER_ERROR),
    (["quota", "show"], exit_codes.OTHER_ERROR),
]


def kubeconfig(folder: Path, server: str) -> Path:
    path = folder / "config"
    cluster = {"name": "c", "cluster": {"server": server}}
    context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
    user = {"name": "u", "user": {"token": "t"}}
    found = {"clusters": [cluster], "contexts": [context], "users": [user], "current-context": "x"}
    path.write_text(json.dumps(found))
    return path


@pytest.mark.parametrize(("command", "code"), COMMANDS)
def test_nothing_listens_there(shell: Shell, tmp_path: Path, command: list[str], code: int) -> None:
    server = f"http://127.0.0.1:{free_port()}"
    path = kubeconfig(tmp_path, server)
    ended = shell(*command, f"--kubeconfig={path}")
    assert (ended.code, ended.out) == (code, "")
    assert ended.err == (
        f"Error: cannot reach the API server {server} (kubeconfig {path}, context x): "
        "nothing listens there (connection refused)\n"
    )


class _Refusing(BaseHTTPRequestHandler):
    """Answers every request with the Status of an API server that knows no such token."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = b'{"kind":"Status","message":"Unauthorized","reason":"Unauthorized","code":401}'
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(401)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET  # noqa: N815 - a name of the library

    def log_message(self, *_: object) -> None:
        """Write nothing."""


@pytest.fixture
def refusing() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Refusing) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["explain", "a/b"], exit_codes.NOT_PERMITTED),
        (["shadow", "--for", "1m"], exit_codes.NOT_PERMITTED),
        (["check"], exit_codes.OTHER_ERROR),
        (["quota", "show"], exit_codes.OTHER_ERROR),
    ],
)
def test_the_credentials_are_not_accepted(
    shell: Shell, tmp_path: Path, refusing: str, command: list[str], code: int
) -> None:
    path = kubeconfig(tmp_path, refusing)
    ended = shell(*command, f"--kubeconfig={path}", "--context", "x")
    assert (ended.code, ended.out) == (code, "")
    assert ended.err == (
        f"Error: the API server {refusing} does not accept the credentials of kubeconfig {path}, "
        "context x\nDoes kubectl work with them?  "
        f"kubectl --kubeconfig={path} --context=x auth whoami\n"
    )
