"""The live table on a terminal."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from devtools.embedded_service import node
from simulator import EmbeddedCluster
from tests.integration.explain.pseudo_terminal import ALTERNATE, NORMAL, PseudoTerminal
from tests.integration.shadow.stage import pod


@pytest.mark.slow
async def test_it_is_live_and_ends_with_the_answer(
    cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    cluster.create(node("n1"))
    cluster.create(pod("waits", cpu="9"))
    kubeconfig = cluster.write_kubeconfig(tmp_path / "kubeconfig")
    with PseudoTerminal("shadow", f"--kubeconfig={kubeconfig}", columns=100) as terminal:
        shown = "default/waits: 0/1 nodes are available"
        await asyncio.to_thread(
            terminal.wait_for, lambda frame: any(shown in line for line in frame)
        )
        terminal.press("\x03")
        code = await asyncio.to_thread(terminal.ended)
        assert terminal.restored()
    assert code == 0
    assert ALTERNATE in terminal.printed
    last = terminal.printed.rpartition(NORMAL)[2]
    assert "0 decisions of default-scheduler in " in last
