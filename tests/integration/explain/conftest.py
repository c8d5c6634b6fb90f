"""The real application on an embedded cluster, and commands that query it over HTTPS."""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import structlog
import yaml
from click.testing import CliRunner

from config import FeatureGates
from devtools.control_plane.ports import free_port
from devtools.embedded_service import PATIENCE_SECONDS, configuration, until
from scheduler.cli.direct import Access, request
from scheduler.cli.main import program
from scheduler.explain.pages import what_if as pages
from scheduler.process.application import Application
from scheduler.service.options import RunOptions, ServingOptions
from simulator import EmbeddedCluster
from simulator.objects import JsonObject
from simulator.resources import Resource
from simulator.subresources import Reviewer
from tests.integration.explain.leader_cluster import CommandResult, ask, cluster

__all__ = ["CommandResult", "ask", "cluster"]

READER, STRANGER = "reader-token", "stranger-token"
TENANT, NODE_TENANT = "tenant-token", "node-tenant-token"
"""May get the pods of one namespace; the second may list nodes as well."""
TENANTS_NAMESPACE = "team-a"


def _user(token: str) -> JsonObject | None:
    users = {
        READER: "reader",
        STRANGER: "stranger",
        TENANT: "tenant",
        NODE_TENANT: "node-tenant",
    }
    return {"username": users[token]} if token in users else None


def _may(spec: JsonObject) -> bool:
    if "resourceAttributes" in spec:
        # The scheduler asks for its own permissions; missing ones would be logged between answers.
        return "user" not in spec or _may_read(spec["user"], spec["resourceAttributes"])
    attributes = spec.get("nonResourceAttributes", {})
    return (
        spec.get("user") == "reader"
        and attributes.get("verb") in ("get", "post")
        and str(attributes.get("path")).startswith("/debug")
    )


def _may_read(user: str, access: JsonObject) -> bool:
    what = (access["verb"], access["resource"], access["namespace"])
    pods = user in ("tenant", "node-tenant") and what == ("get", "pods", TENANTS_NAMESPACE)
    return pods or (user == "node-tenant" and what == ("list", "nodes", ""))


@dataclass
class Site:
    """A running scheduler, with its address and files."""

    cluster: EmbeddedCluster
    port: int
    folder: Path
    application: Application = field(init=False)

    @property
    def server(self) -> str:
        return f"https://localhost:{self.port}"

    @property
    def ca_file(self) -> str:
        """Path of the scheduler's self-signed certificate."""
        return str(self.folder / "kube-scheduler.crt")

    def kubeconfig(self, token: str = READER, **cluster: Any) -> str:
        """Write a kubeconfig whose user has this token; return its path."""
        path = self.cluster.write_kubeconfig(self.folder / f"{token}.yaml")
        config = yaml.safe_load(path.read_text())
        config["users"][0]["user"] = {"token": token} if token else {}
        config["clusters"][0]["cluster"].update(cluster)
        path.write_text(yaml.safe_dump(config))
        return str(path)

    async def run(self, *arguments: str) -> CommandResult:
        """Run a command line exactly as given."""
        # The command has an event loop of its own; the scheduler runs on the test's.
        result = await asyncio.to_thread(CliRunner().invoke, program, arguments)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return CommandResult(result.exit_code, result.stdout, result.stderr)

    async def query(self, *arguments: str, token: str = READER) -> CommandResult:
        """Run a command as the user of `token`, with the server's certificate as authority."""
        trust = ("--server", self.server, "--ca-file", self.ca_file)
        return await self.run(*arguments, *trust, "--token", token)

    async def get(self, path: str) -> CommandResult:
        """GET a page as the user `reader`; `code` is the HTTP status."""
        access = Access(
            ssl.create_default_context(cafile=self.ca_file), f"Bearer {READER}", "", "localhost"
        )
        status, body = await asyncio.to_thread(request, access, self.server, path)
        return CommandResult(status, body.decode(), "")

    async def output(self, *arguments: str) -> str:
        """Run a command that must succeed; return its output."""
        result = await self.query(*arguments)
        assert (result.code, result.err) == (0, "")
        return result.out


Open = Callable[..., AbstractAsyncContextManager[Site]]


@pytest.fixture
def log() -> Iterator[None]:
    """Keep what the scheduler logs out of the output of commands, which run in its process.

    They print to whatever `sys.stdout` and `sys.stderr` are just then, and so does its log.
    """
    before = structlog.get_config() if structlog.is_configured() else None
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    yield
    structlog.reset_defaults()
    if before is not None:
        structlog.configure(**before)


@pytest.fixture
def scheduling(log: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Open:
    """Return a function that starts a scheduler; keywords are settings of its configuration.

    `before` prepares the cluster, which serves `more_resources` as well; `gates` is the value of
    `--feature-gates`.
    """
    # A search for remedies takes as long as the machine wants, and then it is complete.
    monkeypatch.setattr(pages, "BUDGETS", dict.fromkeys(pages.BUDGETS, pages.MAX_BUDGET))
    # Otherwise a command could reach the cluster of the developer's own kubeconfig.
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)

    @asynccontextmanager
    async def run(
        *plugins: type[Any],
        before: Callable[[EmbeddedCluster], None] | None = None,
        gates: str = "",
        more_resources: tuple[Resource, ...] = (),
        **document: Any,
    ) -> AsyncIterator[Site]:
        reviewer = Reviewer(_user, _may)
        async with EmbeddedCluster(
            controllers=(), reviewer=reviewer, seed=1, more_resources=more_resources
        ) as cluster:
            if before is not None:
                before(cluster)
            site = Site(cluster, free_port(), tmp_path)
            settings = {"leaderElection": {"leaderElect": False}, **document}
            loaded, registry = configuration(plugins, settings)
            loaded = replace(loaded, feature_gates=FeatureGates.parse([gates] if gates else []))
            options = RunOptions(
                master=cluster.url,
                serving=ServingOptions(
                    bind_address="127.0.0.1", secure_port=site.port, cert_dir=str(tmp_path)
                ),
            )
            site.application = application = Application(loaded, registry, options)
            async with asyncio.TaskGroup() as group:
                task = group.create_task(application.serve(handle_signals=False))
                try:
                    await _until_serving(site)
                    yield site
                finally:
                    application.stop()
                assert await task == 0

    return run


async def _until_serving(site: Site) -> None:
    await until(lambda: Path(site.ca_file).exists(), "a certificate")
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (await site.query("queue")).code:
            pass
