"""The endpoints with a real API server: access control, and probes despite idle connections."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tests.integration.serving
from devtools.control_plane.control_plane import ControlPlane, ManagedProcess
from devtools.control_plane.inspecting import get_endpoint
from devtools.control_plane.kubestow import start_kubestow
from devtools.control_plane.ports import LOOPBACK

pytestmark = pytest.mark.envtest

SCRIPTS = Path(tests.integration.serving.__file__).parent
STRANGERS = 10_000
SOFT, HARD = resource.getrlimit(resource.RLIMIT_NOFILE)


@pytest.fixture(scope="module")
def kubestow(control_plane: ControlPlane) -> Iterator[ManagedProcess]:
    """Run kubestow with the soft limit of descriptors that shells and runtimes often set."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(1024, SOFT), HARD))
    try:
        process = start_kubestow(control_plane, arguments=("-v", "10"), name="kubestow-endpoints")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (SOFT, HARD))
    yield process
    process.stop_cleanly()


def test_the_api_server_decides_and_its_decisions_are_cached(
    control_plane: ControlPlane, kubestow: ManagedProcess
) -> None:
    unprivileged = control_plane.service_account_token("default", "default")
    assert get_endpoint(kubestow.port, "/livez") == (200, "ok")
    assert get_endpoint(kubestow.port, "/metrics")[0] == 403
    for _ in range(20):
        assert get_endpoint(kubestow.port, "/metrics", "invalid-token")[0] == 401
        status, body = get_endpoint(kubestow.port, "/configz", unprivileged)
        assert status == 403
        assert 'User \\"system:serviceaccount:default:default\\" cannot get path' in body
    status, page = get_endpoint(kubestow.port, "/metrics", control_plane.admin_token)
    assert status == 200
    # A TokenReview each for three tokens, and an access review for each of three users but the
    # administrator's, whose group needs none. Everything else came from the cache.
    reviews = [
        line
        for line in page.splitlines()
        if line.startswith("rest_client_requests_total{") and 'method="POST"' in line
    ]
    assert 0 < sum(float(line.rpartition(" ")[2]) for line in reviews) <= 10


def script(name: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, SCRIPTS / name, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.skipif(
    HARD != resource.RLIM_INFINITY and HARD < STRANGERS + 100,
    reason=f"the hard limit of open files is {HARD}",
)
def test_every_probe_succeeds_beside_idle_connections(
    control_plane: ControlPlane, kubestow: ManagedProcess
) -> None:
    port = str(kubestow.port)
    strangers = script("strangers.py", port, str(STRANGERS), LOOPBACK)
    prober = script("prober.py", port)
    try:
        assert strangers.stdout is not None
        assert int(strangers.stdout.readline()) == STRANGERS
        probes, succeeded = map(int, prober.communicate()[0].split())
        # Reviews still reach the API server.
        assert get_endpoint(kubestow.port, "/metrics", control_plane.admin_token)[0] == 200
    finally:
        strangers.communicate()
    assert probes >= 66
    assert succeeded == probes
