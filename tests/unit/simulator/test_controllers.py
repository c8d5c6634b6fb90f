"""Controllers over an API, without a running loop: `work_once` until nothing is due."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from simulator.admission import WriteOptions
from simulator.api import MERGE_PATCH, Api
from simulator.clock import SimClock
from simulator.controllers.kubelet import Kubelet
from simulator.controllers.runner import KubeletController, Runner
from simulator.controllers.workloads import WorkloadController
from simulator.objects import JsonObject
from simulator.subresources import bind
from tests.unit.simulator.objects import binding, node, pod

_SPEC = {"containers": [{"name": "c", "image": "i"}]}


@pytest.fixture
def runner(api: Api) -> Iterator[Runner]:
    kubelet = Kubelet(nodes=lambda name: api.store.get("nodes", "", name) is not None)
    made = Runner(
        api,
        {"kubelet": KubeletController(api, kubelet), "workloads": WorkloadController(api)},
        frozenset(),
    )
    made.attach()
    yield made
    made.detach()


def _settle(runner: Runner) -> None:
    for _ in range(100):
        if not runner.work_once():
            return
    raise AssertionError("the controllers do not come to rest")


def _bind_all(api: Api) -> None:
    pods = api.resources.of_kind("v1", "Pod")
    for version in api.store.items("pods"):
        if not version.obj["spec"].get("nodeName"):
            target = binding(version.name, "n1")
            bind(api, pods, version.namespace, version.name, target, WriteOptions())


def _phases(api: Api) -> Counter[str]:
    return Counter(version.obj["status"]["phase"] for version in api.store.items("pods"))


def _deploy(api: Api, replicas: int, image: str = "i") -> None:
    row = api.resources.of_kind("apps/v1", "Deployment")
    body: JsonObject = {
        "metadata": {"name": "d"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "d"}},
            "template": {
                "metadata": {"labels": {"app": "d"}},
                "spec": {"containers": [{"name": "c", "image": image}]},
            },
        },
    }
    if api.store.get("deployments.apps", "default", "d"):
        api.update(row, "default", "d", body)
    else:
        api.create(row, "default", body)


def test_a_deployment_becomes_pods_that_run_and_are_counted(api: Api, runner: Runner) -> None:
    api.create(api.resources.of_kind("v1", "Node"), "", node("n1"))
    _deploy(api, 3)
    _settle(runner)
    assert _phases(api) == {"Pending": 3}
    first = api.store.items("pods")[0].obj["metadata"]
    assert first["labels"]["app"] == "d"
    assert first["ownerReferences"][0]["kind"] == "ReplicaSet"
    _bind_all(api)
    _settle(runner)
    assert _phases(api) == {"Running": 3}
    status = api.store.items("deployments.apps")[0].obj["status"]
    assert (status["replicas"], status["readyReplicas"], status["observedGeneration"]) == (3, 3, 1)


def test_scaling_down_takes_pods_that_no_node_runs_first(api: Api, runner: Runner) -> None:
    api.create(api.resources.of_kind("v1", "Node"), "", node("n1"))
    _deploy(api, 1)
    _settle(runner)
    _bind_all(api)
    _settle(runner)
    _deploy(api, 3)
    _settle(runner)
    assert _phases(api) == {"Running": 1, "Pending": 2}
    _deploy(api, 1)
    _settle(runner)
    assert _phases(api) == {"Running": 1}


def test_a_new_template_replaces_the_pods(api: Api, runner: Runner) -> None:
    _deploy(api, 2)
    _settle(runner)
    _deploy(api, 2, "other")
    _settle(runner)
    images = [v.obj["spec"]["containers"][0]["image"] for v in api.store.items("pods")]
    assert images == ["other", "other"]
    assert api.store.count("replicasets.apps") == 2


def test_deleting_the_owner_deletes_what_it_owns(api: Api, runner: Runner) -> None:
    _deploy(api, 2)
    api.create(api.resources.of_kind("v1", "Pod"), "default", pod("free"))
    _settle(runner)
    api.delete(api.resources.of_kind("apps/v1", "Deployment"), "default", "d")
    _settle(runner)
    assert api.store.count("replicasets.apps") == 0
    assert [version.name for version in api.store.items("pods")] == ["free"]


def _job(api: Api, **spec: object) -> JsonObject:
    template = {"spec": {**_SPEC, "restartPolicy": "Never"}}
    row = api.resources.of_kind("batch/v1", "Job")
    body = {"metadata": {"name": "j"}, "spec": {"template": template, **spec}}
    return api.create(row, "default", body).obj


def test_a_job_runs_to_completion(api: Api, runner: Runner, clock: SimClock) -> None:
    api.create(api.resources.of_kind("v1", "Node"), "", node("n1"))
    _job(api, completions=3, parallelism=2)
    for _ in range(3):
        _settle(runner)
        _bind_all(api)
        _settle(runner)
        clock.advance(10)
    _settle(runner)
    assert _phases(api) == {"Succeeded": 3}
    status = api.store.items("jobs.batch")[0].obj["status"]
    assert (status["succeeded"], status["active"]) == (3, 0)
    assert status["conditions"][0]["type"] == "Complete"


def test_a_job_that_keeps_failing_gives_up(api: Api, runner: Runner) -> None:
    _job(api, backoffLimit=1)
    pods = api.resources.of_kind("v1", "Pod")
    for _ in range(4):
        _settle(runner)
        for version in api.store.items("pods"):
            failed = {"status": {"phase": "Failed"}}
            api.patch(pods, "default", version.name, failed, MERGE_PATCH, subresource="status")
    _settle(runner)
    assert _phases(api) == {"Failed": 2}
    assert api.store.items("jobs.batch")[0].obj["status"]["conditions"][0]["type"] == "Failed"


def test_a_controller_that_was_off_catches_up(api: Api, runner: Runner) -> None:
    runner.switch("workloads", False)
    _deploy(api, 2)
    _settle(runner)
    assert api.store.count("pods") == 0
    assert runner.names() == {"kubelet": True, "workloads": False}
    runner.switch("workloads", True)
    _settle(runner)
    assert api.store.count("pods") == 2
    with pytest.raises(KeyError):
        runner.switch("nope", True)


def test_a_pod_bound_to_a_node_that_comes_later_starts_then(api: Api, runner: Runner) -> None:
    api.create(api.resources.of_kind("v1", "Pod"), "default", pod("a"))
    _bind_all(api)
    _settle(runner)
    assert _phases(api) == {"Pending": 1}
    api.create(api.resources.of_kind("v1", "Node"), "", node("n1"))
    _settle(runner)
    assert _phases(api) == {"Running": 1}


def test_a_deleted_pod_is_gone_after_its_time(api: Api, runner: Runner, clock: SimClock) -> None:
    api.create(api.resources.of_kind("v1", "Node"), "", node("n1"))
    pods = api.resources.of_kind("v1", "Pod")
    api.create(pods, "default", pod("a"))
    _bind_all(api)
    _settle(runner)
    api.delete(pods, "default", "a")
    _settle(runner)
    assert api.store.count("pods") == 1
    clock.advance(1)
    _settle(runner)
    assert api.store.count("pods") == 0
