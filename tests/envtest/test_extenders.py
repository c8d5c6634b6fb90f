"""An HTTP extender beside a real API server: it filters, and binds the pods itself."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any, Final

import pytest

from devtools.control_plane.control_plane import ControlPlane
from devtools.control_plane.kubestow import start_kubestow
from tests.envtest.workload import Json, Workload, until

pytestmark = pytest.mark.envtest

ZONE: Final = "example.com/licensed"


class FilteringBinder(http.server.ThreadingHTTPServer):
    """Lets pods onto nodes with a label, and binds them with the administrator's rights."""

    def __init__(self, control_plane: ControlPlane) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.admin = control_plane.admin
        self.calls: list[tuple[str, Json]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/scheduler/"

    def answer(self, verb: str, body: Json) -> Any:
        self.calls.append((verb, body))
        return self.filter(body) if verb == "filter" else self.bind(body)

    def filter(self, body: Json) -> Json:
        nodes = body["Nodes"]["items"]
        passing = [node for node in nodes if ZONE in node["metadata"].get("labels", {})]
        failed = [each["metadata"]["name"] for each in nodes if each not in passing]
        return {
            "Nodes": {"items": passing},
            "FailedNodes": dict.fromkeys(failed, "node(s) had no licence"),
        }

    def bind(self, body: Json) -> Json:
        namespace, name = body["PodNamespace"], body["PodName"]
        self.admin.request(
            "POST",
            f"/api/v1/namespaces/{namespace}/pods/{name}/binding",
            {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": name, "uid": body["PodUID"]},
                "target": {"kind": "Node", "name": body["Node"]},
            },
        )
        return {"Error": ""}


class _Handler(http.server.BaseHTTPRequestHandler):
    server: FilteringBinder

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = json.dumps(self.server.answer(self.path.rpartition("/")[2], body)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """The test reads `calls`."""


@pytest.fixture
def extender(control_plane: ControlPlane) -> Iterator[FilteringBinder]:
    with FilteringBinder(control_plane) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def work(control_plane: ControlPlane, extender: FilteringBinder) -> Iterator[Workload]:
    entry = {"urlPrefix": extender.url, "filterVerb": "filter", "bindVerb": "bind"}
    document = {"podInitialBackoffSeconds": 1, "extenders": [entry]}
    process = start_kubestow(control_plane, document, name="kubestow-extenders")
    with Workload(control_plane, "extenders") as workload:
        yield workload
    process.stop_cleanly()


def test_an_extender_filters_and_binds(work: Workload, extender: FilteringBinder) -> None:
    work.node("ext-plain")
    work.pod("a")
    refused = "1 node(s) had no licence."
    until(lambda: refused in work.condition("a").get("message", ""), "a is refused")
    work.node("ext-licensed", labels={ZONE: ""})
    for name in ("b", "c"):
        work.pod(name)
    assert set(work.until_bound().values()) == {"ext-licensed"}
    until(lambda: len(work.events("Scheduled")) == 3, "an event for each pod")
    verbs = [verb for verb, _ in extender.calls]
    assert verbs.count("bind") == 3
    _, asked = extender.calls[0]
    # Whole objects, with fields that the scheduler itself does not read.
    assert asked["Pod"]["metadata"]["managedFields"]
    (sent,) = asked["Nodes"]["items"]
    assert sent["metadata"]["uid"]
    assert sent["status"]["nodeInfo"]["kubeletVersion"] == "", sent
