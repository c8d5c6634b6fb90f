"""Fault hooks: rules that make the server misbehave for chosen requests.

A rule matches by verb, resource, namespace and name (shell patterns) and does one thing. Rules are
tried in the order they were added; the first that matches acts. Rules for `watch` act on streams
that are open already, too. Nothing here does I/O: the server carries out the action.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec

from scheduler.api.signal import Signal

FaultAction: TypeAlias = Literal[
    "error", "delay", "silence", "cut", "drop-answer", "duplicate", "no-op", "hide"
]
ACTIONS: Final[Mapping[str, str]] = {
    "error": "answer `code` (a watch that is open gets an ERROR event and ends); nothing is done",
    "delay": "wait `seconds` of the server's clock, then go on; watch events are held back alike",
    "silence": "take the request and never answer; a watch says nothing more, bookmarks included",
    "cut": "close the connection without an answer; nothing is done",
    "drop-answer": "do it, then close the connection without an answer",
    "duplicate": "send every watch event twice",
    "no-op": "follow every watch event by a MODIFIED with the same object",
    "hide": "leave matching watch events out",
}
"""Every action and what it does."""


class FaultError(ValueError):
    """A rule that makes no sense."""


class FaultRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One rule. Empty patterns match everything."""

    action: FaultAction
    verb: str = ""
    """create, get, list, watch, update, patch, delete, deletecollection; empty: all of them."""
    resource: str = ""
    """`pods`, or with a subresource `pods/binding`; shell pattern."""
    namespace: str = ""
    name: str = ""
    """For a watch: the name of the object of the event."""
    code: int = 500
    """HTTP code of `error`."""
    message: str = ""
    retry_after: int = 1
    """Seconds in Retry-After when the code is 429 or 503."""
    seconds: float = 0.0
    """Length of `delay`, by the server's clock."""
    after: int = 0
    """Matches to let pass first."""
    times: int = 0
    """Matches to act on; 0: until removed."""


def parse_rule(data: object) -> FaultRule:
    """Read a rule from decoded JSON. Raises `FaultError`, which names the mistake."""
    try:
        rule = msgspec.convert(data, FaultRule)
    except msgspec.ValidationError as error:
        known = ", ".join(get_args(FaultAction))
        raise FaultError(f"not a fault rule: {error}; actions are {known}") from error
    if rule.action == "error" and not 400 <= rule.code <= 599:
        raise FaultError(f"fault rule: code {rule.code} is no HTTP error; use 400 to 599")
    return rule


class _Active:
    __slots__ = ("acted", "identity", "rule", "seen")

    def __init__(self, identity: str, rule: FaultRule) -> None:
        self.identity = identity
        self.rule = rule
        self.seen = 0
        self.acted = 0

    def spent(self) -> bool:
        return bool(self.rule.times) and self.acted >= self.rule.times

    def take(self) -> bool:
        self.seen += 1
        if self.seen <= self.rule.after or self.spent():
            return False
        self.acted += 1
        return True


def _fits(pattern: str, value: str) -> bool:
    return not pattern or fnmatchcase(value, pattern)


class Faults:
    """The active rules, in order. Owned by the server's event loop."""

    def __init__(self) -> None:
        self._active: list[_Active] = []
        self._made = 0
        #: Called whenever the rules change.
        self.on_change = Signal[[]]()

    def add(self, rule: FaultRule) -> str:
        """Activate a rule; returns its identity for `remove`."""
        self._made += 1
        identity = f"fault-{self._made}"
        self._active.append(_Active(identity, rule))
        self.on_change()
        return identity

    def remove(self, identity: str) -> bool:
        """Take one rule out; False when there is none of that identity."""
        before = len(self._active)
        self._active = [entry for entry in self._active if entry.identity != identity]
        self.on_change()
        return len(self._active) < before

    def clear(self) -> None:
        """Take all rules out. Silenced requests are let go: their connections are cut."""
        self._active = []
        self.on_change()

    def take(self, verb: str, resource: str, namespace: str, name: str) -> FaultRule | None:
        """Return the rule that acts on this request or watch event, and count it; None for none."""
        if not self._active:
            return None
        for entry in self._active:
            if self._matches(entry.rule, verb, resource, namespace, name) and entry.take():
                return entry.rule
        return None

    def standing(self, verb: str, resource: str, namespace: str) -> FaultRule | None:
        """Return the rule for an open stream, whatever its next event; it is not counted.

        Only cut, error and silence without a name act on a stream as a whole.
        """
        for entry in self._active:
            rule = entry.rule
            if (
                rule.action in ("cut", "error", "silence")
                and not rule.name
                and not entry.spent()
                and entry.seen >= rule.after
                and self._matches(rule, verb, resource, namespace, "")
            ):
                return rule
        return None

    def holds(self, rule: FaultRule) -> bool:
        """Whether a rule is still active."""
        return any(entry.rule is rule for entry in self._active)

    def count_standing(self, rule: FaultRule) -> None:
        """Count that a rule from `standing` ended a stream."""
        for entry in self._active:
            if entry.rule is rule:
                entry.seen += 1
                entry.acted += 1
                return

    def describe(self) -> list[dict[str, Any]]:
        """Return every rule with its identity and how often it matched and acted."""
        return [
            {
                "id": entry.identity,
                "matched": entry.seen,
                "acted": entry.acted,
                **msgspec.to_builtins(entry.rule),
            }
            for entry in self._active
        ]

    @staticmethod
    def _matches(rule: FaultRule, verb: str, resource: str, namespace: str, name: str) -> bool:
        return (
            (not rule.verb or rule.verb == verb)
            and _fits(rule.resource, resource)
            and _fits(rule.namespace, namespace)
            and _fits(rule.name, name)
        )
