"""The documented way from an empty cluster to a bound pod, command by command.

The commands are those of a document, with the name of a registry filled in. There is no kubelet:
the container's command of the applied Deployment runs as a process of this machine.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from devtools.control_plane.control_plane import ControlPlane, ManagedProcess
from devtools.control_plane.ports import LOOPBACK, free_port
from devtools.markdown import blocks

ROOT: Final = Path(__file__).resolve().parents[2]
NAMESPACE: Final = "kubestow-system"
NAME: Final = "kubestow"


def documented(document: Path, *, first: str, count: int = 3) -> list[str]:
    """Return the `count` commands of the block of `document` that begins with `first`.

    Raises:
        AssertionError: there is no such block, or it has another number of commands.
    """
    shell = [each.text for each in blocks(document, ROOT) if each.language == "sh"]
    found = [text.splitlines() for text in shell if text.startswith(first)]
    assert found, f"no block in {document} begins with {first}"
    assert len(found[0]) == count, found[0]
    return [line.replace("REGISTRY", "registry.example") for line in found[0]]


def execute(server: ControlPlane, command: str, *tools: Path) -> str:
    """Run a command line as the administrator, in the clone; `tools` are folders for its PATH.

    Raises:
        AssertionError: it ended with an error status.
    """
    path = [*map(str, tools), str(server.binaries.kubectl.parent), os.environ["PATH"]]
    home = server.files.directory
    done = subprocess.run(
        shlex.split(command),
        cwd=ROOT,
        env={
            "PATH": os.pathsep.join(path),
            "HOME": str(home),
            "KUBECONFIG": str(server.kubeconfig),
        },
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


@contextmanager
def replica(server: ControlPlane, directory: Path) -> Iterator[ManagedProcess]:
    """Run the container of the applied Deployment, and wait until its readiness probe passes.

    Mounted ConfigMaps are folders below `directory`, and what a kubelet would give as the
    account's token is a kubeconfig. The port is a free one.
    """
    pod = _stored(server, "deployment", NAME)["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    line = [*container["command"], *container["args"]]
    for mount in container["volumeMounts"]:
        (volume,) = [each for each in pod["volumes"] if each["name"] == mount["name"]]
        if "configMap" in volume:
            folder = _mount(server, volume["configMap"]["name"], directory)
            line = [each.replace(mount["mountPath"], str(folder)) for each in line]
    account = server.service_account_kubeconfig(NAMESPACE, pod["serviceAccountName"])
    port = free_port()
    line += [f"--secure-port={port}", f"--bind-address={LOOPBACK}"]
    assert line[0] == "kubestow"
    line[0] = str(Path(sys.executable).with_name("kubestow"))
    environment = {"KUBECONFIG": str(account)}
    process = server.start_process("replica", line, port=port, environment=environment)
    try:
        yield process
    finally:
        process.stop()


def _mount(server: ControlPlane, name: str, directory: Path) -> Path:
    """Write the entries of a ConfigMap as files of a folder; return the folder."""
    folder = directory / name
    folder.mkdir()
    for key, text in _stored(server, "configmap", name)["data"].items():
        (folder / key).write_text(text)
    return folder


def _stored(server: ControlPlane, kind: str, name: str) -> Any:
    return json.loads(server.kubectl("-n", NAMESPACE, "get", kind, name, "-o", "json"))


def bind_hello(
    server: ControlPlane, directory: Path, commands: Sequence[str], *tools: Path
) -> None:
    """Run the three commands on a cluster with one node; the last waits for the pod's node.

    Raises:
        AssertionError: a command failed, or the pod is not on the node.
    """
    size = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    node = {"metadata": {"name": "n1"}, "status": {"capacity": size, "allocatable": size}}
    server.admin.request("POST", "/api/v1/nodes", node)
    install, create, wait = commands
    execute(server, install, *tools)
    with replica(server, directory):
        execute(server, create)
        execute(server, wait)
    pod: Any = server.admin.request("GET", "/api/v1/namespaces/default/pods/hello")
    assert pod["spec"]["nodeName"] == "n1"
