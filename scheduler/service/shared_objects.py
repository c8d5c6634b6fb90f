"""Objects that the plugins of all profiles share by name (`Handle.shared`)."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from scheduler.service.subscriptions import PluginSubscriptions


class SharedObjects:
    """The shared objects. Each, with its subscriptions, outlives the plugin that created it."""

    def __init__(self) -> None:
        self.objects: dict[str, Any] = {}
        self.subscriptions: dict[str, PluginSubscriptions] = {}

    def subscribe(self, name: str, maker: PluginSubscriptions) -> PluginSubscriptions:
        """Return subscriptions for an object; `maker` are those of the plugin that creates it."""
        self.subscriptions[name] = made = maker.alike()
        return made

    def forget(self, modules: Container[str]) -> None:
        """Forget objects whose class is in one of `modules`, so that plugins create new ones."""
        for name, each in list(self.objects.items()):
            if type(each).__module__ in modules:
                del self.objects[name]
                self.subscriptions.pop(name, None)

    def copy(self) -> SharedObjects:
        """Return a copy of the current state, for `restore`."""
        copied = SharedObjects()
        copied.restore(self)
        return copied

    def restore(self, before: SharedObjects) -> None:
        """Return to the state of `before`, a result of `copy`."""
        self.objects, self.subscriptions = dict(before.objects), dict(before.subscriptions)
