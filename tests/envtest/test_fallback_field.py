"""A42: a stock API server, real or embedded, responds to `fallbackCriteria` with the same texts.

The embedded server imitates these texts; here kubectl sends the objects to both.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from devtools.control_plane.control_plane import ControlPlane
from simulator import EmbeddedCluster

pytestmark = pytest.mark.envtest

CALLS: dict[str, list[str]] = {
    "strict": ["create"],
    "warn": ["create", "--validate=warn"],
    "ignore": ["create", "--validate=ignore"],
    "server-side": ["apply", "--server-side", "--validate=false"],
}
SPEC = {
    "containers": [{"name": "c", "image": "i"}],
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "z",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "a"}},
            "fallbackCriteria": ["NodeProvisioningFailed"],
        }
    ],
}
TEMPLATE = {"metadata": {"labels": {"app": "a"}}, "spec": SPEC}
SELECTOR = {"matchLabels": {"app": "a"}}
NEVER = {**TEMPLATE, "spec": {**SPEC, "restartPolicy": "Never"}}
OBJECTS: dict[str, dict[str, Any]] = {
    "Pod": {"apiVersion": "v1", "spec": SPEC},
    "Deployment": {"apiVersion": "apps/v1", "spec": {"selector": SELECTOR, "template": TEMPLATE}},
    "StatefulSet": {
        "apiVersion": "apps/v1",
        "spec": {"serviceName": "s", "selector": SELECTOR, "template": TEMPLATE},
    },
    "Job": {"apiVersion": "batch/v1", "spec": {"template": NEVER}},
    "CronJob": {
        "apiVersion": "batch/v1",
        "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": NEVER}}},
    },
}


def submit(kubectl: Path, kubeconfig: Path, file: Path, call: list[str]) -> tuple[int, str, str]:
    done = subprocess.run(
        [str(kubectl), "--kubeconfig", str(kubeconfig), *call, "-f", str(file), "--dry-run=server"],
        capture_output=True, text=True, check=False, timeout=600,
        env={**os.environ, "HOME": str(file.parent)},
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("kind", OBJECTS)
async def test_a42_both_servers_return_the_same(
    control_plane: ControlPlane, tmp_path: Path, kind: str
) -> None:
    file = tmp_path / "object.json"
    file.write_text(json.dumps({"kind": kind, "metadata": {"name": "x"}, **OBJECTS[kind]}))
    kubectl = control_plane.binaries.kubectl
    async with EmbeddedCluster(seed=1) as cluster:
        embedded = cluster.write_kubeconfig(tmp_path / "embedded.yaml")
        outputs = {}
        for name, call in CALLS.items():
            real = await asyncio.to_thread(submit, kubectl, control_plane.kubeconfig, file, call)
            ours = await asyncio.to_thread(submit, kubectl, embedded, file, call)
            assert ours == real, name
            outputs[name] = real
    prefix = {"Pod": "spec", "CronJob": "spec.jobTemplate.spec.template.spec"}.get(
        kind, "spec.template.spec"
    )
    field = f"{prefix}.topologySpreadConstraints[0].fallbackCriteria"
    assert f'strict decoding error: unknown field "{field}"' in outputs["strict"][2]
    assert (outputs["warn"][0], outputs["warn"][2]) == (0, f'Warning: unknown field "{field}"\n')
    assert (outputs["ignore"][0], outputs["ignore"][2]) == (0, "")
    assert "fallbackCriteria: field not declared in schema" in outputs["server-side"][2]
