"""Every page under /debug/ of a running scheduler is valid by the published JSON Schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner

from devtools.embedded_service import bound_to, node, pod, until
from scheduler.api.pod_groups import POD_GROUP_LABEL
from scheduler.cli.main import program
from simulator.demos.gang.objects import POD_GROUPS, group
from simulator.objects import JsonObject
from tests.integration.explain.conftest import Open
from tests.integration.explain.test_commands import waiting
from tests.unit.config.json_schema import Validator

ROOT: Final = Path(__file__).parents[3]
SCHEMA: Final = json.loads((ROOT / "docs" / "debug-pages.schema.json").read_text())
QUERIES: Final = {
    "/debug/explain": (
        "?pod=default/big",
        "?pod=default/fits",
        "?pod=default/big&node=n1",
        "?pod=default/fits&node=n2",
        "?pod=default/member",
    ),
    "/debug/gang": ("?name=default/train",),
    "/debug/node": ("?name=n1",),
}
GANGS: Final = {"multiPoint": {"enabled": [{"name": "GangScheduling"}]}}
POSTED: Final = frozenset({"/debug/whatif"})
"""Pages that answer to POST alone."""
STREAMED: Final = frozenset({"/debug/bundle", "/debug/record"})
"""Not JSON."""


@pytest.mark.slow
async def test_every_page_carries_version_and_kind_and_is_valid(scheduling: Open) -> None:
    async with scheduling(points=GANGS, more_resources=(POD_GROUPS,)) as site:
        for name in ("n1", "n2"):
            site.cluster.create(node(name, cpu="2"))
        site.cluster.create(pod("fits", cpu="1"))
        site.cluster.create(pod("big", cpu="8"))
        await until(lambda: bound_to(site.cluster, "fits"), "bound")
        await waiting(site, "big")
        site.cluster.create(group("train", 2))
        site.cluster.create(member())
        await waiting(site, "member")
        paths = json.loads((await site.get("/debug")).out)["pages"]
        assert {"/debug/queue", "/debug/explain", "/debug/summary", "/debug/nodes"} <= set(paths)
        found = {}
        for path in ["/debug", *paths]:
            if path not in POSTED | STREAMED:
                for query in QUERIES.get(path, ("",)):
                    response = await site.get(path + query)
                    assert response.code == 200, path + query
                    found[path + query] = json.loads(response.out)
    assert {each["apiVersion"] for each in found.values()} == {"debug.kubestow.io/v1"}
    kinds = {path: each["kind"] for path, each in found.items()}
    assert kinds["/debug/queue"] == "QueueList"
    assert kinds["/debug/explain?pod=default/big"] == "PodExplanation"
    assert kinds["/debug/gang?name=default/train"] == "GroupExplanation"
    assert found["/debug/explain?pod=default/member"]["group"]["need"] == 2
    validator = Validator(SCHEMA)
    problems = {path: lines for path, each in found.items() if (lines := validator.problems(each))}
    assert problems == {}


def test_another_version_kind_or_field_is_not_valid() -> None:
    validator = Validator(SCHEMA)
    page = {"apiVersion": "debug.kubestow.io/v1", "kind": "PageList", "pages": ["/debug/queue"]}
    assert validator.problems(page) == []
    wrong = ({"apiVersion": "v2"}, {"kind": "Pod"}, {"pages": [1]})
    assert all(validator.problems(page | each) for each in wrong)
    del page["apiVersion"]
    assert validator.problems(page)


@pytest.mark.slow
async def test_explain_shows_the_group_of_a_member_first_and_a_group_alone(
    scheduling: Open,
) -> None:
    async with scheduling(points=GANGS, more_resources=(POD_GROUPS,)) as site:
        site.cluster.create(node("n1", cpu="2"))
        site.cluster.create(group("train", 2))
        site.cluster.create(member())
        await waiting(site, "member")
        shown = await site.output("explain", "member")
        alone = await site.output("explain", "--group", "train")
        assert TITLE in shown
        assert shown.index(TITLE) < shown.index("default/member  queued")
        assert TITLE in alone
        assert "default/member  queued" not in alone
        body = json.loads((await site.get("/debug/gang?name=default/train")).out)
        output = await site.output("explain", "--group", "default/train", "-o", "json")
        assert '"kind":"GroupExplanation"' in output.replace(" ", "")
        assert body["groups"][0]["view"]["group"] == "default/train"
        missing = await site.query("explain", "--group", "ghost")
        assert missing.code
        assert 'no pod group "default/ghost"' in missing.err


def member() -> JsonObject:
    made = pod("member", cpu="1")
    made["metadata"]["labels"] = {POD_GROUP_LABEL: "train"}
    return made


TITLE: Final = "pod group default/train  WaitingForMembers, CRD, minimum 2"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["a", "--group", "b"], "give either a pod or --group"),
        ([], "give either a pod or --group"),
        (["--group", "a/b/c"], "write NAMESPACE/NAME, or NAME alone"),
        (["--group", "/b"], "write NAMESPACE/NAME, or NAME alone"),
        (["a/b/c"], "write NAMESPACE/POD, or POD alone"),
    ],
)
def test_names_that_are_none(arguments: list[str], problem: str) -> None:
    result = CliRunner().invoke(program, ["explain", *arguments])
    assert result.exit_code
    assert problem in result.stderr
