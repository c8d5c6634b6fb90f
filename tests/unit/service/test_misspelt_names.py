"""A pod whose schedulerName is nearly ours is counted, and its name logged once."""

from __future__ import annotations

from difflib import SequenceMatcher

import pytest
import structlog

from scheduler.api import scheduler_names
from scheduler.api.scheduler_names import MAX_LENGTH, nearest
from scheduler.client.deltas import Delta, DeltaType
from scheduler.queue import EventFeatures
from scheduler.service.event_handlers import EventHandlers
from scheduler.service.misspelt_names import MAX_NAMES, MisspeltNames
from tests.unit.engine.harness import PROFILE
from tests.unit.service.harness import Service
from tests.unit.service.test_event_handlers import pod

COUNTER = "kubestow_misspelt_scheduler_names_total"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("kubestwo", "kubestow"),
        ("KubeStow", "kubestow"),
        ("kube_stow", "kubestow"),
        ("cubestow", "kubestow"),
        ("kubestow ", "kubestow"),
        ("kubestow2", ""),
        ("kubestow-batch", ""),
        ("kube", ""),
        ("volcano", ""),
        ("default-scheduler", ""),
        ("", ""),
        ("x" * 200_000, ""),
    ],
)
def test_a_slip_is_told_from_another_instance(name: str, meant: str) -> None:
    assert nearest(name, {"kubestow", "gpu-pack"}) == meant


def handlers(service: Service) -> EventHandlers:
    return EventHandlers(
        service.cache,
        service.queue,
        service.waiting_pods,
        scheduler_names={PROFILE},
        registered={},
        subscriptions=service.subscriptions,
        clock=service.clock,
        metrics=service.metrics,
        features=EventFeatures(),
        misspelt=MisspeltNames(service.metrics),
    )


def test_pods_are_counted_and_a_name_is_logged_once() -> None:
    service = Service(watched=("pods",))
    given = handlers(service)
    names = ["a", "b", "c", "d"]
    spellings = ["tesst", "tesst", PROFILE, "another"]
    with structlog.testing.capture_logs() as logs:
        for name, spelling in zip(names, spellings, strict=True):
            stranger = pod(service, name, schedulerName=spelling)
            given.pods([Delta(DeltaType.ADDED, stranger)])
        bound = pod(service, "e", schedulerName="tesst", nodeName="n1")
        given.pods([Delta(DeltaType.ADDED, bound)])
    assert service.metrics.registry.get_sample_value(COUNTER) == 2.0
    (line,) = [each for each in logs if "nearly" in each["event"]]
    assert (line["pod"], line["scheduler_name"], line["nearest"]) == ("default/a", "tesst", PROFILE)


def test_names_are_looked_at_again_when_ours_have_changed() -> None:
    service = Service(watched=("pods",))
    given = handlers(service)
    given.pods([Delta(DeltaType.ADDED, pod(service, "a", schedulerName="paack"))])
    given.replace_profiles({PROFILE, "pack"}, ())
    given.pods([Delta(DeltaType.ADDED, pod(service, "b", schedulerName="paack"))])
    assert service.metrics.registry.get_sample_value(COUNTER) == 1.0


def test_any_number_of_names_is_bounded() -> None:
    service = Service(watched=("pods",))
    names = MisspeltNames(service.metrics)
    for number in range(3 * MAX_NAMES):
        names.look(pod(service, "a", schedulerName=f"s{number}"), {"kubestow"})
    assert len(names._meant) <= MAX_NAMES


def test_a_long_name_is_neither_compared_nor_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    def compared(_junk: None, name: str, _own: str) -> SequenceMatcher[str]:
        assert len(name) <= MAX_LENGTH
        return SequenceMatcher(None, name, _own)

    monkeypatch.setattr(scheduler_names, "SequenceMatcher", compared)
    service = Service(watched=("pods",))
    names = MisspeltNames(service.metrics)
    for letters in (MAX_LENGTH, MAX_LENGTH + 1, 1_000_000):
        # All letters are those of our name, so that a comparison would take long.
        name = ("wotsebuk" * 125_000)[:letters]
        assert nearest(name, {"kubestow"}) == ""
        names.look(pod(service, "a", schedulerName=name), {"kubestow"})
    assert [len(each) for each in names._meant] == [MAX_LENGTH]
