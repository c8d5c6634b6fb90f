"""Objects that the plugins of all profiles share, by name: `Handle.shared`."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from scheduler.service.subscriptions import PluginSubscriptions


class SharedObjects:
    """Each object outlives the plugin that made it, and so do its subscriptions."""

    def __init__(self) -> None:
        self.objects: dict[str, Any] = {}
        self.subscriptions: dict[str, PluginSubscriptions] = {}

    def subscribe(self, name: str, maker: PluginSubscriptions) -> PluginSubscriptions:
        """Return the subscriptions of an object; `maker` are those of the plugin that makes it."""
        self.subscriptions[name] = made = maker.alike()
        return made

    def forget(self, modules: Container[str]) -> None:
        """Forget objects whose class is in one of the modules, so that plugins make new ones."""
        for name, each in list(self.objects.items()):
            if type(each).__module__ in modules:
                del self.objects[name]
                self.subscriptions.pop(name, None)

    def copy(self) -> SharedObjects:
        """Return what is known now, for `restore`."""
        copied = SharedObjects()
        copied.restore(self)
        return copied

    def restore(self, before: SharedObjects) -> None:
        """Return to what was known before."""
        self.objects, self.subscriptions = dict(before.objects), dict(before.subscriptions)
