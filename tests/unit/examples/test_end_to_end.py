"""The examples in the running program: configuration file, `--plugin-dir`, HTTP, placed pods.

The application runs as `kubestow run` runs it, but in this process, on an embedded cluster.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import functools
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
import yaml

from scheduler.framework import ConfigurationError
from scheduler.process.application import Application
from scheduler.service.options import (
    RunOptions,
    ServingOptions,
    available_plugins,
    read_configuration,
)
from simulator import EmbeddedCluster
from simulator.api import MERGE_PATCH
from simulator.resources import Resource

EXAMPLES: Final = Path(__file__).parents[3] / "examples"
MODULES: Final = {
    "scalar_filter": "app_limit",
    "columnar_score": "node_cost",
    "gate_until": "not_before",
    "licence_tokens": "licence_tokens",
    "price_gate": "price_gate",
    "learned_score": "learned_score",
}
PATIENCE_SECONDS: Final = 60.0
"""Before a test gives up; what it waits for takes a fraction of a second."""


def options(example: str, kubeconfig: Path | None = None) -> RunOptions:
    overrides: dict[str, object] = {"leaderElection.leaderElect": False}
    if kubeconfig is not None:
        overrides["clientConnection.kubeconfig"] = str(kubeconfig)
    return RunOptions(
        config_file=str(EXAMPLES / example / "config.yaml"),
        plugin_dirs=(str(EXAMPLES / example),),
        overrides=overrides,
        serving=ServingOptions(secure_port=0),
    )


@asynccontextmanager
async def running(example: str, folder: Path, *served: Resource) -> AsyncIterator[EmbeddedCluster]:
    """A cluster, and the scheduler with one example's configuration at work on it."""
    async with EmbeddedCluster(controllers=()) as cluster:
        for each in served:
            cluster.resources.add(each)
        chosen = options(example, cluster.write_kubeconfig(folder / "kubeconfig"))
        registry = available_plugins()
        application = Application(read_configuration(chosen, registry), registry, chosen)
        # A task group, so that a scheduler that breaks ends the test at once.
        async with asyncio.TaskGroup() as tasks:
            serving = tasks.create_task(application.serve(), name="scheduler")
            try:
                yield cluster
            finally:
                application.request_stop()
        assert serving.result() == 0


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():  # noqa: ASYNC110 - the state of a server, not an event of ours
            await asyncio.sleep(0.01)


def create_node(cluster: EmbeddedCluster, name: str, **labels: str) -> None:
    size = {"cpu": "8", "memory": "16Gi", "pods": "110"}
    keys = {key.replace("__", "/").replace("_", "."): value for key, value in labels.items()}
    cluster.create(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": keys},
            "status": {"capacity": size, "allocatable": size},
        }
    )


def create_pod(cluster: EmbeddedCluster, name: str, **metadata: object) -> None:
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "10m"}}}
    cluster.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, **metadata},
            "spec": {"schedulerName": "kubestow", "containers": [container]},
        }
    )


def node_of(cluster: EmbeddedCluster, name: str) -> str:
    return str(cluster.get("v1", "Pod", name)["spec"].get("nodeName", ""))


def condition_of(cluster: EmbeddedCluster, name: str) -> str:
    conditions = cluster.get("v1", "Pod", name)["status"].get("conditions", [])
    return next((str(each["message"]) for each in conditions if each.get("message")), "")


async def test_no_node_gets_more_pods_of_an_app_than_the_limit(tmp_path: Path) -> None:
    labels = {"app.kubernetes.io/name": "web"}
    async with running("scalar_filter", tmp_path) as cluster:
        for name in ("n1", "n2"):
            create_node(cluster, name)
        for number in range(7):
            create_pod(cluster, f"web-{number}", labels=labels)
        names = [f"web-{number}" for number in range(7)]
        await until(lambda: sum(bool(node_of(cluster, name)) for name in names) == 6)
        left = next(name for name in names if not node_of(cluster, name))
        await until(lambda: condition_of(cluster, left))
        assert "2 node(s) had 3 pods of the same app" in condition_of(cluster, left)
        create_node(cluster, "n3")
        await until(lambda: node_of(cluster, left) == "n3")
        placed = [node_of(cluster, name) for name in names]
        assert {node: placed.count(node) for node in placed} == {"n1": 3, "n2": 3, "n3": 1}


async def test_pods_go_to_the_node_that_uses_least_as_the_metrics_api_says(tmp_path: Path) -> None:
    served = Resource(
        "metrics.k8s.io", "v1beta1", "nodes", "NodeMetrics", namespaced=False,
        storage="node-metrics", verbs=("create", "get", "list"),
    )  # fmt: skip
    async with running("load_aware", tmp_path, served) as cluster:
        for name, used in (("busy", "6"), ("idle", "250m"), ("fair", "3000000000n")):
            cluster.create(
                {
                    "apiVersion": "metrics.k8s.io/v1beta1",
                    "kind": "NodeMetrics",
                    "metadata": {"name": name},
                    "usage": {"cpu": used, "memory": "1Gi"},
                }
            )
            create_node(cluster, name)
        create_pod(cluster, "p")
        await until(lambda: node_of(cluster, "p"))
        assert node_of(cluster, "p") == "idle"


async def test_a_pod_waits_for_licence_tokens(tmp_path: Path) -> None:
    pools = Resource("example.com", "v1", "licencepools", "LicencePool", namespaced=False)

    def create_pool(cluster: EmbeddedCluster, name: str, tokens: int) -> None:
        meta = {"apiVersion": "example.com/v1", "kind": "LicencePool", "metadata": {"name": name}}
        cluster.create({**meta, "spec": {"tokens": tokens}})

    async with running("licence_tokens", tmp_path, pools) as cluster:
        create_node(cluster, "n1")
        create_pool(cluster, "matlab", 1)
        for name in ("first", "second"):
            create_pod(cluster, name, annotations={"example.com/licences": "matlab=1"})
        await until(lambda: node_of(cluster, "first") or node_of(cluster, "second"))
        left = "second" if node_of(cluster, "first") else "first"
        await until(lambda: condition_of(cluster, left))
        assert "not enough free tokens in licence pool matlab" in condition_of(cluster, left)
        cluster.api.patch(pools, "", "matlab", {"spec": {"tokens": 2}}, MERGE_PATCH)
        await until(lambda: node_of(cluster, left))


async def test_no_rack_gets_more_than_a_third_of_an_app(tmp_path: Path) -> None:
    async with running("rack_aware", tmp_path) as cluster:
        for zone, rack in ("a1", "a2", "b1"):
            name = f"{zone}{rack}"
            labels = {"topology_kubernetes_io__zone": zone, "topology_kubernetes_io__rack": rack}
            create_node(cluster, name, kubernetes_io__hostname=name, **labels)
        names = [f"web-{number}" for number in range(6)]
        for name in names:
            create_pod(cluster, name, labels={"app.kubernetes.io/name": "web"})
        await until(lambda: all(node_of(cluster, name) for name in names))
        placed = Counter(node_of(cluster, name) for name in names)
        # A third, rounded up to whole pods; one zone gets no more than 67 percent.
        assert max(placed.values()) <= 3
        assert placed["b1"] >= 1


async def test_a_pod_that_may_wait_starts_when_the_forecast_says_so(tmp_path: Path) -> None:
    forecasts = Resource("example.com", "v1", "priceforecasts", "PriceForecast", namespaced=False)

    async with running("price_gate", tmp_path, forecasts) as cluster:
        create_node(cluster, "n1")
        kind = {"apiVersion": "example.com/v1", "kind": "PriceForecast"}
        soon = (dt.datetime.now(dt.UTC) + dt.timedelta(hours=2)).isoformat()
        near = [{"time": "2020-01-01T00:00:00Z", "price": 9}, {"time": soon, "price": 1}]
        meta = {"metadata": {"name": "electricity"}}
        cluster.create({**kind, **meta, "spec": {"prices": near}})
        late = (dt.datetime.now(dt.UTC) + dt.timedelta(hours=9)).isoformat()
        create_pod(cluster, "batch", annotations={"example.com/finish-by": late})
        create_pod(cluster, "web")
        await until(lambda: node_of(cluster, "web"))
        assert not node_of(cluster, "batch")
        changed = {"spec": {"prices": near[:1]}}
        cluster.api.patch(forecasts, "", "electricity", changed, MERGE_PATCH)
        await until(lambda: node_of(cluster, "batch"))


async def test_pods_go_where_the_model_sees_the_least_loss(tmp_path: Path) -> None:
    if "CI" not in os.environ:
        pytest.importorskip("onnxruntime", reason="kubestow[learned] is not installed")
    async with running("learned_score", tmp_path) as cluster:
        for name in ("n1", "n2"):
            create_node(cluster, name)
        # The second pod joins the first, so that the other node keeps its room.
        for name in ("first", "second"):
            create_pod(cluster, name)
            await until(functools.partial(node_of, cluster, name))
        assert node_of(cluster, "first") == node_of(cluster, "second")


async def test_pods_go_to_the_cheapest_node(tmp_path: Path) -> None:
    async with running("columnar_score", tmp_path) as cluster:
        for name, cost in (("dear", "90"), ("cheap", "10"), ("fair", "40")):
            create_node(cluster, name, example_com__cost=cost)
        create_pod(cluster, "p")
        await until(lambda: node_of(cluster, "p"))
        assert node_of(cluster, "p") == "cheap"


async def test_a_pod_waits_for_the_time_in_its_annotation(tmp_path: Path) -> None:
    async with running("gate_until", tmp_path) as cluster:
        create_node(cluster, "n1")
        create_pod(cluster, "now")
        await until(lambda: node_of(cluster, "now"))
        now = dt.datetime.now(dt.UTC)
        due = now + dt.timedelta(seconds=0.4)
        for name, time in (("later", now + dt.timedelta(days=1)), ("soon", due)):
            annotation = {"example.com/not-before": time.isoformat()}
            create_pod(cluster, name, annotations=annotation)
        await until(lambda: node_of(cluster, "soon"))
        assert dt.datetime.now(dt.UTC) >= due
        assert not node_of(cluster, "later")


@pytest.mark.parametrize("example", MODULES)
def test_a_plugin_without_its_folder_is_explained(example: str) -> None:
    chosen = RunOptions(config_file=str(EXAMPLES / example / "config.yaml"))
    with pytest.raises(ConfigurationError, match="put its directory on the path with --plugin-dir"):
        read_configuration(chosen, available_plugins())


def test_the_overlay_mounts_what_the_arguments_name() -> None:
    overlay = yaml.safe_load((EXAMPLES / "gate_until" / "kustomization.yaml").read_text())
    (generated,) = overlay["configMapGenerator"]
    assert all((EXAMPLES / "gate_until" / name).is_file() for name in generated["files"])
    patch = yaml.safe_load(overlay["patches"][0]["patch"])
    spec = patch["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    (mount,), (volume,) = container["volumeMounts"], spec["volumes"]
    assert volume == {"name": mount["name"], "configMap": {"name": generated["name"]}}
    arguments = dict(each.split("=") for each in container["args"])
    assert arguments["--plugin-dir"] == mount["mountPath"]
    assert arguments["--config"] == f"{mount['mountPath']}/config.yaml"

    base = EXAMPLES / "gate_until" / overlay["resources"][0]
    (deployment,) = yaml.safe_load_all((base / "deployment.yaml").read_text())
    (original,) = deployment["spec"]["template"]["spec"]["containers"]
    assert (patch["metadata"]["name"], container["name"]) == (
        deployment["metadata"]["name"],
        original["name"],
    )
