"""A user whom the scheduler does not answer is told what the pod itself says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from scheduler.cli import exit_codes
from tests.unit.cli.command_line import Shell
from tests.unit.cli.test_unreachable_cluster import kubeconfig

WAITING = {
    "type": "PodScheduled",
    "status": "False",
    "lastTransitionTime": "2026-12-01T12:00:00Z",
    "message": "0/3 nodes are available: 3 Insufficient cpu.",
}
SAYS = (
    "\nThe pod itself says, in its condition PodScheduled since 2026-12-01T12:00:00Z:\n"
    "  0/3 nodes are available: 3 Insufficient cpu.\n"
)
LEASES = "/apis/coordination.k8s.io/"


@contextmanager
def api_server(leases: int, answer: tuple[int, Any]) -> Iterator[str]:
    """Serve one pod, and a status for each Lease."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            refusal = {"kind": "Status", "message": "leases is forbidden", "code": leases}
            status, found = (leases, refusal) if self.path.startswith(LEASES) else answer
            assert self.path.startswith(LEASES) or self.path == "/api/v1/namespaces/a/pods/b"
            body = json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("leases", "code"), [(403, exit_codes.NOT_PERMITTED), (404, exit_codes.UNREACHABLE)]
)
@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ((200, {"status": {"conditions": [{"type": "Ready"}, WAITING]}}), SAYS),
        ((200, {"status": {"conditions": [WAITING | {"status": "True"}]}}), ""),
        ((200, {"status": {"conditions": ["x", None]}}), ""),
        ((200, {"status": []}), ""),
        ((403, {"status": {"conditions": [WAITING]}}), ""),
    ],
    ids=["waits", "has a node", "malformed conditions", "malformed status", "may not be read"],
)
def test_the_condition_of_the_pod_follows_the_refusal(
    shell: Shell, tmp_path: Path, leases: int, code: int, answer: tuple[int, Any], says: str
) -> None:
    with api_server(leases, answer) as server:
        ended = shell("explain", "a/b", f"--kubeconfig={kubeconfig(tmp_path, server)}")
    assert (ended.code, ended.out) == (code, "")
    assert ended.err.endswith(says or "\n")
    assert ("The pod itself says" in ended.err) is bool(says)


def test_what_it_says_is_one_line_without_control_characters(shell: Shell, tmp_path: Path) -> None:
    hostile = WAITING | {"message": "a\x1b[31m\nb" * 1000}
    with api_server(403, (200, {"status": {"conditions": [hostile]}})) as server:
        ended = shell("explain", "a/b", f"--kubeconfig={kubeconfig(tmp_path, server)}")
    last = ended.err.splitlines()[-1]
    assert last.startswith("  a")
    assert "\x1b" not in ended.err
    assert len(last) <= 1100
