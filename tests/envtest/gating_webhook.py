"""A mutating webhook that gates pods of queues, as Kueue's does.

The API server calls webhooks after admission policies; only a policy with reinvocation sees the
changes of a webhook.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from devtools.control_plane.admin import JsonObject
from devtools.control_plane.control_plane import ControlPlane
from devtools.control_plane.ports import LOOPBACK

QUEUE: Final = "kueue.x-k8s.io/queue-name"
"""Label of the pods that it gates."""

_CONFIGURATIONS: Final = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
_GATE: Final = [
    {"op": "add", "path": "/spec/schedulingGates", "value": [{"name": "kueue.x-k8s.io/admission"}]}
]


class _Handler(BaseHTTPRequestHandler):
    """Responds to every review with the patch that adds the gate."""

    def do_POST(self) -> None:
        """Respond to an AdmissionReview."""
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        response = {
            "uid": review["request"]["uid"],
            "allowed": True,
            "patchType": "JSONPatch",
            "patch": base64.b64encode(json.dumps(_GATE).encode()).decode(),
        }
        body = json.dumps({**review, "request": None, "response": response}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as in http.server
        """Write nothing."""


@contextmanager
def gating_webhook(plane: ControlPlane, namespace: str) -> Iterator[None]:
    """Serve the webhook, registered for pods of a namespace that have the label."""
    files = plane.files
    server = ThreadingHTTPServer((LOOPBACK, 0), _Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # The API server's own certificate is valid for this address.
    context.load_cert_chain(files.authority, files.certificates / "apiserver.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, name="gating webhook")
    thread.start()
    webhook: JsonObject = {
        "name": "gates.kueue.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {
            "url": f"https://{LOOPBACK}:{server.server_port}/",
            "caBundle": base64.b64encode(files.authority.read_bytes()).decode(),
        },
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "objectSelector": {"matchExpressions": [{"key": QUEUE, "operator": "Exists"}]},
        "rules": [
            {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["CREATE"],
                "resources": ["pods"],
            }
        ],
    }
    manifest = {"metadata": {"name": f"gates-{namespace}"}, "webhooks": [webhook]}
    try:
        plane.admin.request("POST", _CONFIGURATIONS, manifest)
        yield
    finally:
        plane.admin.request("DELETE", f"{_CONFIGURATIONS}/gates-{namespace}")
        server.shutdown()
        thread.join()
        server.server_close()
