"""`kubestow quota` against the embedded server, over HTTP as against any cluster."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from click.testing import CliRunner, Result

from devtools.markdown import blocks
from scheduler.cli.quota import command
from tests.integration.deferred_quota.server import GATES, QUOTAS, Server
from tests.integration.simulator.client import PODS, until
from tests.unit.repository.tree import ROOT

PREFIX: Final = "deferred.kubestow.io/"
CPU: Final = f"{PREFIX}requests.cpu-millis"
Run = Callable[..., Awaitable[Result]]


@pytest.fixture
def run(stock: Server, tmp_path: Path) -> Run:
    """Runs `kubestow quota ...` in a thread, as it has an event loop of its own."""
    kubeconfig = stock.cluster.write_kubeconfig(tmp_path / "kubeconfig")

    async def run(*arguments: str, code: int = 0, typed: str = "") -> Result:
        line = [arguments[0], "--kubeconfig", str(kubeconfig), *arguments[1:]]
        result = await asyncio.to_thread(CliRunner().invoke, command, line, input=typed)
        assert result.exit_code == code, result.output
        return result

    return run


def _quota(server: Server, name: str = "default-deferred") -> dict[str, Any]:
    return server.cluster.get("v1", "ResourceQuota", name)


async def _publish(server: Server, used: dict[str, str]) -> None:
    """Do the work of the usage writer."""
    await until(lambda: (_quota(server).get("status") or {}).get("hard"))
    path = f"{QUOTAS}/default-deferred/status"
    code, _ = await server.client.patch(path, {"status": {"used": used}}, "merge-patch+json")
    assert code == 200


async def _hold(server: Server, name: str, message: str, reason: str) -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    body = {"status": {"conditions": [condition]}}
    code, answer = await server.client.patch(f"{PODS}/{name}/status", body)
    assert code == 200, answer


async def test_set_creates_then_changes_and_keeps_the_rest(stock: Server, run: Run) -> None:
    made = await run("set", "--cpu", "10", "--memory", "64Gi", "--gpu", "nvidia.com/gpu=8")
    assert "resourcequota/default-deferred created in default" in made.output
    assert "  requests.cpu = 10\n" in made.output
    quota = _quota(stock)
    assert quota["metadata"]["labels"] == {"kubestow.io/deferred-quota": "true"}
    assert quota["spec"]["hard"] == {
        CPU: "10k",
        f"{PREFIX}requests.memory": "64Gi",
        f"{PREFIX}requests.nvidia.com_gpu": "8",
    }
    changed = await run("set", "--cpu", "1500m", "--gpu", "nvidia.com/gpu=none")
    assert "changed in default" in changed.output
    assert _quota(stock)["spec"]["hard"] == {CPU: "1500", f"{PREFIX}requests.memory": "64Gi"}


async def test_the_documented_commands_limit_a_namespace(stock: Server, run: Run) -> None:
    document = ROOT / "docs" / "deferred-quota.md"
    block = next(each for each in blocks(document, ROOT) if "kubestow quota set" in each.text)
    lines = [shlex.split(line, comments=True) for line in block.text.splitlines()]
    # kubectl puts the policies in force, which this server has none of.
    lines = [line for line in lines if line[0] == "kubestow"]
    stock.cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}})
    assert [line[:3] for line in lines] == [["kubestow", "quota", each] for each in ("set", "show")]
    printed = [(await run(*line[2:])).output for line in lines]
    assert "resourcequota/team-a-deferred created in team-a" in printed[0]
    rows = [row.split() for row in printed[1].splitlines()]
    assert {(row[0], row[2], row[4]) for row in rows[1:]} == {
        ("team-a", "requests.cpu", "10"),
        ("team-a", "requests.memory", "64Gi"),
        ("team-a", "requests.nvidia.com/gpu", "8"),
    }


async def test_set_labels_the_namespace_on_request(stock: Server, run: Run) -> None:
    await run("set", "--limits-cpu", "2", "--guard", "--scope", "NotTerminating")
    labels = stock.cluster.get("v1", "Namespace", "default")["metadata"]["labels"]
    assert labels["kubestow.io/deferred-quota"] == "enforced"
    assert _quota(stock)["spec"] == {
        "hard": {f"{PREFIX}limits.cpu-millis": "2k"},
        "scopes": ["NotTerminating"],
    }
    refused = await run("set", "--cpu", "1", "--scope", "Terminating", code=2)
    assert "cannot be changed" in refused.output


async def test_b51_set_gives_a_long_name_an_alias(stock: Server, run: Run) -> None:
    name = f"vendor.example.com/{'n' * 63}"
    await run("set", "--gpu", f"{name}=4")
    quota = _quota(stock)
    ((alias, meant),) = json.loads(
        quota["metadata"]["annotations"]["kubestow.io/deferred-keys"]
    ).items()
    assert meant == f"requests.{name}"
    assert quota["spec"]["hard"] == {f"{PREFIX}{alias}": "4"}
    shown = await run("show", "-o", "json")
    (row,) = json.loads(shown.stdout)
    assert (row["resource"], row["hard"]) == (f"requests.{name}", "4")


async def test_a_dry_run_prints_a_manifest_and_sends_no_request() -> None:
    line = ["set", "-n", "team-a", "--cpu", "1.5", "--dry-run", "-o", "yaml"]
    result = CliRunner().invoke(command, line, env={"KUBECONFIG": "/nowhere"})
    assert yaml.safe_load(result.output) == {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {
            "name": "team-a-deferred",
            "namespace": "team-a",
            "labels": {"kubestow.io/deferred-quota": "true"},
        },
        "spec": {"hard": {CPU: "1500"}},
    }


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("--gpu", "nvidia.com/gpu=1500m"), "write a whole number, such as 2"),
        (("--memory", "1500m"), "write a whole number, such as 2 or 64Gi"),
        (("--cpu", "10u"), "whole thousandths of a core, such as 1500m"),
        (("--cpu", "many"), "invalid quantity 'many'"),
        (("--cpu", "-1"), "requests.cpu: -1 is below 0"),
        (("--gpu", "nvidia.com/gpu"), "write NAME=AMOUNT"),
        (("--gpu", "storage=1Gi"), "requests.storage"),
        ((), "give at least one limit"),
    ],
)
def test_b45_what_cannot_be_stored_is_refused_with_a_hint(
    arguments: tuple[str, ...], hint: str
) -> None:
    result = CliRunner().invoke(command, ["set", "--dry-run", *arguments])
    assert result.exit_code == 2
    assert hint in " ".join(result.output.split())


async def test_show_prints_used_hard_free_and_held(stock: Server, run: Run) -> None:
    assert "no quota with deferred keys in namespace default" in (await run("show")).output
    await run("set", "--cpu", "10", "--memory", "64Gi")
    await _publish(stock, {CPU: "9500"})
    for name in ("a", "b", "c"):
        await stock.pod(name, "1")
    message = (
        "quota exceeded: default-deferred, requested: requests.cpu=1, used: requests.cpu=9500m, "
        "limited: requests.cpu=10"
    )
    await _hold(stock, "a", message, "ResourceQuotaValidated")
    await _hold(stock, "b", message, "ResourceQuotaExceeded")
    await _hold(stock, "c", message, "Unschedulable")
    shown = json.loads((await run("show", "-A", "-o", "json")).stdout)
    assert [(row["used"], row["hard"], row["free"], row["held"]) for row in shown] == [
        ("9500m", "10", "500m", 2),
        (None, "64Gi", None, 0),
    ]
    table = (await run("show")).output.splitlines()
    assert table[0].split() == ["NAMESPACE", "QUOTA", "RESOURCE", "USED", "HARD", "FREE", "HELD"]
    assert table[1].split()[2:] == ["requests.cpu", "9500m", "10", "500m", "2"]
    assert table[2].split()[2:] == ["requests.memory", "?", "64Gi", "?", "0"]


async def test_show_warns_about_keys_that_cannot_be_read(stock: Server, run: Run) -> None:
    await stock.quota("q", {f"{PREFIX}requests.cpu": "2", CPU: "1k"})
    shown = await run("show")
    assert f"warning: default/q: {PREFIX}requests.cpu" in shown.stderr
    assert "requests.cpu" in shown.stdout, "the other key counts"


async def test_b56_drain_lists_what_would_be_scheduled_unchecked(stock: Server, run: Run) -> None:
    await run("set", "--cpu", "1")
    await stock.pod("gated", "2", GATES)
    for name in ("held", "waiting", "ungated"):
        await stock.pod(name, "2", GATES)
        await stock.set_gates(name)
    await _hold(stock, "held", "quota exceeded: x", "ResourceQuotaValidated")
    await _hold(stock, "waiting", "no node", "Unschedulable")
    mark = {"metadata": {"annotations": {"kubestow.io/quota-deferred": "true"}}}
    await stock.client.patch(f"{PODS}/waiting", mark)
    await stock.pod("ordinary", "1")
    await stock.pod("bound", "1", GATES)
    await stock.set_gates("bound")
    await stock.bind("bound")
    found = json.loads((await run("drain", "-o", "json")).stdout)
    assert {each["pod"]: each["state"] for each in found} == {
        "gated": "gated",
        "held": "held",
        "ungated": "waiting",
        "waiting": "waiting",
    }
    assert found[0]["requests"] == {"requests.cpu": "2"}
    assert found[0]["gates"] == list(GATES)
    assert "4 pods would be scheduled unchecked" in (await run("drain")).output


async def test_migrate_converts_in_both_directions(stock: Server, run: Run) -> None:
    await run("set", "--cpu", "10", "--memory", "64Gi", "--gpu", "nvidia.com/gpu=8")
    await stock.client.patch(
        f"{QUOTAS}/default-deferred", {"spec": {"hard": {"pods": "5"}}}, "merge-patch+json"
    )
    before = _quota(stock)["spec"]
    planned = await run("migrate", "--dry-run")
    assert "kubestow quota migrate -n default --back" in planned.stderr
    assert _quota(stock)["spec"] == before, "a dry run writes nothing"
    await run("migrate", code=1, typed="n\n")
    assert _quota(stock)["spec"] == before, "neither does a no"
    await run("migrate", "--yes")
    assert _quota(stock, "default-compute")["spec"]["hard"] == {
        "pods": "5",
        "requests.cpu": "10",
        "requests.memory": "64Gi",
        "requests.nvidia.com/gpu": "8",
    }
    names = [one.name for one in stock.cluster.store.items("resourcequotas")]
    assert names == ["default-compute"]
    await run("migrate", "--back", "--yes")
    assert _quota(stock)["spec"] == before
    assert _quota(stock)["metadata"]["labels"] == {"kubestow.io/deferred-quota": "true"}


@pytest.mark.parametrize(
    ("hard", "wanted"),
    [
        ({"cpu": "4", "requests.cpu": "8"}, {"requests.cpu-millis": "4k"}),
        ({"requests.memory": "1Gi", "memory": "1500M"}, {"requests.memory": "1Gi"}),
        (
            {"requests.cpu": "12", f"{PREFIX}requests.cpu-millis": "4k"},
            {"requests.cpu-millis": "4k"},
        ),
    ],
)
async def test_migrate_back_keeps_the_smaller_of_two_limits_of_one_thing(
    stock: Server, run: Run, hard: dict[str, str], wanted: dict[str, str]
) -> None:
    await stock.quota("default-compute", hard)
    await run("migrate", "--back", "--yes")
    assert _quota(stock)["spec"]["hard"] == {PREFIX + key: text for key, text in wanted.items()}


async def test_migrate_keeps_the_smaller_of_two_limits_of_one_thing(
    stock: Server, run: Run
) -> None:
    hard = {f"{PREFIX}requests.cpu-millis": "4k", "requests.cpu": "2"}
    await stock.quota("default-deferred", hard)
    await run("migrate", "--yes")
    assert _quota(stock, "default-compute")["spec"]["hard"] == {"requests.cpu": "2"}


async def test_migrate_refuses_keys_without_a_built_in_name(stock: Server, run: Run) -> None:
    assert "there is no resourcequota" in (await run("migrate", code=1)).output
    await stock.quota("default-deferred", {f"{PREFIX}limits.nvidia.com_gpu": "8"})
    assert "no built-in quota can limit" in (await run("migrate", "--yes", code=1)).output


async def test_errors_of_the_server_are_printed_unchanged(stock: Server, run: Run) -> None:
    refused = await run("set", "-n", "nowhere", "--cpu", "1", code=1)
    assert 'namespaces "nowhere" not found' in refused.output
