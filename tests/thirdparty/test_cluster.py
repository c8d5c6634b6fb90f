"""The cluster of the other tests here, without third-party controllers except kwok."""

from __future__ import annotations

import pytest

from tests.envtest.workload import until
from tests.thirdparty.conftest import ClusterFactory

pytestmark = pytest.mark.thirdparty


def test_a_pod_of_a_new_cluster_becomes_ready(make_cluster: ClusterFactory) -> None:
    cluster = make_cluster()
    cluster.start_kubestow()
    cluster.node("n1", {"cpu": "4", "memory": "8Gi", "pods": "110"})
    cluster.namespace("team")
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    pod = {
        "metadata": {"name": "p"},
        "spec": {"schedulerName": "kubestow", "containers": [container]},
    }
    cluster.create("/api/v1/namespaces/team/pods", pod)

    def ready() -> bool:
        status = cluster.get("/api/v1/namespaces/team/pods/p")["status"]
        return any(
            each["type"] == "Ready" and each["status"] == "True"
            for each in status.get("conditions", ())
        )

    until(ready, "the pod is ready")
    cluster.admin.request("DELETE", "/api/v1/namespaces/team/pods/p")
    until(lambda: not cluster.items("/api/v1/namespaces/team/pods"), "kwok lets it go")
