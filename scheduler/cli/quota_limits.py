"""Conversion of human-readable limits to deferred keys, and of quotas to rows of a table.

Pure: manifests in, manifests and rows out. The grammar of keys is `plugins.resource_quota.keys`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from plugins.resource_quota.keys import (
    ALIAS_ANNOTATION,
    PREFIX,
    DeferredKey,
    InvalidKeyError,
    alias_key,
    human,
    is_native_compute,
    key_for,
    read_limits,
)
from plugins.resource_quota.messages import parse_violated_pairs
from scheduler.api.quantity import QuantityError, parse
from scheduler.cli.cluster import JsonObject

LABEL: Final = "kubestow.io/deferred-quota"
"""`"true"` on a quota makes it a parameter of the policies; `enforced` on a namespace guards it."""
HELD_REASONS: Final = ("ResourceQuotaValidated", "ResourceQuotaExceeded")
_MARK_CONDITION: Final = "kubestow.io/QuotaDeferred"
_MARK_ANNOTATION: Final = "kubestow.io/quota-deferred"
REMOVE: Final = "none"
"""The amount that removes a limit."""


class LimitError(ValueError):
    """An amount or a name that cannot be a deferred limit; the text gives what to write."""


@dataclass(frozen=True, slots=True)
class QuotaLimits:
    """Entries for `spec.hard` (None removes one) and aliases of names that are too long."""

    hard: dict[str, str | None]
    aliases: dict[str, str]


def read(wanted: Mapping[str, str]) -> QuotaLimits:
    """Read limits from upstream's quota names (`requests.cpu`) and human amounts.

    Of two names for one thing (`cpu`, `requests.cpu`) the smaller amount counts, as it does
    upstream.

    >>> read({"requests.cpu": "1500m", "requests.memory": "1Gi"}).hard
    {'deferred.kubestow.io/requests.cpu-millis': '1500', 'deferred.kubestow.io/requests.memory': '1Gi'}
    """  # noqa: E501
    hard: dict[str, str | None] = {}
    aliases: dict[str, str] = {}
    for name, text in wanted.items():
        key = _key(name, aliases)
        written = None if text == REMOVE else _written(name, key, text)
        hard[key.key] = _smaller(hard.get(key.key), written)
    return QuotaLimits(hard, aliases)


def _smaller(one: str | None, other: str | None) -> str | None:
    if one is None or other is None:
        return one or other
    return min(one, other, key=lambda text: parse(text).nano)


def _key(name: str, aliases: dict[str, str]) -> DeferredKey:
    try:
        return key_for(name)
    except InvalidKeyError as error:
        if "alias" not in str(error):
            raise LimitError(f"{name}: {error}") from error
    alias = f"alias-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    aliases[alias] = name
    return alias_key(alias, name)


def _written(name: str, key: DeferredKey, text: str) -> str:
    try:
        amount = parse(text)
    except QuantityError as error:
        raise LimitError(f"{name}: {error}") from error
    if amount.nano < 0:
        raise LimitError(f"{name}: {text} is below 0")
    if amount.nano % key.unit:
        wanted = (
            "whole thousandths of a core, such as 1500m or 1.5"
            if name.endswith("cpu")
            else "a whole number, such as 2 or 64Gi"
        )
        raise LimitError(
            f"{name}: {text} cannot be stored: the API server takes whole numbers only for a "
            f"deferred key; write {wanted}"
        )
    if key.unit == parse("1").nano:
        return amount.canonical()
    return str(parse(str(amount.nano // key.unit)))


def manifest(
    namespace: str, name: str, limits: QuotaLimits, scopes: Iterable[str] = ()
) -> JsonObject:
    """Build a new quota."""
    meta: JsonObject = {"name": name, "namespace": namespace, "labels": {LABEL: "true"}}
    if limits.aliases:
        meta["annotations"] = {ALIAS_ANNOTATION: json.dumps(limits.aliases)}
    spec: JsonObject = {"hard": {key: text for key, text in limits.hard.items() if text}}
    if scopes:
        spec["scopes"] = list(scopes)
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": spec}


def change(quota: JsonObject, limits: QuotaLimits) -> JsonObject:
    """Return a merge patch that sets these limits of an existing quota and keeps its others."""
    meta: JsonObject = {"labels": {LABEL: "true"}}
    if limits.aliases:
        notes = (quota["metadata"].get("annotations") or {}).get(ALIAS_ANNOTATION) or "{}"
        try:
            kept = json.loads(notes)
        except (ValueError, RecursionError) as error:
            raise LimitError(f"annotation {ALIAS_ANNOTATION} is no JSON: {error}") from error
        meta["annotations"] = {ALIAS_ANNOTATION: json.dumps({**kept, **limits.aliases})}
    return {"metadata": meta, "spec": {"hard": limits.hard}}


# ---------------------------------------------------------------------------------------- reading


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """One limit of one quota. Amounts in billionths; None where nothing was published yet."""

    namespace: str
    quota: str
    resource: str
    deferred: bool
    used: int | None
    hard: int
    held: int
    """Pods that wait for this limit."""

    @property
    def free(self) -> int | None:
        """The amount left; below 0 when more is used than allowed."""
        return None if self.used is None else self.hard - self.used

    def json(self) -> JsonObject:
        """Return the row for JSON, with human-readable amounts."""
        amounts = {"used": self.used, "hard": self.hard, "free": self.free}
        return {
            "namespace": self.namespace,
            "quota": self.quota,
            "resource": self.resource,
            "deferred": self.deferred,
            **{key: None if nano is None else _amount(self, nano) for key, nano in amounts.items()},
            "held": self.held,
        }

    def cells(self) -> tuple[str, ...]:
        """Return the row for a table."""
        free = self.free
        return (
            self.namespace,
            self.quota,
            self.resource,
            "?" if self.used is None else _amount(self, self.used),
            _amount(self, self.hard),
            "?" if free is None else _amount(self, free),
            str(self.held),
        )


def _amount(row: QuotaRow, nano: int) -> str:
    return f"-{human(row.resource, -nano)}" if nano < 0 else human(row.resource, nano)


def has_deferred(quota: JsonObject) -> bool:
    """Whether a quota has deferred keys, readable or not."""
    return any(key.startswith(PREFIX) for key in _hard(quota))


def rows(quota: JsonObject, pods: Iterable[JsonObject]) -> list[QuotaRow]:
    """Return the limits of a quota, deferred ones first, with the number of pods that wait."""
    meta, used = quota["metadata"], (quota.get("status") or {}).get("used") or {}
    where = (str(meta["namespace"]), str(meta["name"]))
    exceeded = [parse_violated_pairs(message) for message in map(held_by, pods) if message]
    limits = read_limits(_hard(quota), meta.get("annotations") or {})
    found = []
    for key, hard in limits.hard.items():
        published = used.get(key.key)
        taken = None if published is None else key.amount(published)
        held = sum(1 for pairs in exceeded if (where[1], key.name) in pairs)
        found.append(QuotaRow(*where, key.name, True, taken, hard, held))
    for name, text in _hard(quota).items():
        if not name.startswith(PREFIX):
            published = used.get(name)
            taken = None if published is None else parse(published).nano
            found.append(QuotaRow(*where, name, False, taken, parse(text).nano, 0))
    return found


def unreadable(quota: JsonObject) -> list[str]:
    """Return a warning for each deferred key that cannot be used."""
    meta = quota["metadata"]
    limits = read_limits(_hard(quota), meta.get("annotations") or {})
    where = f"{meta['namespace']}/{meta['name']}"
    return [f"{where}: {invalid} (this key is ignored)" for invalid in limits.invalid]


def _hard(quota: JsonObject) -> JsonObject:
    found: JsonObject = (quota.get("spec") or {}).get("hard") or {}
    return found


def held_by(pod: JsonObject) -> str:
    """Return the message of a pod that a quota holds; empty for other pods."""
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if (
            condition.get("type") == "PodScheduled"
            and condition.get("status") == "False"
            and condition.get("reason") in HELD_REASONS
        ):
            return str(condition.get("message") or "quota exceeded")
    return ""


def waits_uncharged(pod: JsonObject) -> str:
    """Return why a pod is not charged: `gated`, `held` or `waiting` for a node; empty if it is."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    if spec.get("nodeName") or status.get("phase") in ("Succeeded", "Failed"):
        return ""
    if spec.get("schedulingGates"):
        return "gated"
    conditions = {one.get("type"): one for one in status.get("conditions") or ()}
    mark = conditions.get(_MARK_CONDITION) or {}
    notes = (pod.get("metadata") or {}).get("annotations") or {}
    reason = (conditions.get("PodScheduled") or {}).get("reason")
    if notes.get(_MARK_ANNOTATION) != "true" and mark.get("status") == "False":
        return ""
    if held_by(pod):
        return "held"
    marked = notes.get(_MARK_ANNOTATION) == "true" or mark.get("status") == "True"
    return "waiting" if marked or reason == "SchedulingGated" else ""


# -------------------------------------------------------------------------------------- migration


def to_native(quota: JsonObject, name: str) -> JsonObject:
    """Return the built-in quota with the same limits; keys that are not deferred are kept.

    Raises LimitError for a key that has no built-in name.
    """
    bad = unreadable(quota)
    if bad:
        raise LimitError("; ".join(bad))
    limits = read_limits(_hard(quota), quota["metadata"].get("annotations") or {})
    hard = {key: text for key, text in _hard(quota).items() if not key.startswith(PREFIX)}
    for key, nano in limits.hard.items():
        if not is_native_compute(key.name):
            raise LimitError(f"{key.key}: no built-in quota can limit {key.name}")
        hard[key.name] = _smaller(hard.get(key.name), human(key.name, nano))
    return _renamed(quota, name, hard, {})


def to_deferred(quota: JsonObject, name: str) -> JsonObject:
    """Return the quota with deferred keys for built-in compute keys. Raises LimitError."""
    hard = _hard(quota)
    limits = read({key: str(text) for key, text in hard.items() if is_native_compute(key)})
    kept = {key: text for key, text in hard.items() if not is_native_compute(key)}
    for key, text in limits.hard.items():
        kept[key] = _smaller(kept.get(key), text)
    made = _renamed(quota, name, kept, {LABEL: "true"})
    if limits.aliases:
        made["metadata"]["annotations"] = {ALIAS_ANNOTATION: json.dumps(limits.aliases)}
    return made


def _renamed(
    quota: JsonObject, name: str, hard: Mapping[str, Any], labels: Mapping[str, str]
) -> JsonObject:
    meta = quota["metadata"]
    kept = {key: text for key, text in (meta.get("labels") or {}).items() if key != LABEL}
    made: JsonObject = {
        "name": name,
        "namespace": meta["namespace"],
        "labels": {**kept, **labels},
    }
    spec = {**(quota.get("spec") or {}), "hard": dict(sorted(hard.items()))}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": made, "spec": spec}
