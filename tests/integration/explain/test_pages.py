"""Every page under /debug/ of a running scheduler is valid by the published JSON Schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from testing.embedded_service import bound_to, node, pod, until
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
    ),
    "/debug/node": ("?name=n1",),
}
POSTED: Final = frozenset({"/debug/whatif"})
"""Pages that answer to POST alone."""
STREAMED: Final = frozenset({"/debug/bundle", "/debug/record"})
"""Not JSON."""


async def test_every_page_carries_version_and_kind_and_is_valid(scheduling: Open) -> None:
    async with scheduling() as site:
        for name in ("n1", "n2"):
            site.cluster.create(node(name, cpu="2"))
        site.cluster.create(pod("fits", cpu="1"))
        site.cluster.create(pod("big", cpu="8"))
        await until(lambda: bound_to(site.cluster, "fits"), "bound")
        await waiting(site, "big")
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
