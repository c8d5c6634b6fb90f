"""An aggregated API with measurements of nodes, as metrics-server has it: it cannot be watched.

The API server forwards requests for `metrics.k8s.io/v1beta1` to it, because an APIService says so.
"""

from __future__ import annotations

import json
import ssl
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.parse import parse_qs, urlsplit

from devtools.control_plane.admin import ApiError, JsonObject
from devtools.control_plane.control_plane import ControlPlane
from devtools.control_plane.ports import LOOPBACK
from tests.envtest.workload import until

VERSION: Final = "metrics.k8s.io/v1beta1"
NODES: Final = f"/apis/{VERSION}/nodes"
SERVICES: Final = "/api/v1/namespaces/default/services"
API_SERVICES: Final = "/apis/apiregistration.k8s.io/v1/apiservices"
NAME: Final = "v1beta1.metrics.k8s.io"

_DISCOVERY: Final[JsonObject] = {
    "kind": "APIResourceList",
    "apiVersion": "v1",
    "groupVersion": VERSION,
    "resources": [
        {"name": "nodes", "singularName": "", "namespaced": False, "kind": "NodeMetrics",
         "verbs": ["get", "list"]},
    ],
}  # fmt: skip


class MetricsApi:
    """The measurements, and counts of the requests for them."""

    def __init__(self) -> None:
        #: CPU that each node uses, as a quantity.
        self.cpu: dict[str, str] = {}
        #: By `list` and `watch`.
        self.requests: Counter[str] = Counter()

    def respond(self, target: str) -> tuple[HTTPStatus, JsonObject]:
        """Return status and body of a GET."""
        path, query = urlsplit(target).path, parse_qs(urlsplit(target).query)
        if path == f"/apis/{VERSION}":
            return HTTPStatus.OK, _DISCOVERY
        if path != NODES:
            return HTTPStatus.NOT_FOUND, _status(HTTPStatus.NOT_FOUND, "NotFound")
        if query.get("watch", ["false"])[0] in ("true", "1"):
            self.requests["watch"] += 1
            return HTTPStatus.METHOD_NOT_ALLOWED, _status(
                HTTPStatus.METHOD_NOT_ALLOWED, "MethodNotAllowed"
            )
        self.requests["list"] += 1
        items = [
            {
                "metadata": {"name": name},
                "timestamp": "2026-01-01T00:00:00Z",
                "window": "20s",
                "usage": {"cpu": cpu, "memory": "1Gi"},
            }
            for name, cpu in self.cpu.items()
        ]
        head = {"kind": "NodeMetricsList", "apiVersion": VERSION, "metadata": {}}
        return HTTPStatus.OK, {**head, "items": items}


def _status(status: HTTPStatus, reason: str) -> JsonObject:
    head = {"kind": "Status", "apiVersion": "v1", "status": "Failure"}
    return {**head, "reason": reason, "code": int(status), "message": reason}


@contextmanager
def metrics_api(plane: ControlPlane) -> Iterator[MetricsApi]:
    """Serve an API without measurements, registered with the API server."""
    api = MetricsApi()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, content = api.respond(self.path)
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as http.server's
            """Write nothing."""

    server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(plane.files.authority, plane.files.certificates / "apiserver.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, name="metrics API")
    thread.start()
    try:
        with _registered(plane, server.server_port):
            yield api
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def _registered(plane: ControlPlane, port: int) -> Iterator[None]:
    request = plane.admin.request
    # The API server resolves the Service by itself: no proxy is needed for an external name.
    service: JsonObject = {
        "metadata": {"name": "metrics"},
        "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]},
    }
    registration: JsonObject = {
        "metadata": {"name": NAME},
        "spec": {
            "group": "metrics.k8s.io",
            "version": "v1beta1",
            "service": {"namespace": "default", "name": "metrics", "port": port},
            "insecureSkipTLSVerify": True,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
        },
    }
    request("POST", SERVICES, service)
    request("POST", API_SERVICES, registration)

    def served() -> bool:
        try:
            request("GET", NODES)
        except ApiError:
            return False
        return True

    try:
        until(served, f"the API server forwards {NODES}")
        yield
    finally:
        request("DELETE", f"{API_SERVICES}/{NAME}")
        request("DELETE", f"{SERVICES}/metrics")
