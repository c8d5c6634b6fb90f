"""Seeded credentials never appear in anything that people can read, on any error path tested.

None of them may be in a log line at `-v 10`, on a page, in a metric, an Event, a pod's condition,
the output of a command, or a traceback.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import structlog
import yaml

from devtools.control_plane.ports import free_port
from devtools.embedded_service import (
    bound_to,
    configuration,
    event_notes,
    node,
    plugin,
    pod,
    until,
)
from devtools.forked_commands import ForkedCommands
from scheduler.framework import unresolvable
from scheduler.process import logs
from scheduler.process.application import Application
from scheduler.service.options import AccessOptions, LogFormat, RunOptions, ServingOptions
from simulator import EmbeddedCluster
from tests.integration.extenders.extender import ExtenderServer
from tests.integration.service.test_application import NO_ELECTION

CANARY = "canary7canary7canary7"
WEB_TOKEN = f"eyJhbGciOiJSUzI1NiJ9.{CANARY}.{CANARY}"
LABEL = "EC PRIVATE KEY"
GZIP = b"\x1f\x8b"
KEY = f"-----BEGIN {LABEL}-----\n{CANARY}\n-----END {LABEL}-----\n"
ENCODED = base64.b64encode(KEY.encode()).decode()
PAGES = (
    *("/configz", "/metrics", "/metrics/resources", "/metrics/slis", "/version", "/debug"),
    *("/debug/queue", "/debug/statistics", "/debug/cache", "/debug/summary"),
    *("/debug/nodes", "/debug/node?name=n1", "/debug/decisions"),
    *("/debug/explain?pod=default/raises", "/readyz?verbose", "/readyz/shutdown"),
    *("/debug/explain?pod=default/extender", "/debug/explain?pod=default/nope"),
    *("/debug/explain?pod=default/gated", "/debug/explain?pod=default/query"),
    *("/debug/bundle", "/debug/record?seconds=1"),
)

#: Requests by name: each fails in another place, except the last one.
PODS: dict[str, dict[str, str]] = {
    "raises": {},
    "extender": {"example.com/licences": "0"},
    "query": {"example.com/query": "0"},
    "gated": {},
    "gate-fails": {},
    "ok": {},
}


def assert_nothing_shown(text: str) -> None:
    for secret in (CANARY, ENCODED[40:80]):
        where = text.find(secret)
        assert where < 0, text[max(0, where - 200) : where + 100]


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    root = logging.root
    before, level = root.handlers[:], root.level
    yield io.StringIO()
    logging.captureWarnings(capture=False)
    root.handlers[:] = before
    root.setLevel(level)
    structlog.reset_defaults()


def raising(_: Any, pod: Any, *__: Any) -> None:
    if pod.metadata.name == "raises":
        login = {"password": CANARY, "env": [{"name": "API_TOKEN", "value": CANARY}]}
        raise RuntimeError(
            f"cannot ask https://joe:{CANARY}@licences/?api_key={CANARY} with {login}, "
            f"Authorization: Bearer {CANARY}, {WEB_TOKEN}: {KEY}"
        )


def gating(pod: Any, *_: Any) -> Any:
    if pod.metadata.name == "gated":
        return unresolvable(f"asked https://licences/?sig={CANARY}, {WEB_TOKEN}")
    return None


def failing_gate(pod: Any) -> None:
    if pod.metadata.name == "gate-fails":
        raise RuntimeError(f"password: {CANARY}")


def device_class() -> dict[str, Any]:
    """A class whose driver is given a credential under a name that says nothing."""
    opaque = {"driver": "gpu.example.com", "parameters": {"licence": CANARY, "n": [CANARY]}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "gpu"},
        "spec": {"config": [{"opaque": opaque}]},
    }


def claim() -> dict[str, Any]:
    """A claim with the same, in its spec and in its allocation."""
    opaque = {"driver": "gpu.example.com", "parameters": {"licence": CANARY}}
    devices = {
        "requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}],
        "config": [{"opaque": opaque}],
    }
    result = {"request": "r", "driver": "gpu.example.com", "pool": "p", "device": "d"}
    config = [{"source": "FromClass", "opaque": opaque}]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "gpu"},
        "spec": {"devices": devices},
        "status": {"allocation": {"devices": {"results": [result], "config": config}}},
    }


def secretive_pod(name: str, requests: dict[str, str]) -> dict[str, Any]:
    """A pod with the canary in an annotation and in its environment."""
    applied = json.dumps({"spec": {"containers": [{"env": [{"name": "PWD", "value": CANARY}]}]}})
    made = pod(name)
    made["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": applied}
    made["spec"]["containers"][0]["resources"]["requests"].update(requests)
    made["spec"]["containers"][0]["env"] = [{"name": "PASSWORD", "value": CANARY}]
    return made


async def pages_of(port: int) -> str:
    """All pages of the endpoints, read with the canary as token."""
    shown = []
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=False), headers={"Authorization": f"Bearer {CANARY}"}
    ) as session:
        for path in PAGES:
            async with session.get(f"https://127.0.0.1:{port}{path}") as response:
                data = await response.read()
                if data.startswith(GZIP):
                    data = gzip.decompress(data)
                shown.append(f"{path} {response.status}\n{data.decode()}")
    return "\n".join(shown)


@pytest.mark.slow
@pytest.mark.parametrize("log_format", ["json", "text"])
async def test_of_a_running_scheduler(
    cluster: EmbeddedCluster, log: io.StringIO, log_format: LogFormat
) -> None:
    logs.configure(log_format, 10, log)
    # Loggers of modules outlive this test otherwise, with its stream.
    structlog.configure(cache_logger_on_first_use=False)
    cluster.create(node("n1", annotations={"password": CANARY}))
    cluster.create(device_class())
    cluster.create(claim())
    async with ExtenderServer() as extender:
        extender.responses["filter"] = lambda _: {"Error": f"denied: token={CANARY}, {WEB_TOKEN}"}
        url = extender.url.replace("://", f"://joe:{CANARY}@")
        document = {
            "leaderElection": NO_ELECTION,
            "extenders": [
                {
                    "urlPrefix": prefix,
                    "filterVerb": "filter",
                    "managedResources": [{"name": f"example.com/{resource}"}],
                }
                for prefix, resource in ((url, "licences"), (f"{url}?sig={CANARY}&verb=", "query"))
            ],
        }
        fails = plugin("Raises", pre_filter=raising, pre_enqueue=failing_gate)
        loaded, registry = configuration((fails, plugin("Gates", pre_enqueue=gating)), document)
        port = free_port()
        options = RunOptions(
            master=cluster.url,
            serving=ServingOptions(bind_address="127.0.0.1", secure_port=port),
            access=AccessOptions(always_allow_paths=("/*",)),
        )
        application = Application(loaded, registry, options)
        run = asyncio.create_task(application.serve(handle_signals=False))
        for name, requests in PODS.items():
            cluster.create(secretive_pod(name, requests))
        await until(lambda: bound_to(cluster, "ok") == "n1")
        await until(lambda: len(event_notes(cluster, "FailedScheduling")) >= 2, "both failures")
        shown = await pages_of(port)
        application.stop()
        await run
    objects = [
        json.dumps(version.obj)
        for kind in ("events.events.k8s.io", "events")
        for version in cluster.store.items(kind, "default")
    ]
    pods = cluster.store.items("pods", "default")
    conditions = [json.dumps(version.obj.get("status", {})) for version in pods]
    assert_nothing_shown(shown)
    assert_nothing_shown("\n".join(objects + conditions))
    assert_nothing_shown(log.getvalue())
    # The credentials were in use.
    assert "[redacted]" in shown
    assert "[redacted]" in "\n".join(objects)
    assert "[redacted]" in "\n".join(conditions)
    assert "[redacted]" in log.getvalue()


@pytest.fixture(scope="module")
def commands() -> Iterator[ForkedCommands]:
    clients = ("scheduler.cli.config", "scheduler.cli.queue", "scheduler.client.configuration")
    with ForkedCommands(*clients, "scheduler.process.application", "plugins") as running:
        yield running


def shown_by(commands: ForkedCommands, *arguments: str) -> str:
    """Return the whole output of a command, which fails before it reaches a cluster."""
    result = commands.run(*arguments, environment={"HOME": "/nonexistent"})
    assert result.returncode > 0, result.stdout
    assert result.stderr
    return result.stdout + result.stderr


def kubeconfig(user: dict[str, Any], **cluster: Any) -> dict[str, Any]:
    # The discard port of the loopback interface has no listener.
    server = {"server": "https://127.0.0.1:9", **cluster}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        "clusters": [{"name": "x", "cluster": server}],
        "users": [{"name": "x", "user": user}],
    }


def exec_user(script: str) -> dict[str, Any]:
    return {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "sh",
            "args": ["-c", script, "--token", CANARY],
            "env": [{"name": "API_TOKEN", "value": CANARY}],
            "interactiveMode": "Never",
        }
    }


FAILING_PLUGIN = f"echo 'token={CANARY} {WEB_TOKEN}' >&2; echo 'password: {CANARY}'; exit 1"
KUBECONFIGS = {
    "invalid key": kubeconfig({"client-certificate-data": ENCODED, "client-key-data": ENCODED}),
    "key that is not base64": kubeconfig({"client-certificate-data": "%", "client-key-data": KEY}),
    "invalid authority": kubeconfig(
        {"token": WEB_TOKEN}, **{"certificate-authority-data": ENCODED}
    ),
    "exec plugin that fails": kubeconfig(exec_user(FAILING_PLUGIN)),
    "exec plugin without JSON": kubeconfig(exec_user(f"echo 'password: {CANARY}'")),
    "user that is not a mapping": kubeconfig({})
    | {"users": [{"name": "x", "user": [CANARY, KEY]}]},
    "proxy with a password": kubeconfig(
        {"token": CANARY}, **{"proxy-url": f"http://joe:{CANARY}@127.0.0.1:9"}
    ),
    "server with a password": kubeconfig({}, server=f"ftp://joe:{CANARY}@127.0.0.1:9"),
}
BROKEN = {
    "tab": f"users:\n- name: x\n\tuser: {{token: {CANARY}}}\n",
    "quote": f'users:\n- name: x\n  user: {{token: "{CANARY}\n',
    "unhashable": f"users: {{[{CANARY}]: 1}}\n",
    "no entry": f"current-context: y\nusers:\n- token: {CANARY}\n",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "content",
    [*map(yaml.safe_dump, KUBECONFIGS.values()), *BROKEN.values()],
    ids=[*KUBECONFIGS, *BROKEN],
)
def test_of_a_kubeconfig_that_cannot_be_used(
    commands: ForkedCommands, tmp_path: Path, content: str
) -> None:
    path = tmp_path / "config"
    path.write_text(content)
    question = ("queue", "--kubeconfig", str(path), "--server", "https://127.0.0.1:9")
    assert_nothing_shown(shown_by(commands, *question))


EXTENDER = {"urlPrefix": f"https://joe:{CANARY}@x/", "filterVerb": "f"}
CONFIGURATIONS: dict[str, Any] = {
    "key that is not base64": {"extenders": [{**EXTENDER, "tlsConfig": {"keyData": f"{CANARY}%"}}]},
    "invalid key": {
        "extenders": [{**EXTENDER, "tlsConfig": {"keyData": ENCODED, "certData": ENCODED}}]
    },
    "key of another type": {"extenders": [{**EXTENDER, "tlsConfig": {"keyData": [CANARY]}}]},
    "address": {"extenders": [{**EXTENDER, "urlPrefix": f"https://joe:{CANARY}@x:port/"}]},
    "unknown field": {"extenders": [{**EXTENDER, "password": CANARY}]},
    "plugin argument": {
        "profiles": [{"pluginConfig": [{"name": "NodeAffinity", "args": {"password": CANARY}}]}]
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("part", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
@pytest.mark.parametrize("verb", [("config", "validate"), ("run", "-v", "10", "--config")])
def test_of_a_configuration_that_cannot_be_used(
    commands: ForkedCommands, tmp_path: Path, part: dict[str, Any], verb: tuple[str, ...]
) -> None:
    header = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
    }
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(header | part))
    assert_nothing_shown(shown_by(commands, *verb, str(path)))


@pytest.mark.slow
def test_of_a_crash(commands: ForkedCommands, tmp_path: Path) -> None:
    """An exception that no handler expects: of a plugin's module, here."""
    (tmp_path / "broken.py").write_text(f"raise KeyError('token={CANARY} {WEB_TOKEN}')\n")
    path = tmp_path / "config.yaml"
    path.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{plugins: {multiPoint: {enabled: [{name: 'broken:Plugin'}]}}}]\n"
    )
    run = ("run", "--config", str(path), "--plugin-dir", str(tmp_path))
    assert_nothing_shown(shown_by(commands, *run))
    script = (
        "import sys, threading; from scheduler.cli import reporting; reporting.report_crashes()\n"
        f"def fail(): raise ValueError('token={CANARY}')\n"
        "class Fails:\n    def __del__(self): fail()\n"
        "Fails(); thread = threading.Thread(target=fail); thread.start(); thread.join(); fail()"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=600, check=False
    )
    # Each line describes what happened; a traceback would quote the line of the source as well.
    assert result.stderr.count("ValueError: token=[redacted]") == 3
    assert_nothing_shown(result.stderr)
