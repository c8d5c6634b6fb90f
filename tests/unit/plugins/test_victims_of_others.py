"""`kubestow explain` says that pods which other schedulers placed are not evicted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scheduler import offline

ALL = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: kubestow
  pluginConfig:
  - name: DefaultPreemption
    args: {victimSchedulers: All}
"""


def explained(world: offline.World, key: str = "default/new") -> tuple[str, ...]:
    framework = next(iter(world._assembly.profiles.frameworks.values()))
    return framework.explain(world.pod(key)).get("DefaultPreemption", ())


def pod(name: str, scheduler: str, priority: int = 0, **more: Any) -> dict[str, Any]:
    return offline.pod(name, cpu=2, priority=priority, spec={"schedulerName": scheduler, **more})


@pytest.fixture
def objects() -> list[dict[str, Any]]:
    """A node that pods of another scheduler fill."""
    placed = [
        offline.pod(f"old-{at}", cpu=2, node="n", spec={"schedulerName": "default-scheduler"})
        for at in range(2)
    ]
    return [offline.node("n", cpu=4), *placed]


def test_pods_of_another_scheduler_are_said_to_stay(objects: list[dict[str, Any]]) -> None:
    with offline.World() as world:
        world.add_all([*objects, pod("new", "kubestow", 10)])
        assert len(world.schedule().waiting) == 1
        (line,) = explained(world)
    assert line == (
        "pods of lower priority that other schedulers placed are not evicted for it: 2 of "
        "default-scheduler; the argument victimSchedulers: All would allow that"
    )


@pytest.mark.parametrize(
    "new",
    [pod("new", "kubestow"), pod("new", "kubestow", 10, preemptionPolicy="Never")],
    ids=["same priority", "never"],
)
def test_nothing_is_said_where_nobody_would_be_evicted(
    objects: list[dict[str, Any]], new: dict[str, Any]
) -> None:
    with offline.World() as world:
        world.add_all([*objects, new])
        world.schedule()
        assert explained(world) == ()


def test_nothing_is_said_where_they_are_evicted(
    objects: list[dict[str, Any]], tmp_path: Path
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(ALL)
    with offline.World(config=config) as world:
        world.add_all([*objects, pod("new", "kubestow", 10)])
        assert world.schedule().evicted
        assert explained(world) == ()
