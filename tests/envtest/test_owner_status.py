"""Says with the real controllers why the pods of an owner do not exist."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest
import yaml

from devtools.control_plane.control_plane import ApiServerOptions, Binaries, ControlPlane
from scheduler.cli.owner_object import refusals_target
from scheduler.cli.owner_status import missing, rollout
from scheduler.cli.pod_format import at
from tests.envtest.workload import until

pytestmark = pytest.mark.envtest("kube-controller-manager")

NAMESPACE: Final = "owners"
APPS: Final = f"/apis/apps/v1/namespaces/{NAMESPACE}"
CORE: Final = f"/api/v1/namespaces/{NAMESPACE}"
BATCH: Final = f"/apis/batch/v1/namespaces/{NAMESPACE}"
CONTROLLERS: Final = ("deployment", "replicaset", "replicationcontroller", "statefulset", "job")


@pytest.fixture(scope="module")
def plane(
    envtest_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    directory = tmp_path_factory.mktemp("owner-status")
    with ControlPlane(envtest_binaries, ApiServerOptions(), directory) as running:
        names = [*(f"{each}-controller" for each in CONTROLLERS), "resourcequota-controller"]
        running.start_controller_manager(
            ["--resource-quota-sync-period=1s"],
            controllers=names,
        )
        admin = running.admin
        admin.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        quota = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "2"}}}
        admin.request("POST", f"{CORE}/resourcequotas", quota)
        until(lambda: _used(running) == "0", "the quota counted")
        yield running


def _used(plane: ControlPlane) -> str | None:
    status: Any = plane.admin.request("GET", f"{CORE}/resourcequotas/q").get("status")
    used: str | None = (status or {}).get("used", {}).get("pods")
    return used


def _owner(kind: str, replicas: int, **spec: Any) -> dict[str, Any]:
    labels = {"app": "web"}
    pod = {"containers": [{"name": "c", "image": "none"}], "schedulerName": "nobody"}
    template: dict[str, Any] = {"metadata": {"labels": labels}, "spec": pod}
    if kind == "Job":
        template["spec"]["restartPolicy"] = "Never"
        made: dict[str, Any] = {"parallelism": replicas, "completions": replicas}
    else:
        selector = labels if kind == "ReplicationController" else {"matchLabels": labels}
        made = {"replicas": replicas, "selector": selector}
    return {"metadata": {"name": "web"}, "spec": {**made, "template": template, **spec}}


QUOTA: Final = 'FailedCreate: pods "web-'
EXCEEDED: Final = "exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2"
OTHERS: Final = "5 pods are wanted, 2 exist: the {} could not create the others: FailedCreate: "


@pytest.mark.parametrize(
    ("kind", "base", "spec", "texts"),
    [
        (
            "Deployment",
            APPS,
            {},
            ("5 pods are wanted, 2 exist: the ReplicaSet cannot", QUOTA, EXCEEDED),
        ),
        (
            "ReplicaSet",
            APPS,
            {},
            ("5 pods are wanted, 2 exist: the ReplicaSet cannot", QUOTA, EXCEEDED),
        ),
        ("ReplicationController", CORE, {}, ("cannot create the others", QUOTA, EXCEEDED)),
        (
            "StatefulSet",
            APPS,
            {"podManagementPolicy": "Parallel"},
            (OTHERS.format("StatefulSet"), EXCEEDED),
        ),
        ("Job", BATCH, {}, (OTHERS.format("Job"), EXCEEDED)),
    ],
)
def test_a_quota_that_refuses_pods_is_the_cause(
    kind: str, base: str, spec: dict[str, Any], texts: tuple[str, ...], plane: ControlPlane
) -> None:
    admin, path = plane.admin, f"{base}/{kind.lower()}s"
    admin.request("POST", path, _owner(kind, 5, **spec))

    def said() -> str:
        found: Any = admin.request("GET", f"{path}/web")
        target = refusals_target(found["metadata"]["uid"], NAMESPACE)
        return missing(
            found, kind, "web", NAMESPACE, events=lambda: admin.request("GET", target)["items"]
        )

    try:
        until(lambda: all(text in said() for text in texts), f"{texts} in {said()}")
    finally:
        admin.request("DELETE", f"{path}/web", {"propagationPolicy": "Background"})
        # No garbage collector runs.
        for each in (f"{APPS}/replicasets", f"{CORE}/pods"):
            admin.request("DELETE", f"{each}?gracePeriodSeconds=0")
        until(lambda: _used(plane) == "0", "no pods")


def test_an_owner_that_asks_for_no_pods(plane: ControlPlane) -> None:
    path = f"{APPS}/deployments"
    plane.admin.request("POST", path, _owner("Deployment", 0))

    def found() -> Any:
        made: Any = plane.admin.request("GET", f"{path}/web")
        return made if made["status"] else None

    try:
        said = missing(until(found, "a status"), "Deployment", "web", NAMESPACE)
        assert said == "It asks for no pods: spec.replicas is 0."
    finally:
        plane.admin.request("DELETE", f"{path}/web", {"propagationPolicy": "Background"})
        plane.admin.request("DELETE", f"{APPS}/replicasets")


def test_a_rollout_whose_new_pod_waits_keeps_the_old_one_until_it_may_go(
    plane: ControlPlane,
) -> None:
    admin, path = plane.admin, f"{APPS}/deployments"
    admin.request("POST", path, _owner("Deployment", 1))

    def pods() -> list[Any]:
        found: Any = admin.request("GET", f"{CORE}/pods")
        return list(found["items"])

    def said() -> str:
        return rollout(admin.request("GET", f"{path}/web"), "web", NAMESPACE)

    try:
        until(lambda: len(pods()) == 1, "the first pod")
        (old,) = pods()
        # No kubelet runs: it is available, and has no node.
        ready = [{"type": "Ready", "status": "True"}]
        status = {"status": {"phase": "Running", "conditions": ready}}
        pod = f"{CORE}/pods/{old['metadata']['name']}"
        admin.request("PATCH", f"{pod}/status", status)
        until(
            lambda: at(admin.request("GET", f"{path}/web"), "status.availableReplicas"),
            "an available pod",
        )
        assert said() == ""
        image = [{"name": "c", "image": "newer"}]
        admin.request(
            "PATCH", f"{path}/web", {"spec": {"template": {"spec": {"containers": image}}}}
        )
        text = until(said, "a rollout that stands still")
        assert text.startswith(
            "A rollout is under way: 1 of 2 pods is old. No old pod goes before a new one is "
            "available, since of 1 wanted 1 is available and maxUnavailable is 0.\n"
        )
        patch = yaml.safe_load(text[text.index("-p '") + 4 : text.rindex("'")])
        admin.request("PATCH", f"{path}/web", patch)

        def stays() -> bool:
            left = [each["metadata"] for each in pods()]
            names = {each["name"] for each in left if "deletionTimestamp" not in each}
            return old["metadata"]["name"] in names

        until(lambda: not stays(), "the old pod goes")
        until(lambda: said() == "", "the rollout is over")
    finally:
        admin.request("DELETE", f"{path}/web", {"propagationPolicy": "Background"})
        for each in (f"{APPS}/replicasets", f"{CORE}/pods"):
            admin.request("DELETE", f"{each}?gracePeriodSeconds=0")
        until(lambda: _used(plane) == "0", "no pods")
