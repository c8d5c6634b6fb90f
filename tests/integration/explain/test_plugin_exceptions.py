"""`kubestow explain` says that a plugin of the pod's profile raised, and where."""

from __future__ import annotations

import json
from typing import Any

from devtools.embedded_service import node, plugin, pod
from tests.integration.explain.conftest import Open
from tests.integration.explain.test_commands import waiting


async def test_a_pending_pod_lists_what_plugins_raised(scheduling: Open) -> None:
    def broken(_state: Any, _pod: Any, _node: Any) -> None:
        raise ZeroDivisionError("a text that may name anything")

    async with scheduling(plugin("Broken", filter=broken)) as site:
        site.cluster.create(node("n1", cpu="2"))
        site.cluster.create(pod("p"))
        await waiting(site, "p")
        page = json.loads((await site.get("/debug/explain?pod=default/p")).out)["pod"]
    lines = page["nodes"]["explanations"]["Broken"]
    assert len(lines) == 1
    assert lines[0].startswith("raised ")
    assert f"in Filter since the start, first ZeroDivisionError at {__file__}:" in lines[0]
    assert "may name anything" not in lines[0]
