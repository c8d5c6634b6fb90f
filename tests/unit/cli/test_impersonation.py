"""A kubeconfig that acts as another user does so in every request, or in none."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from scheduler.cli.exit_codes import NOT_PERMITTED
from tests.unit.cli.command_line import Shell


class Refusing(BaseHTTPRequestHandler):
    """Answers every request with 403, and keeps its headers."""

    seen: list[list[tuple[str, str]]]

    def do_GET(self) -> None:
        self.seen.append(list(self.headers.items()))
        status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403}
        body = json.dumps({**status, "reason": "Forbidden", "message": "no"}).encode()
        self.send_response(403)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET  # noqa: N815 - as http.server names it

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def seen() -> list[list[tuple[str, str]]]:
    return []


@pytest.fixture
def kubeconfig(tmp_path: Path, seen: list[list[tuple[str, str]]]) -> Iterator[Path]:
    """A kubeconfig that acts as another user of a server that answers 403."""
    handler = type("Handler", (Refusing,), {"seen": seen})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    user: dict[str, Any] = {"token": "t", "as": "reader", "as-groups": ["g1", "g2"]}
    url = f"http://127.0.0.1:{server.server_port}"
    path = tmp_path / "config"
    path.write_text(
        json.dumps(
            {
                "clusters": [{"name": "c", "cluster": {"server": url}}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
                "users": [{"name": "u", "user": user}],
            }
        )
    )
    yield path
    server.shutdown()
    thread.join()
    server.server_close()


ACTING = [("Impersonate-User", "reader"), ("Impersonate-Group", "g1"), ("Impersonate-Group", "g2")]


def acting(headers: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [each for each in headers if each[0].startswith("Impersonate")]


@pytest.mark.parametrize(
    "command", [["check"], ["queue", "--token", "t"], ["explain", "a/b", "--token", "t"]]
)
def test_every_request_to_the_api_server_acts_as_the_other_user(
    shell: Shell, kubeconfig: Path, seen: list[list[tuple[str, str]]], command: list[str]
) -> None:
    assert shell(*command, "--kubeconfig", str(kubeconfig)).code != 0
    assert seen
    assert [acting(each) for each in seen] == [ACTING] * len(seen)


@pytest.mark.parametrize("where", [[], ["--server", "https://localhost:1"]])
def test_a_scheduler_is_not_asked_as_the_user_behind(
    shell: Shell, kubeconfig: Path, seen: list[list[tuple[str, str]]], where: list[str]
) -> None:
    ended = shell("queue", *where, "--kubeconfig", str(kubeconfig))
    assert ended.code == NOT_PERMITTED
    assert "acts as another user (as), which only an API server understands" in ended.err
    assert "Give --token, or a kubeconfig without as" in ended.err
    assert seen == []
