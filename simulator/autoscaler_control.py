"""The calls below `/_kubestow/autoscaler`: configure the simulated autoscaler and make it fail.

Bad input is 400 and names the field. What the autoscaler does is in
`simulator.controllers.autoscaler`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from simulator.controllers.autoscaler import Autoscaler
from simulator.controllers.autoscaler_groups import (
    STATES,
    GroupError,
    NodeGroup,
    Settings,
    parse_group,
    parse_settings,
)
from simulator.errors import ApiError, bad_request
from simulator.objects import JsonObject

_EXAMPLE: Final[JsonObject] = {
    "name": "zone-b",
    "zone": "eu-1b",
    "min": 0,
    "max": 3,
    "state": "stockout",
    "provisionSeconds": 30,
    "template": {
        "labels": {"example.com/pool": "general"},
        "taints": [],
        "allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"},
    },
}
HELP: Final[JsonObject] = {
    "GET /_kubestow/autoscaler": "settings, groups with their size and backoff, the last loop",
    "POST /_kubestow/autoscaler": {
        "what": "change settings; what is not named stays. groups replaces all groups. Times are "
        "seconds of the server's clock (POST /_kubestow/clock speeds it up)",
        "fields": {name: str(Settings.__annotations__[name]) for name in Settings.__annotations__},
        "example": {
            "flavor": "cluster-autoscaler",
            "scanInterval": 10,
            "backoff": 300,
            "maxNodeProvisionTime": 900,
            "limitEvents": True,
            "maxNodesTotal": 0,
        },
    },
    "DELETE /_kubestow/autoscaler": "forget all groups and settings",
    "GET /_kubestow/autoscaler/groups": "node groups, in the order in which they are tried; with "
    "/NAME one of them",
    "POST /_kubestow/autoscaler/groups": {
        "what": "add a node group; nodes that carry the label kubestow.io/node-group=NAME belong "
        "to it already",
        "states": STATES,
        "example": _EXAMPLE,
    },
    "POST /_kubestow/autoscaler/groups/NAME": {
        "what": "change some fields of a group; another state ends its backoff",
        "example": {"state": "ok"},
    },
    "DELETE /_kubestow/autoscaler/groups/NAME": "forget a group; its nodes stay",
    "POST /_kubestow/autoscaler/loop": "look at the pods now instead of after scanInterval; says "
    'what was done. POST /_kubestow/controllers {"autoscaler": false} stops it altogether',
}


class AutoscalerControl:
    """Answers for one autoscaler. `changed` is called after every change."""

    def __init__(self, autoscaler: Autoscaler, changed: Callable[[], None]) -> None:
        self.help = HELP
        self._autoscaler = autoscaler
        self._changed = changed

    def handle(self, method: str, path: list[str], body: JsonObject) -> JsonObject | None:
        """Handle one call; None when there is no such call. Raises `ApiError`."""
        try:
            match (method, *path):
                case ("GET",):
                    return self._autoscaler.describe()
                case ("POST",):
                    return self._configure(parse_settings(body, self._autoscaler.settings))
                case ("DELETE",):
                    return self._configure(Settings())
                case ("POST", "loop"):
                    return self._loop()
                case ("GET", "groups"):
                    return {"groups": self._autoscaler.describe()["groups"]}
                case ("POST", "groups"):
                    return self._put(parse_group(body))
                case (_, "groups", name):
                    return self._one(method, self._known(name), body)
        except GroupError as error:
            raise bad_request(f"autoscaler: {error}") from error
        return None

    def _one(self, method: str, group: NodeGroup, body: JsonObject) -> JsonObject | None:
        match method:
            case "GET":
                return self._autoscaler.describe_group(group)
            case "POST":
                return self._put(parse_group(body, group))
            case "DELETE":
                self._configure(self._autoscaler.settings.without_group(group.name))
                return {"groups": self._autoscaler.describe()["groups"]}
        return None

    def _known(self, name: str) -> NodeGroup:
        group = self._autoscaler.settings.group(name)
        if group is None:
            known = ", ".join(each.name for each in self._autoscaler.settings.groups) or "none"
            raise ApiError(404, "NotFound", f"no node group {name}; there are: {known}")
        return group

    def _put(self, group: NodeGroup) -> JsonObject:
        self._configure(self._autoscaler.settings.with_group(group))
        return self._autoscaler.describe_group(group)

    def _configure(self, settings: Settings) -> JsonObject:
        self._autoscaler.configure(settings)
        self._changed()
        return self._autoscaler.describe()

    def _loop(self) -> JsonObject:
        done = self._autoscaler.loop_now()
        self._changed()
        return done
