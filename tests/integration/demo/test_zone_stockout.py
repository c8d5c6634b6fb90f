"""`kubestow demo zone-stockout`: the whole story in a process of its own, and its manifests."""

from __future__ import annotations

import re
import signal
import socket
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from devtools.forked_commands import ForkedCommands
from scheduler.cli.demo import command
from simulator.clock import SimClock
from simulator.demos.zone_stockout import objects
from simulator.demos.zone_stockout.story import MERGE_SECONDS, ZoneStockout, milestones
from tests.integration.demo.test_command import LIMIT, read_until, running
from tests.unit.repository.tree import ROOT

MILESTONES = milestones()
EXAMPLE = ROOT / "examples" / "zone-stockout"
LAST = "kubestow demo zone-stockout: 8 bound, 3 by fallback, skew 4"


@pytest.mark.slow
def test_the_story_is_printed_in_order_as_plain_lines(
    virtual_demo: ForkedCommands, tmp_path: Path
) -> None:
    log = ("--log-file", str(tmp_path / "log"))
    done = virtual_demo.run("zone-stockout", "--speed", "15", *log)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    lines = done.stdout.splitlines()
    assert lines[-1] == LAST
    place = -1
    for pattern in (
        r"story +apply Deployment checkout: 8 replicas",
        r"kubestow +\d pods?  Pending: .*didn't match pod topology spread constraints",
        r"autoscaler +\d pods?  TriggeredScaleUp: pod triggered scale-up: \[\{zone-b 0->1",
        r"bridge +\d pods?  NodeProvisioningInProgress=True",
        r"autoscaler +ScaleUpFailed: Failed adding 1 nodes to group zone-b",
        r"autoscaler +\d pods?  NotTriggerScaleUp: .* in backoff after failed scale-up",
        r"bridge +\d pods?  NodeProvisioningInProgress=False \(ScaleUpBackoff\)",
        r"kubestow +\d pods?  placed in eu-1a \(softened\)",
        r"constraint +topology.kubernetes.io/zone, maxSkew 1, DoNotSchedule",
        r"criteria +NodeProvisioningFailed",
        r"pods +eu-1a 6, eu-1b 2",
        r"skew +4",
    ):
        later = [n for n, line in enumerate(lines) if n > place and re.search(pattern, line)]
        assert later, f"no {pattern!r} after line {place} of:\n{done.stdout}"
        place = later[0]
    times = [int(m[1]) * 60 + int(m[2]) for m in re.finditer(r"(?m)^(\d+):(\d\d)  ", done.stdout)]
    assert times == sorted(times)


@pytest.mark.slow
def test_karpenter_may_be_the_autoscaler(virtual_demo: ForkedCommands, tmp_path: Path) -> None:
    log = ("--log-file", str(tmp_path / "log"))
    karpenter = ("zone-stockout", "--speed", "30", "--autoscaler", "karpenter", *log)
    done = virtual_demo.run(*karpenter)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == LAST
    for pattern in (
        r"autoscaler +\d pods?  Nominated: Pod should schedule on: nodeclaim/zone-b-",
        r"autoscaler +InsufficientCapacityError: NodeClaim zone-b-",
        r"autoscaler +\d pods?  FailedScheduling: Failed to schedule pod",
    ):
        assert re.search(pattern, done.stdout), done.stdout


@pytest.mark.slow
def test_an_interrupted_story_prints_its_progress(demo: ForkedCommands) -> None:
    with running(demo, "zone-stockout", "--speed", "1") as process:
        read_until(process, "Pending: ")
        process.send_signal(signal.SIGINT)
        rest, problems = process.communicate(timeout=LIMIT)
    assert (process.returncode, problems) == (130, "")
    assert re.fullmatch(
        r"kubestow demo zone-stockout: \d bound, 0 by fallback, skew [01]", rest.splitlines()[-1]
    )


@pytest.mark.slow
def test_serve_keeps_the_cluster_for_kubectl(demo: ForkedCommands) -> None:
    with running(demo, "zone-stockout", "--speed", "30", "--serve") as process:
        url = read_until(process, r"curl -X POST (http://\S+)/_kubestow/autoscaler")[1]
        read_until(process, "Ctrl-C ends it")
        assert url.startswith("http://127.0.0.1:")
        process.send_signal(signal.SIGINT)
        rest, problems = process.communicate(timeout=LIMIT)
    assert (process.returncode, problems) == (0, "")
    assert rest.splitlines()[-1] == LAST


def test_a_taken_port_is_named(demo: ForkedCommands) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        done = demo.run("zone-stockout", "--port", str(holder.getsockname()[1]))
    assert done.returncode == 1
    assert "cannot listen on port" in done.stderr
    assert "Traceback" not in done.stderr


def test_help_shows_examples() -> None:
    done = CliRunner().invoke(command, ["zone-stockout", "--help"])
    assert done.exit_code == 0
    for word in ("--speed", "--autoscaler", "--serve", "examples/zone-stockout", "eu-1b", "bridge"):
        assert word in done.output
    assert "zone-stockout" in CliRunner().invoke(command, ["--help"]).output


def test_the_example_is_what_the_demo_uses() -> None:
    written = yaml.safe_load((EXAMPLE / "deployment.yaml").read_text(encoding="utf-8"))
    assert written == objects.DEPLOYMENT
    simulated = EXAMPLE / "simulated"
    groups = yaml.safe_load((simulated / "autoscaler.yaml").read_text(encoding="utf-8"))
    assert groups == objects.AUTOSCALER
    nodes = yaml.safe_load_all((simulated / "nodes.yaml").read_text(encoding="utf-8"))
    assert list(nodes) == objects.nodes()


def test_the_example_folder_holds_nothing_that_kubectl_could_not_apply() -> None:
    for path in EXAMPLE.glob("*.yaml"):
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            assert {"apiVersion", "kind", "metadata"} <= document.keys(), path


class Clock:
    """One time for the cluster's clock and the real one, which the test advances."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(SimClock, "now", lambda _: self.now)
        monkeypatch.setattr("time.monotonic", lambda: self.now)


def test_an_event_of_several_pods_at_once_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    story = ZoneStockout()
    for pod in ("p1", "p2", "p2"):
        story.add("kubestow", "placed in a", pod)
    story.add("kubestow", "placed in b", "p3")
    assert [*story.board.unread()] == [], "more may come"
    clock.now = 61.0 + MERGE_SECONDS
    story.add("story", "something without a pod")
    assert [story.line(news).plain for news in story.board.unread()] == [
        "0:00  kubestow    2 pods  placed in a",
        "0:00  kubestow    1 pod  placed in b",
        "1:01  story       something without a pod",
    ]


@pytest.mark.parametrize("missing", MILESTONES)
def test_a_story_without_one_of_its_events_has_failed(missing: str) -> None:
    story = ZoneStockout()
    for milestone in MILESTONES:
        if milestone != missing:
            story.reach(milestone)
    [problem] = story.problems()
    assert MILESTONES[missing] in problem


def test_a_fallback_before_the_condition_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    story = ZoneStockout()
    story.reach("fallback")
    clock.now = 1.0
    for milestone in MILESTONES:
        story.reach(milestone)
    [problem] = story.problems()
    assert "came after a pod to be placed with the constraint" in problem
