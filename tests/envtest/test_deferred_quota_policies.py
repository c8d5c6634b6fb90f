"""Deferred keys and the policies P1-P6 on a real API server with the real quota controller.

The administrator acts as the scheduler and writes `used` as the usage writer would. Policies take
effect some time after they were created, and read quotas from a cache: a test first waits until a
dry run has the expected result.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import pytest
from click.testing import CliRunner

from devtools.control_plane.control_plane import Binaries, ControlPlane, KubectlError
from scheduler.cli.quota import command
from tests.envtest.gating_webhook import QUEUE, gating_webhook
from tests.envtest.guarded_plane import guarded_plane, node
from tests.envtest.quota_requests import pod, resources
from tests.envtest.workload import until

pytestmark = pytest.mark.envtest("kube-controller-manager")

PREFIX: Final = "deferred.kubestow.io/"
CPU: Final = f"{PREFIX}requests.cpu-millis"
LIMIT: Final = f"{PREFIX}limits.cpu-millis"
GPU: Final = f"{PREFIX}requests.nvidia.com_gpu"
MARKS: Final = {"kubestow.io/deferred-quota": "true"}
RESYNC_SECONDS: Final = 5


class Guarded:
    """One labelled namespace on a guarded control plane."""

    def __init__(self, plane: ControlPlane, namespace: str, *, labelled: bool = True) -> None:
        self.plane = plane
        self.base = f"/api/v1/namespaces/{namespace}"
        labels = {"kubestow.io/deferred-quota": "enforced"} if labelled else {}
        plane.admin.ensure(
            "/api/v1/namespaces", {"metadata": {"name": namespace, "labels": labels}}
        )
        self.namespace = namespace

    def quota(self, hard: dict[str, str], used: dict[str, str] | None = None, **spec: Any) -> None:
        """Create the quota `deferred` and, once it is counted, write `used` into it."""
        body = {"metadata": {"name": "deferred", "labels": MARKS}, "spec": {"hard": hard, **spec}}
        self.plane.admin.request("POST", f"{self.base}/resourcequotas", body)
        until(lambda: self.stored().get("hard") == self.hard(), "the quota counted")
        if used:
            self.write(used)

    def write(self, used: dict[str, str]) -> None:
        path = f"{self.base}/resourcequotas/deferred/status"
        self.plane.admin.request("PATCH", path, {"status": {"used": used}})

    def labels(self) -> str:
        """Return the namespace's labels that the policies read."""
        found = cast("dict[str, Any]", self.plane.admin.request("GET", self.base)["metadata"])
        return str(found["labels"].get("kubestow.io/deferred-quota", ""))

    def hard(self) -> Any:
        return self.object()["spec"]["hard"]

    def stored(self) -> dict[str, Any]:
        found: dict[str, Any] = self.object().get("status") or {}
        return found

    def object(self) -> dict[str, Any]:
        return self.plane.admin.request("GET", f"{self.base}/resourcequotas/deferred")

    def request(
        self, name: str, *arguments: Any, dry: bool = False, **more: Any
    ) -> tuple[int, str]:
        """Request the creation of a pod; return the code, and the message of an error."""
        path = f"{self.base}/pods" + ("?dryRun=All" if dry else "")
        request = pod(name, *arguments, **more)
        code, text = self.plane.admin.exchange("POST", path, request.body)
        return code, str(json.loads(text)["message"]) if code >= 400 else ""

    def create(self, name: str, *arguments: Any, code: int = 201, **more: Any) -> str:
        """Request the creation of a pod, which must return `code`; return the message."""
        until(
            lambda: self.request(name, *arguments, dry=True, **more)[0] == code,
            f"{code} for {name}",
        )
        found, message = self.request(name, *arguments, **more)
        assert found == code, message
        return message

    def bind(self, name: str, kubeconfig: Path | None = None) -> None:
        """Bind a pod as the administrator, or as the user of `kubeconfig`. Raises KubectlError."""
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": self.namespace},
            "target": {"kind": "Node", "name": "n1"},
        }
        path = f"{self.base}/pods/{name}/binding"
        self.plane.kubectl(
            "create", "--raw", path, "-f", "-", stdin=json.dumps(binding), kubeconfig=kubeconfig
        )

    def resize(self, name: str, cpu: str, *, dry: bool = False) -> tuple[int, str]:
        return self.resize_to(name, resources({"cpu": cpu}), dry=dry)

    def resize_to(self, name: str, wanted: dict[str, Any], *, dry: bool = False) -> tuple[int, str]:
        """Resize the container `c`; return the code, and the message of an error."""
        path = f"{self.base}/pods/{name}/resize" + ("?dryRun=All" if dry else "")
        patch = {"spec": {"containers": [{"name": "c", "resources": wanted}]}}
        kind = "application/strategic-merge-patch+json"
        code, text = self.plane.admin.exchange("PATCH", path, patch, kind)
        return code, str(json.loads(text)["message"]) if code >= 400 else ""


@pytest.fixture(scope="module")
def guarded(
    envtest_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """A control plane with our manifests, the component and the quota controller."""
    with guarded_plane(
        envtest_binaries,
        tmp_path_factory.mktemp("guarded"),
        [f"--resource-quota-sync-period={RESYNC_SECONDS}s"],
        controllers=["resourcequota-controller"],
    ) as plane:
        plane.admin.request("POST", "/api/v1/nodes", node("n1", {"cpu": "64", "pods": "110"}))
        yield plane


def test_b2_p1_rejects_a_pod_without_gates_with_all_numbers(guarded: ControlPlane) -> None:
    place = Guarded(guarded, "p1")
    place.quota({CPU: "2k", GPU: "8"}, {CPU: "1500", GPU: "8"})
    assert place.create("over", {"cpu": "1"}, code=403).endswith(
        "denied request: exceeded quota: deferred, requested: requests.cpu-millis=1000, "
        "used: requests.cpu-millis=1500, limited: requests.cpu-millis=2k"
    )
    device = {"nvidia.com/gpu": "1"}
    assert "requests.nvidia.com_gpu=1" in place.create("gpu", device, device, code=403)
    place.create("fits", {"cpu": "500m"})
    place.create("asks-nothing")
    place.create("gated", {"cpu": "5"}, gated=True, schedulerName="kubestow")


def test_b2_p1_sums_containers_and_sidecars(guarded: ControlPlane) -> None:
    place = Guarded(guarded, "p1-sums")
    place.quota({CPU: "2k"}, {CPU: "0"})

    def init(cpu: str, **more: str) -> list[dict[str, Any]]:
        return [{"name": "i", "image": "none", "resources": resources({"cpu": cpu}), **more}]

    place.create("s", {"cpu": "1"}, code=403, initContainers=init("1500m", restartPolicy="Always"))
    place.create("i", {"cpu": "1"}, initContainers=init("1"))


def _pair(cpu: str, **level: dict[str, str]) -> dict[str, Any]:
    """Return two containers with the same limit, and pod-level resources."""
    each = {"image": "none", "resources": resources({"cpu": "100m"}, {"cpu": cpu})}
    return {"containers": [{"name": name, **each} for name in "cd"], "resources": level}


def test_b2_p1_uses_pod_level_resources(guarded: ControlPlane) -> None:
    place = Guarded(guarded, "p1-pod-level")
    place.quota({LIMIT: "3k", CPU: "1k"}, {LIMIT: "0", CPU: "0"})
    place.create("sum", code=403, **_pair("2", requests={"cpu": "1"}))
    place.create("whole", **_pair("2", limits={"cpu": "2"}, requests={"cpu": "1"}))
    message = place.create("over", code=403, **_pair("2", limits={"cpu": "3001m"}))
    assert "requested: limits.cpu-millis=3001," in message
    message = place.create("asks", code=403, **_pair("500m", requests={"cpu": "1001m"}))
    assert "requested: requests.cpu-millis=1001," in message


def test_b2_p1_leaves_scopes_except_priority_classes_to_the_scheduler(
    guarded: ControlPlane,
) -> None:
    scoped = Guarded(guarded, "p1-terminating")
    scoped.quota({CPU: "0"}, {CPU: "0"}, scopes=["Terminating"])
    scoped.create("a", {"cpu": "1"}, activeDeadlineSeconds=60)
    classed = Guarded(guarded, "p1-priority")
    names = {"scopeName": "PriorityClass", "operator": "In", "values": ["system-node-critical"]}
    classed.quota({CPU: "0"}, {CPU: "0"}, scopeSelector={"matchExpressions": [names]})
    classed.create("a", {"cpu": "1"}, code=403, priorityClassName="system-node-critical")
    classed.create("b", {"cpu": "1"}, priorityClassName="system-cluster-critical")


def test_b47_p2_a_bound_pod_cannot_grow_beyond_what_is_free(guarded: ControlPlane) -> None:
    place = Guarded(guarded, "p2")
    place.quota({CPU: "2k"}, {CPU: "0"})
    place.create("bound", {"cpu": "1"})
    place.create("free", {"cpu": "1"})
    ours = guarded.service_account_kubeconfig("kubestow-system", "kubestow")
    place.bind("bound", ours)
    place.write({CPU: "1500"})
    until(lambda: place.resize("bound", "1900m", dry=True)[0] == 403, "a refusal to grow")
    code, message = place.resize("bound", "1900m")
    assert code == 403
    assert message.endswith(
        "denied request: exceeded quota: deferred, requested: requests.cpu-millis=900, "
        "used: requests.cpu-millis=1500, limited: requests.cpu-millis=2k"
    )
    assert place.resize("bound", "1500m") == (200, "")
    place.write({CPU: "9k"})
    assert place.resize("bound", "200m") == (200, ""), "shrinking is no matter of quota"
    assert place.resize("free", "5") == (200, ""), "a pod without a node is not charged yet"


def test_b47_p2_uses_pod_level_resources(guarded: ControlPlane) -> None:
    place = Guarded(guarded, "p2-pod-level")
    place.quota({LIMIT: "3k"}, {LIMIT: "0"})
    place.create("whole", **_pair("1500m", limits={"cpu": "2"}))
    place.create("sum", **_pair("1500m"))
    ours = guarded.service_account_kubeconfig("kubestow-system", "kubestow")
    for name in ("whole", "sum"):
        place.bind(name, ours)
    place.write({LIMIT: "3k"})
    bigger = resources({"cpu": "100m"}, {"cpu": "1600m"})
    # The sum of one grows, the other still counts its pod-level resources.
    until(lambda: place.resize_to("sum", bigger, dry=True)[0] == 403, "a refusal to grow")
    assert place.resize_to("whole", bigger) == (200, "")


def test_b47_p3_only_the_scheduler_binds(guarded: ControlPlane) -> None:
    place = Guarded(guarded, "p3")
    place.create("a", schedulerName="kubestow")
    elsewhere = Guarded(guarded, "p3-elsewhere", labelled=False)
    elsewhere.create("a")
    elsewhere.bind("a")

    def rejected() -> bool:
        try:
            place.plane.kubectl(
                "create",
                "--raw",
                f"{place.base}/pods/a/binding?dryRun=All",
                "-f",
                "-",
                stdin=json.dumps(
                    {
                        "apiVersion": "v1",
                        "kind": "Binding",
                        "metadata": {"name": "a"},
                        "target": {"kind": "Node", "name": "n1"},
                    }
                ),
            )
        except KubectlError as error:
            return "only the quota-aware scheduler may bind pods" in str(error)
        return False

    until(rejected, "P3 in force")
    with pytest.raises(KubectlError, match="only the quota-aware scheduler may bind pods"):
        place.bind("a")
    place.bind("a", guarded.service_account_kubeconfig("kubestow-system", "kubestow"))


def test_b47_p4_gated_pods_leave_scheduling_to_us(guarded: ControlPlane) -> None:
    place = Guarded(guarded, "p4")
    message = place.create("theirs", gated=True, code=403)
    assert "must set schedulerName: kubestow (deferred quota)" in message
    place.create("ours", gated=True, schedulerName="kubestow")
    place.create("not-gated")


def test_b47_p5_gated_pods_are_marked(guarded: ControlPlane) -> None:
    place = Guarded(guarded, "p5")

    def marked(name: str, **more: Any) -> bool:
        path = f"{place.base}/pods?dryRun=All"
        code, text = guarded.admin.exchange("POST", path, pod(name, **more).body)
        assert code == 201, text
        notes = json.loads(text)["metadata"].get("annotations") or {}
        return bool(notes.get("kubestow.io/quota-deferred") == "true")

    until(partial(marked, "a", gated=True, schedulerName="kubestow"), "P5 in force")
    assert not marked("b")


def test_p5_marks_pods_that_a_webhook_gates(guarded: ControlPlane) -> None:
    """Kueue gates plain pods in a webhook, which comes after admission policies."""
    place = Guarded(guarded, "p5-webhook")

    def created(name: str, labels: dict[str, str]) -> Any:
        body = pod(name, schedulerName="kubestow").body
        body["metadata"]["labels"] = labels
        code, text = guarded.admin.exchange("POST", f"{place.base}/pods?dryRun=All", body)
        assert code == 201, text
        return json.loads(text)

    def gated(made: Any) -> bool:
        return bool(made["spec"].get("schedulingGates"))

    def marked(made: Any) -> bool:
        notes = made["metadata"].get("annotations") or {}
        return bool(notes.get("kubestow.io/quota-deferred") == "true")

    with gating_webhook(guarded, place.namespace):
        until(lambda: gated(created("a", {QUEUE: "q"})), "the webhook in force")
        until(lambda: marked(created("a", {QUEUE: "q"})), "P5 in force")
        other = created("b", {})
        assert not gated(other)
        assert not marked(other)


def test_b48_a_built_in_compute_key_is_warned_about_and_charges_gated_pods(
    guarded: ControlPlane,
) -> None:
    place = Guarded(guarded, "p6")
    conflict = {"metadata": {"name": "built-in"}, "spec": {"hard": {"requests.cpu": "2"}}}
    path = f"{place.base}/resourcequotas"

    def warned() -> bool:
        return "gated pods" in " ".join(
            guarded.admin.warnings("POST", f"{path}?dryRun=All", conflict)
        )

    until(warned, "P6 in force")
    (warning,) = guarded.admin.warnings("POST", path, conflict)
    assert "use deferred.kubestow.io/... keys" in warning
    refusal = place.create("g", {"cpu": "5"}, gated=True, schedulerName="kubestow", code=403)
    assert refusal == (
        'pods "g" is forbidden: exceeded quota: built-in, requested: requests.cpu=5, '
        "used: requests.cpu=0, limited: requests.cpu=2"
    )
    strict = {
        "metadata": {"name": "strict"},
        "spec": {"hard": {"pods": "5", "requests.storage": "1"}},
    }
    assert guarded.admin.warnings("POST", path, strict) == []


def test_b49_a_plain_quota_charges_gated_pods_as_ever(guarded: ControlPlane) -> None:
    place = Guarded(guarded, "b49", labelled=False)
    place.quota({"requests.cpu": "2"})
    place.create("g", {"cpu": "2"}, gated=True)
    assert place.stored()["used"] == {"requests.cpu": "2"}


def test_b44_published_usage_survives_the_controller(guarded: ControlPlane) -> None:
    place = Guarded(guarded, "b44")
    place.quota({CPU: "2k", "pods": "5"}, {CPU: "700"})
    place.create("a", {"cpu": "100m"})
    before = int(place.object()["metadata"]["resourceVersion"])
    admin = guarded.admin
    admin.request("DELETE", f"{place.base}/pods/a", {"gracePeriodSeconds": 0})
    until(lambda: place.stored()["used"]["pods"] == "0", "the deletion counted")
    assert place.stored()["used"] == {CPU: "700", "pods": "0"}
    quota = f"{place.base}/resourcequotas/deferred"
    admin.request("PATCH", quota, {"spec": {"hard": {CPU: "3k"}}})
    until(lambda: place.stored()["hard"][CPU] == "3k", "the limit copied")
    assert place.stored()["used"] == {CPU: "700", "pods": "0"}
    settled = int(place.object()["metadata"]["resourceVersion"])
    assert settled > before
    # A resync recounts all quotas in one pass: once the canary is corrected, ours was recounted.
    canary = Guarded(guarded, "b44-canary", labelled=False)
    canary.quota({"pods": "5"})
    for wrong in ("3", "4"):
        canary.write({"pods": wrong})
        until(lambda: canary.stored()["used"] == {"pods": "0"}, "a resync")
    assert int(place.object()["metadata"]["resourceVersion"]) == settled, "and wrote nothing"
    admin.request("PATCH", quota, {"spec": {"hard": {CPU: None}}})
    until(lambda: place.stored()["hard"] == {"pods": "5"}, "the key gone")
    assert place.stored()["used"] == {"pods": "0"}


def test_b45_kubectl_shows_used_and_hard_and_integers_are_forced(guarded: ControlPlane) -> None:
    place = Guarded(guarded, "b45")
    place.quota({CPU: "10k", f"{PREFIX}requests.memory": "64Gi"}, {CPU: "1500"})
    described = guarded.kubectl("describe", "quota", "-n", "b45", "deferred")
    rows = {line.split()[0]: line.split()[1:] for line in described.splitlines() if PREFIX in line}
    assert rows == {CPU: ["1500", "10k"], f"{PREFIX}requests.memory": ["0", "64Gi"]}
    for value in ("1500m", "0.5"):
        body = {"metadata": {"name": "bad"}, "spec": {"hard": {CPU: value}}}
        code, text = guarded.admin.exchange("POST", f"{place.base}/resourcequotas", body)
        assert (code, "must be an integer" in text) == (422, True)


def test_b51_an_alias_stands_for_a_name_too_long(guarded: ControlPlane) -> None:
    place = Guarded(guarded, "b51")
    name = f"vendor.example.com/{'n' * 63}"
    path = f"{place.base}/resourcequotas"
    long_key = {
        "metadata": {"name": "bad"},
        "spec": {"hard": {f"{PREFIX}requests.{'n' * 63}": "8"}},
    }
    code, text = guarded.admin.exchange("POST", path, long_key)
    assert (code, "must be no more than 63" in text) == (422, True)
    alias = {"kubestow.io/deferred-keys": json.dumps({"long": f"requests.{name}"})}
    body = {
        "metadata": {"name": "aliased", "labels": MARKS, "annotations": alias},
        "spec": {"hard": {f"{PREFIX}long": "8"}},
    }
    code, text = guarded.admin.exchange("POST", path, body)
    assert code == 201, text
    place.create("a", {name: "9"}, {name: "9"})


def test_b45_the_real_server_accepts_what_the_command_line_writes(guarded: ControlPlane) -> None:
    place = Guarded(guarded, "b45-cli", labelled=False)

    def quota(*arguments: str) -> str:
        where = ["--kubeconfig", str(guarded.kubeconfig), "-n", place.namespace]
        result = CliRunner().invoke(command, [arguments[0], *where, *arguments[1:]])
        assert result.exit_code == 0, result.output
        return result.output

    long_name = f"vendor.example.com/{'n' * 63}"
    quota("set", "--cpu", "1500m", "--memory", "64Gi", "--gpu", f"{long_name}=2", "--guard")
    assert place.labels() == "enforced"
    found = guarded.admin.request("GET", f"{place.base}/resourcequotas/b45-cli-deferred")
    hard = cast("dict[str, Any]", found["spec"])["hard"]
    assert (hard[CPU], hard[f"{PREFIX}requests.memory"], len(hard)) == ("1500", "64Gi", 3)
    quota("set", "--cpu", "2", "--memory", "none")
    shown = json.loads(quota("show", "-o", "json"))
    assert {row["resource"]: row["hard"] for row in shown} == {
        "requests.cpu": "2",
        f"requests.{long_name}": "2",
    }
    place.create("g", {"cpu": "1"}, gated=True, schedulerName="kubestow")
    assert "1 pod would be scheduled unchecked" in quota("drain")
    quota("migrate", "--yes")
    names = guarded.kubectl("get", "quota", "-n", place.namespace, "-o", "name").split()
    assert names == ["resourcequota/b45-cli-compute"]
