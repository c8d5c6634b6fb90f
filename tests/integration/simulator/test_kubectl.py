"""A real kubectl against the embedded server."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from pathlib import Path

import pytest

from simulator import EmbeddedCluster
from tests.unit.simulator.objects import node

_BUILT = Path(__file__).parents[3] / ".envtest" / "bin" / "kubectl"
_KUBECTL = str(_BUILT) if _BUILT.exists() else shutil.which("kubectl")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        _KUBECTL is None,
        reason="no kubectl: neither `make envtest-build` has run nor is one on PATH",
    ),
]

_MANIFEST = """
apiVersion: v1
kind: Pod
metadata: {name: gated, labels: {app: gated}}
spec:
  schedulingGates: [{name: example.com/wait}]
  containers: [{name: c, image: "nginx:1", resources: {requests: {cpu: 100m}}}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: "nginx:1"}]}
"""


class _Kubectl:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def __call__(self, *args: str, code: int = 0) -> str:
        assert _KUBECTL is not None
        process = await asyncio.create_subprocess_exec(
            _KUBECTL,
            *args,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self._folder),
                "KUBECONFIG": str(self._folder / "kubeconfig"),
            },
            cwd=self._folder,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        async with asyncio.timeout(300):
            output, _ = await process.communicate()
        text = output.decode()
        assert process.returncode == code, text
        return text


@pytest.mark.slow
async def test_kubectl_gets_describes_applies_patches_and_deletes(tmp_path: Path) -> None:
    manifest = tmp_path / "objects.yaml"
    manifest.write_text(_MANIFEST, encoding="utf-8")
    async with EmbeddedCluster() as cluster:
        cluster.create(node("n1"))
        cluster.write_kubeconfig(tmp_path / "kubeconfig")
        kubectl = _Kubectl(tmp_path)

        applied = await kubectl("apply", "-f", "objects.yaml")
        assert applied.splitlines() == ["pod/gated created", "deployment.apps/web created"]
        assert "unchanged" in await kubectl("apply", "-f", "objects.yaml")

        listed = await kubectl("get", "pods", "-o", "wide")
        assert "SchedulingGated" in listed
        assert listed.count("web-") == 2
        assert "NOMINATED NODE" in listed

        described = await kubectl("describe", "pod", "gated")
        assert "Burstable" in described
        assert "cpu:" in described

        removal = '[{"op":"remove","path":"/spec/schedulingGates/0"}]'
        await kubectl("patch", "pod", "gated", "--type=json", "-p", removal)
        assert "schedulingGates" not in cluster.get("v1", "Pod", "gated")["spec"]
        refused = await kubectl("apply", "-f", "objects.yaml", code=1)
        assert "only deletion is allowed, but found new scheduling gate" in refused

        labels = '{"metadata":{"labels":{"extra":"1"}}}'
        await kubectl("patch", "pod", "gated", "-p", labels)
        await kubectl("annotate", "pod", "gated", "k=v")
        found = json.loads(await kubectl("get", "pod", "-l", "extra=1", "-o", "json"))
        assert found["items"][0]["metadata"]["annotations"]["k"] == "v"

        manifest.write_text(_MANIFEST.partition("---")[2].replace("nginx:1", "nginx:2"), "utf-8")
        assert "configured" in await kubectl("apply", "-f", "objects.yaml")
        assert "serverside-applied" in await kubectl("apply", "--server-side", "-f", "objects.yaml")
        template = cluster.get("apps/v1", "Deployment", "web")["spec"]["template"]
        assert template["spec"]["containers"][0]["image"] == "nginx:2"

        await kubectl("cordon", "n1")
        assert "SchedulingDisabled" in await kubectl("get", "nodes")
        await kubectl("delete", "pod", "gated")
        await kubectl("delete", "-f", "objects.yaml")
        assert "No resources found" in await kubectl("get", "pods")


async def test_kubectl_validates_fields_on_the_server(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(_MANIFEST.partition("---")[0] + "  flavour: sweet\n", encoding="utf-8")
    async with EmbeddedCluster() as cluster:
        cluster.write_kubeconfig(tmp_path / "kubeconfig")
        refused = await _Kubectl(tmp_path)("create", "-f", "wrong.yaml", code=1)
        assert 'strict decoding error: unknown field "spec.flavour"' in refused
        warned = await _Kubectl(tmp_path)("create", "--validate=warn", "-f", "wrong.yaml")
        assert 'unknown field "spec.flavour"' in warned
        assert "flavour" not in cluster.get("v1", "Pod", "gated")["spec"]


async def test_kubectl_applies_a_definition_and_what_it_defines(tmp_path: Path) -> None:
    gang = Path(__file__).parents[3] / "examples" / "gang"
    async with EmbeddedCluster() as cluster:
        cluster.write_kubeconfig(tmp_path / "kubeconfig")
        kubectl = _Kubectl(tmp_path)
        crd = "crd/podgroups.scheduling.x-k8s.io"
        await kubectl("apply", "-f", str(gang / "crd.yaml"))
        assert "condition met" in await kubectl("wait", "--for=condition=established", crd)
        assert "podgroup.scheduling.x-k8s.io/train created" in await kubectl(
            "apply", "-f", str(gang / "job.yaml")
        )
        listed = await kubectl("get", "pg")
        assert listed.split()[:3] == ["NAME", "PHASE", "MINMEMBER"]
        assert "train" in listed


async def test_kubectl_creates_without_files(tmp_path: Path) -> None:
    async with EmbeddedCluster(controllers=()) as cluster:
        cluster.write_kubeconfig(tmp_path / "kubeconfig")
        kubectl = _Kubectl(tmp_path)
        create = ("create", "deployment", "web", "--image=nginx", "--replicas=0", "--port=80")
        assert await kubectl(*create, "--", "sleep", "5") == "deployment.apps/web created\n"
        spec = cluster.get("apps/v1", "Deployment", "web")["spec"]
        assert (spec["replicas"], spec["selector"]) == (0, {"matchLabels": {"app": "web"}})
        container = spec["template"]["spec"]["containers"][0]
        assert (container["image"], container["command"]) == ("nginx", ["sleep", "5"])
        assert container["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
        await kubectl("create", "quota", "q", "--hard=cpu=1,pods=2")
        assert cluster.get("v1", "ResourceQuota", "q")["spec"]["hard"] == {"cpu": "1", "pods": "2"}
        await kubectl("create", "pdb", "p", "--selector=a=b", "--min-available=50%")
        budget = cluster.get("policy/v1", "PodDisruptionBudget", "p")["spec"]
        assert budget["minAvailable"] == "50%"
        await kubectl("create", "priorityclass", "low", "--value=-5")
        assert cluster.get("scheduling.k8s.io/v1", "PriorityClass", "low")["value"] == -5
        await kubectl("create", "secret", "generic", "s", "--from-literal=a=b")
        assert cluster.get("v1", "Secret", "s")["data"] == {"a": "Yg=="}
