"""`kubestow explain` of a pod with criteria."""

from __future__ import annotations

import io

from rich.console import Console

from devtools.embedded_service import until
from scheduler.cli.explanation import show
from scheduler.explain.examining.explainer import Explainer
from scheduler.explain.records import ExplainPage
from scheduler.explain.records.story import tell
from simulator import EmbeddedCluster
from tests.integration.fallback.stage import NPF, PF, ZONE, Stage, constraint, staged


def shown(stage: Stage) -> str:
    wiring = stage.wiring
    pods = wiring.state.listers["pods"]
    explainer = Explainer(
        wiring.scheduling.engine,
        wiring.scheduling.queue,
        lambda space, name: pods.get(name, space),
        clock=wiring.connections.clock,
        bindings={},
    )
    console = Console(file=io.StringIO(), width=200)
    pod = explainer.explain("default", "p")
    show(ExplainPage(leading=True, pod=pod, story=tell(pod)), console, verbose=True)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


async def test_every_criterion_with_its_evidence(cluster: EmbeddedCluster) -> None:
    async with staged(cluster, nodeProvisioningTimeout="5m") as stage:
        await stage.rejected_once(f"{ZONE}={NPF}+{PF}", [constraint()])
        stage.clock.ahead += 60
        text = shown(stage)
        assert "PodTopologySpread" in text
        assert f"zone: hard: {NPF} false (no condition NodeProvisioningInProgress, 2" in text
        assert "s of 300s left)" in text
        assert f"{PF} true (preemption found no candidate)" in text
        assert "None of 2 nodes fits" in text
        stage.wiring.scheduling.loop.pause(True)
        stage.provisioning("p", "False", reason="ScaleUpBackoff")
        await until(lambda: len(stage.newest("p").status.conditions) == 3)
        text = shown(stage)
        assert f"zone: soft: {NPF} true (NodeProvisioningInProgress=False (ScaleUpBackoff))" in text
        assert "fits on 1 of 2 nodes" in text


async def test_strict_first_is_explained_as_it_is_done(cluster: EmbeddedCluster) -> None:
    async with staged(cluster, fallbackStrategy="StrictFirst") as stage:
        await stage.rejected_once(f"{ZONE}={NPF}")
        assert "None of 2 nodes fits" in shown(stage)
        stage.wiring.scheduling.loop.pause(True)
        stage.provisioning("p", "False")
        await until(lambda: len(stage.newest("p").status.conditions) == 3)
        assert "fits on 1 of 2 nodes" in shown(stage)
