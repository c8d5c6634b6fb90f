"""The control endpoint `/_kubestow/`: drive the embedded API server from outside.

`GET /_kubestow/` lists every call with an example, so that curl is enough to learn it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from simulator import errors
from simulator.clock import SimClock
from simulator.errors import ApiError
from simulator.faults import ACTIONS, FaultError, FaultRule, parse_rule
from simulator.gates import FALLBACK_GATE, ServerGates
from simulator.objects import JsonObject, decode_json, format_time
from simulator.routing import Query
from simulator.server import ApiServer

PREFIX: Final = "_kubestow"
HELP: Final[JsonObject] = {
    "GET /_kubestow/": "this text",
    "GET /_kubestow/statistics": "requests, watches, objects, resourceVersion",
    "GET /_kubestow/faults": "active fault rules, with how often each matched and acted",
    "POST /_kubestow/faults": {
        "what": "activate a rule; answers its id. Empty patterns match everything",
        "actions": dict(ACTIONS),
        "fields": {
            name: str(FaultRule.__annotations__[name]) for name in FaultRule.__struct_fields__
        },
        "example": {
            "action": "error",
            "verb": "create",
            "resource": "pods/binding",
            "name": "web-*",
            "code": 409,
            "times": 3,
        },
    },
    "DELETE /_kubestow/faults": "remove all rules",
    "DELETE /_kubestow/faults/ID": "remove one rule",
    "GET /_kubestow/clock": "simulated time and rate",
    "POST /_kubestow/clock": {
        "what": "advance the clock by seconds, or set its rate (1: wall time, 60: a minute each "
        "second, 0: stopped)",
        "example": {"advance": 300, "rate": 0},
    },
    "GET /_kubestow/controllers": "controllers and whether each runs",
    "POST /_kubestow/controllers": {
        "what": "switch controllers on or off; kueue is off until it is switched on",
        "example": {"kubelet": False, "kueue": True},
    },
    "GET /_kubestow/gates": "feature gates, by component",
    "POST /_kubestow/gates": {
        "what": "set gates of the API server from now on, as if it were restarted with them",
        "example": {FALLBACK_GATE: False},
    },
    "POST /_kubestow/gates/COMPONENT": {
        "what": "set gates of one component: apiserver or controllers. The scheduler's are its own "
        "(kubestow run --feature-gates)",
        "example": {FALLBACK_GATE: True},
    },
    "GET /_kubestow/settings": "settings of controllers that have any",
    "POST /_kubestow/settings/CONTROLLER": {
        "what": "change settings of one controller; what is not named stays",
        "quota": {"resyncSeconds": "between two recounts of all quotas"},
        "kueue": {
            "batch": "gated pods of a queue let go at a time",
            "everySeconds": "between two times",
            "maxAdmitted": "pods let go and not finished; 0: any number",
            "nodeSelector": "added to a pod that is let go, in the same patch",
            "podsReadyTimeoutSeconds": "a pod that takes longer is deleted; 0: for ever",
            "addGate": "gate new pods with the label kueue.x-k8s.io/queue-name",
        },
        "example": {"batch": 4, "everySeconds": 10, "addGate": True},
    },
    "POST /_kubestow/compact": "forget all history: a watch that resumes from before gets 410",
    "POST /_kubestow/bookmarks": "have every open watch, but those of Events, send a bookmark now",
}


class Part(Protocol):
    """A part of the cluster with calls of its own, below one word of the path."""

    help: JsonObject
    """Its calls, as `HELP` lists them."""

    def handle(self, method: str, path: list[str], body: JsonObject) -> JsonObject | None:
        """Handle a request; None when there is no such call. Raises `ApiError`."""


class Switches(Protocol):
    """The controllers of a cluster, by name."""

    def names(self) -> dict[str, bool]:
        """Return every controller and whether it runs."""

    def switch(self, name: str, on: bool) -> None:
        """Start or pause one. Raises KeyError for an unknown name."""

    def wake(self) -> None:
        """Make all controllers check for work."""


class Adjustable(Protocol):
    """A controller with settings."""

    def settings(self) -> JsonObject:
        """Return the present settings."""

    def adjust(self, wanted: JsonObject) -> None:
        """Change settings. Raises ValueError with the reason; then nothing has changed."""


class Control:
    """Answers requests below the prefix. Mount `handle` in the server."""

    def __init__(
        self,
        server: ApiServer,
        clock: SimClock,
        switches: Switches,
        gates: Mapping[str, ServerGates] | None = None,
        adjustable: Mapping[str, Adjustable] | None = None,
    ) -> None:
        self._server = server
        self._clock = clock
        self._switches = switches
        self._gates = gates or {}
        self._adjustable = adjustable or {}
        self._parts: dict[str, Part] = {}
        self._routes: dict[tuple[str, str], Callable[[str, bytes], JsonObject]] = {
            ("GET", ""): lambda _rest, _body: self._help(),
            ("GET", "statistics"): lambda _rest, _body: self._server.statistics(),
            ("GET", "faults"): lambda _rest, _body: {"faults": server.faults.describe()},
            ("POST", "faults"): self._add_fault,
            ("DELETE", "faults"): self._remove_fault,
            ("GET", "clock"): lambda _rest, _body: self._time(),
            ("POST", "clock"): self._set_clock,
            ("GET", "controllers"): lambda _rest, _body: dict(self._switches.names()),
            ("POST", "controllers"): self._switch,
            ("GET", "gates"): lambda _rest, _body: self._gates_now(),
            ("POST", "gates"): self._set_gates,
            ("GET", "settings"): lambda _rest, _body: self._settings(),
            ("POST", "settings"): self._adjust,
            ("POST", "compact"): self._compact,
            ("POST", "bookmarks"): lambda _rest, _body: {"watches": server.send_bookmarks()},
        }

    def add(self, name: str, part: Part) -> None:
        """Route everything below `/_kubestow/NAME` to a part."""
        self._parts[name] = part

    def _help(self) -> JsonObject:
        whole = dict(HELP)
        for part in self._parts.values():
            whole.update(part.help)
        return whole

    def handle(self, method: str, path: list[str], _query: Query, body: bytes) -> JsonObject:
        """Handle one request. Raises 400 with the reason, 404 with the path of the help."""
        if path and path[0] in self._parts:
            answer = self._parts[path[0]].handle(method, path[1:], _decoded(body))
            if answer is not None:
                return answer
        route = self._routes.get((method, path[0] if path else ""))
        if route is None:
            where = "/".join([PREFIX, *path])
            raise ApiError(
                404, "NotFound", f"no {method} /{where} here; GET /{PREFIX}/ lists all calls"
            )
        return route(path[1] if len(path) > 1 else "", body)

    def _add_fault(self, _rest: str, body: bytes) -> JsonObject:
        try:
            return {"id": self._server.faults.add(parse_rule(_decoded(body)))}
        except FaultError as error:
            raise errors.bad_request(str(error)) from error

    def _remove_fault(self, rest: str, _body: bytes) -> JsonObject:
        if not rest:
            self._server.faults.clear()
        elif not self._server.faults.remove(rest):
            raise ApiError(
                404, "NotFound", f"no fault rule {rest}; GET /{PREFIX}/faults lists them"
            )
        return {"faults": self._server.faults.describe()}

    def _time(self) -> JsonObject:
        now = self._clock.now()
        return {"now": format_time(now), "epoch": now, "rate": self._clock.rate}

    def _set_clock(self, _rest: str, body: bytes) -> JsonObject:
        wanted = _decoded(body)
        unknown = sorted(set(wanted) - {"advance", "rate"})
        if unknown:
            raise errors.bad_request(f"clock: unknown field {unknown[0]}; use advance and rate")
        try:
            if "rate" in wanted:
                self._clock.set_rate(float(wanted["rate"]))
            if "advance" in wanted:
                self._clock.advance(float(wanted["advance"]))
        except (TypeError, ValueError) as error:
            raise errors.bad_request(f"clock: {error}") from error
        return self._time()

    def _switch(self, _rest: str, body: bytes) -> JsonObject:
        wanted, known = _decoded(body), self._switches.names()
        for name, on in wanted.items():
            if name not in known or not isinstance(on, bool):
                raise errors.bad_request(
                    f"controllers: {name}: {on!r}; want true or false for one of {', '.join(known)}"
                )
        for name, on in wanted.items():
            self._switches.switch(name, on)
        return dict(self._switches.names())

    def _gates_now(self) -> JsonObject:
        return {name: gates.describe() for name, gates in self._gates.items()}

    def _set_gates(self, rest: str, body: bytes) -> JsonObject:
        component = rest or "apiserver"
        gates = self._gates.get(component)
        if gates is None:
            known = ", ".join(self._gates)
            raise ApiError(404, "NotFound", f"no component {component}; want one of {known}")
        wanted = _decoded(body)
        for name, on in wanted.items():
            if name not in gates.known or not isinstance(on, bool):
                raise errors.bad_request(
                    f"gates: {name}: {on!r}; want true or false for one of {', '.join(gates.known)}"
                )
        gates.change(wanted)
        self._switches.wake()
        return self._gates_now()

    def _settings(self) -> JsonObject:
        return {name: one.settings() for name, one in self._adjustable.items()}

    def _adjust(self, rest: str, body: bytes) -> JsonObject:
        controller = self._adjustable.get(rest)
        if controller is None:
            known = ", ".join(self._adjustable)
            raise errors.bad_request(f"settings: {rest!r} has none; those that do: {known}")
        try:
            controller.adjust(_decoded(body))
        except ValueError as error:
            raise errors.bad_request(f"settings of {rest}: {error}") from error
        self._switches.wake()
        return self._settings()

    def _compact(self, _rest: str, _body: bytes) -> JsonObject:
        self._server.lister.forget()
        return {"compacted": self._server.api.store.compact()}


def _decoded(body: bytes) -> dict[str, Any]:
    try:
        decoded = decode_json(body or b"{}")
    except ValueError as error:
        raise errors.bad_request(f"the body is no JSON: {error}") from error
    if not isinstance(decoded, dict):
        raise errors.bad_request("the body is no JSON object")
    return decoded
