"""Plugins over their time budget: what is counted, and when one is switched off."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from config.loading import OverrunPolicy
from scheduler.service.plugin_frames import PluginCall
from scheduler.service.plugin_overruns import PluginOverruns, SwitchedOff
from tests.unit.client.virtual_clock import ManualClock

DISABLE = OverrunPolicy(disable=True, limit=3, window_seconds=60.0)


class Faults:
    """Records the measurements."""

    def __init__(self) -> None:
        self.off: dict[tuple[str, str], bool] = {}
        self.seconds = 0.0

    def blocked(self, plugin: str, point: str, seconds: float) -> None:
        self.seconds += seconds

    def switched_off(self, profile: str, plugin: str, off: bool) -> None:
        self.off[profile, plugin] = off


class Stage:
    """Overruns of plugins in the profiles `strict` and `lenient`."""

    def __init__(self) -> None:
        self.clock, self.faults = ManualClock(), Faults()
        policies = {"strict": DISABLE, "lenient": OverrunPolicy()}
        self.overruns = PluginOverruns(
            self.faults, self.clock, lambda: policies, lambda _: ("strict", "lenient")
        )
        self.asked: list[SwitchedOff] = []
        self.overruns.on_switch_off.subscribe(self.asked.append)

    def overrun(self, count: int, plugin: str = "Gpu", profile: str = "strict") -> None:
        for _ in range(count):
            self.overruns.overran(plugin, "Filter", profile, 0.02)


def test_the_limit_within_the_window_switches_off_once() -> None:
    stage = Stage()
    stage.overrun(2)
    assert not stage.asked
    stage.overrun(5)
    ((off),) = stage.asked
    assert (off.profile, off.plugin, off.point, off.count) == ("strict", "Gpu", "Filter", 3)
    assert stage.overruns.off() == [off]


@pytest.mark.parametrize(
    ("plugin", "profile"), [("Gpu", "lenient"), ("Gpu", "unknown"), ("NodeResourcesFit", "strict")]
)
def test_never_switched_off(plugin: str, profile: str) -> None:
    """Plugins of a profile that only reports, and in-tree plugins, stay."""
    stage = Stage()
    stage.overrun(100, plugin, profile)
    assert not stage.asked


def test_overruns_outside_of_the_window_do_not_count() -> None:
    stage = Stage()
    for _ in range(10):
        stage.overrun(1)
        stage.clock.jump(31.0)
    assert not stage.asked


def test_only_the_first_overrun_of_a_place_is_logged() -> None:
    stage = Stage()
    with capture_logs() as logs:
        stage.overrun(2)
        stage.overrun(2, profile="lenient")
        stage.overruns.forget()
        stage.overrun(1, profile="lenient")
    assert [each["event"].split(";")[0] for each in logs] == ["plugin over its time budget"] * 2


def test_a_reload_switches_all_on() -> None:
    stage = Stage()
    stage.overrun(3)
    (off,) = stage.asked
    stage.overruns.went_off(off)
    assert stage.faults.off == {("strict", "Gpu"): True}
    (text,) = stage.overruns.of_profile("strict", ())["Gpu"]
    assert text.startswith("switched off for this profile since ")
    assert not stage.overruns.of_profile("lenient", {"Gpu"})
    stage.overruns.all_on()
    assert stage.faults.off == {("strict", "Gpu"): False}
    assert not stage.overruns.off()
    stage.overrun(2)
    assert len(stage.asked) == 1, "counting begins anew"


def test_a_plugin_that_its_profile_needs_stays_on_and_is_reported_once() -> None:
    stage = Stage()
    stage.overrun(3)
    with capture_logs() as logs:
        stage.overruns.stays_on(stage.asked[0])
        stage.overrun(10)
    assert [each["log_level"] for each in logs] == ["error"]
    assert len(stage.asked) == 1
    assert not stage.overruns.off()


@pytest.mark.parametrize(("point", "asked"), [("_after_node", 1), ("Filter", 0)])
def test_a_block_in_a_method_that_nothing_else_measures_is_an_overrun(
    point: str, asked: int
) -> None:
    stage = Stage()
    for _ in range(3):
        stage.overruns.blocked(PluginCall("Gpu", point, "gpu.py:7 in hint"), 2.0)
    assert len(stage.asked) == asked
    assert stage.faults.seconds == 6.0
