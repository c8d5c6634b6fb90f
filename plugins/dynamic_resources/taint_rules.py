"""Taints that DeviceTaintRules put on devices (gate DRADeviceTaintRules).

Upstream: `resourceslice/tracker/tracker.go: Tracker`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from scheduler.api.devices import Device, DeviceTaintRule, ResourceSlice

RULES: Final = "devicetaintrules"
"""API servers before v1.37 do not serve them as v1, and then there are none."""


class TaintRules:
    """All rules, by name."""

    def __init__(self, changed: Callable[[], None]) -> None:
        """`changed` is called after a rule has changed."""
        self._rules: dict[str, DeviceTaintRule] = {}
        self._changed = changed

    def event(self, old: DeviceTaintRule | None, new: DeviceTaintRule | None) -> None:
        """Handle an event of a rule."""
        if old is not None:
            self._rules.pop(old.metadata.name, None)
        if new is not None:
            self._rules[new.metadata.name] = new
        self._changed()

    def tainted(self, source: ResourceSlice) -> ResourceSlice:
        """Return a slice with the taints of all rules that select its devices."""
        rules = [each for each in self._rules.values() if _selects_pool(each, source)]
        if not rules:
            return source
        devices = tuple(_tainted(each, rules) for each in source.spec.devices)
        spec = msgspec.structs.replace(source.spec, devices=devices)
        return msgspec.structs.replace(source, spec=spec)


def _selects_pool(rule: DeviceTaintRule, source: ResourceSlice) -> bool:
    selector = rule.spec.device_selector
    # A rule without a selector selects nothing, one with an empty selector everything.
    return (
        selector is not None
        and selector.driver in (None, source.spec.driver)
        and selector.pool in (None, source.spec.pool.name)
    )


def _tainted(device: Device, rules: list[DeviceTaintRule]) -> Device:
    taints = tuple(
        rule.spec.taint
        for rule in rules
        if rule.spec.device_selector is not None
        and rule.spec.device_selector.device in (None, device.name)
    )
    return msgspec.structs.replace(device, taints=(*device.taints, *taints))
