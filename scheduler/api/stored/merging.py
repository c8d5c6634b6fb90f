"""JSON merge patch (RFC 7386), strategic merge patch, and server-side apply reduced to it.

Lists merge by the key of `MERGE_RULES` (found by the last two field names of the path, then the
last one), lists of scalars only where a rule says `SET`, every other list is replaced whole.
Understood directives: `$patch` (delete, replace, merge), `$retainKeys`, `$setElementOrder/<list>`,
`$deleteFromPrimitiveList/<list>`. Inputs are not changed.

Server-side apply here knows one owner per field manager: what that manager applied before and
leaves out now is removed, everything else is merged. There are no managedFields and no conflicts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias

JsonObject: TypeAlias = dict[str, Any]


class PatchError(ValueError):
    """A patch that cannot be applied; the text says why."""


def merge_patch(tree: JsonObject, patch: JsonObject) -> JsonObject:
    """Apply a JSON merge patch: objects merge, null removes, everything else replaces."""
    merged = dict(tree)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            below = merged.get(key)
            merged[key] = merge_patch(below if isinstance(below, dict) else {}, value)
        else:
            merged[key] = value
    return merged


class MergeRule(NamedTuple):
    """Merge of a list: by the member field `key`, or as a set of scalars when `key` is empty."""

    key: str


SET: Final = MergeRule("")

MERGE_RULES: Final[Mapping[str, MergeRule]] = {
    "conditions": MergeRule("type"),
    "containers": MergeRule("name"),
    "initContainers": MergeRule("name"),
    "ephemeralContainers": MergeRule("name"),
    "volumes": MergeRule("name"),
    "env": MergeRule("name"),
    "containers.ports": MergeRule("containerPort"),
    "initContainers.ports": MergeRule("containerPort"),
    "volumeMounts": MergeRule("mountPath"),
    "volumeDevices": MergeRule("devicePath"),
    "imagePullSecrets": MergeRule("name"),
    "secrets": MergeRule("name"),
    "hostAliases": MergeRule("ip"),
    "topologySpreadConstraints": MergeRule("topologyKey"),
    "schedulingGates": MergeRule("name"),
    "resourceClaims": MergeRule("name"),
    "resourceClaimStatuses": MergeRule("name"),
    "podIPs": MergeRule("ip"),
    "hostIPs": MergeRule("ip"),
    "status.addresses": MergeRule("type"),
    "metadata.ownerReferences": MergeRule("uid"),
    "metadata.finalizers": SET,
    "spec.finalizers": SET,
    "spec.podCIDRs": SET,
    # A Service's ports; in a pod template the parent is `containers`.
    "spec.ports": MergeRule("port"),
}
"""The merge keys of the built-in types. A resource's row may add or override some."""

CLAIM_RULES: Final[Mapping[str, MergeRule]] = {"reservedFor": MergeRule("uid")}
"""Those of ResourceClaims."""

_ORDER: Final = "$setElementOrder/"
_DELETE_SCALARS: Final = "$deleteFromPrimitiveList/"
_RETAIN: Final = "$retainKeys"
_PATCH: Final = "$patch"


class Merger:
    """Applies strategic merges with one table of rules; `rules` override the built-in ones.

    Members that a keyed list did not have go to its front, as kube-apiserver places them in a
    patch; `new_first=False` appends them, as apply does.
    """

    def __init__(
        self, rules: Mapping[str, MergeRule] | None = None, *, new_first: bool = True
    ) -> None:
        self._rules = {**MERGE_RULES, **(rules or {})}
        self._new_first = new_first

    def rule(self, parent: str, field: str) -> MergeRule | None:
        """Return the rule for the list `field` below `parent`; None when it is atomic."""
        return self._rules.get(f"{parent}.{field}") or self._rules.get(field)

    def merge(self, tree: JsonObject, patch: JsonObject, parent: str = "") -> JsonObject:
        """Apply a strategic merge patch.

        Raises:
            PatchError: a directive is unknown, or a member lacks the merge key.
        """
        directive = patch.get(_PATCH)
        if directive == "replace":
            return {key: value for key, value in patch.items() if key != _PATCH}
        if directive == "delete":
            return {}
        if directive not in (None, "merge"):
            raise PatchError(f"Unknown patch type found: {directive}")
        merged = dict(tree)
        if _RETAIN in patch:
            kept = frozenset(patch[_RETAIN])
            merged = {key: value for key, value in merged.items() if key in kept}
        for key, value in patch.items():
            if key.startswith("$"):
                continue
            if value is None:
                merged.pop(key, None)
            elif isinstance(value, dict):
                below = merged.get(key)
                merged[key] = self.merge(below if isinstance(below, dict) else {}, value, key)
            elif isinstance(value, list):
                merged[key] = self._merge_list(merged.get(key), value, parent, key)
            else:
                merged[key] = value
        self._finish_lists(merged, patch, parent)
        return merged

    def _merge_list(self, current: Any, patch: list[Any], parent: str, field: str) -> list[Any]:
        rule = self.rule(parent, field)
        items = current if isinstance(current, list) else []
        if rule is None:
            return patch
        if not rule.key:
            return [*items, *(value for value in patch if value not in items)]
        return self._merge_keyed(items, patch, rule.key, field)

    def _merge_keyed(self, items: list[Any], patch: list[Any], key: str, field: str) -> list[Any]:
        if any(isinstance(entry, dict) and entry.get(_PATCH) == "replace" for entry in patch):
            return [entry for entry in patch if _PATCH not in entry]
        merged = list(items)
        added: list[Any] = []
        for entry in patch:
            if not isinstance(entry, dict) or key not in entry:
                raise PatchError(f"map: {entry} does not contain declared merge key: {key}")
            place = next(
                (
                    n
                    for n, item in enumerate(merged)
                    if isinstance(item, dict) and item.get(key) == entry[key]
                ),
                None,
            )
            if entry.get(_PATCH) == "delete":
                if place is not None:
                    del merged[place]
            elif place is None:
                added.append(self.merge({}, entry, field))
            else:
                merged[place] = self.merge(merged[place], entry, field)
        return [*added, *merged] if self._new_first else [*merged, *added]

    def _finish_lists(self, merged: JsonObject, patch: JsonObject, parent: str) -> None:
        for directive, value in patch.items():
            if directive.startswith(_DELETE_SCALARS):
                field = directive[len(_DELETE_SCALARS) :]
                merged[field] = [item for item in merged.get(field) or [] if item not in value]
            elif directive.startswith(_ORDER):
                field = directive[len(_ORDER) :]
                if isinstance(merged.get(field), list):
                    merged[field] = self._ordered(merged[field], value, parent, field)

    def _ordered(self, items: list[Any], order: list[Any], parent: str, field: str) -> list[Any]:
        """Return members in the order of `order`.

        The others keep their place relative to the start.
        """
        rule = self.rule(parent, field)

        def identity(item: Any) -> Any:
            return item.get(rule.key) if rule and rule.key and isinstance(item, dict) else item

        places = {identity(entry): place for place, entry in enumerate(order)}
        named = sorted(
            (item for item in items if identity(item) in places), key=lambda i: places[identity(i)]
        )
        rest = iter(named)
        return [next(rest) if identity(item) in places else item for item in items]

    def apply(self, live: JsonObject, wanted: JsonObject, before: JsonObject | None) -> JsonObject:
        """Apply a configuration.

        Merges `wanted` into `live`, less what `before` owned and `wanted` dropped.
        """
        return self.merge(self._without(live, before, wanted, "") if before else live, wanted)

    def _without(
        self, live: JsonObject, before: JsonObject, wanted: JsonObject, parent: str
    ) -> JsonObject:
        pruned = dict(live)
        for key, owned in before.items():
            if key not in pruned:
                continue
            requested = wanted.get(key)
            if isinstance(owned, dict) and isinstance(pruned[key], dict):
                if key not in wanted and not owned:
                    continue
                pruned[key] = self._without(
                    pruned[key], owned, requested if isinstance(requested, dict) else {}, key
                )
                if key not in wanted and not pruned[key]:
                    del pruned[key]
            elif isinstance(owned, list) and isinstance(pruned[key], list):
                pruned[key] = self._list_without(pruned[key], owned, requested, parent, key)
                if not pruned[key] and key not in wanted:
                    del pruned[key]
            elif key not in wanted:
                del pruned[key]
        return pruned

    def _list_without(
        self, live: list[Any], owned: list[Any], requested: Any, parent: str, field: str
    ) -> list[Any]:
        rule = self.rule(parent, field)
        wanted = requested if isinstance(requested, list) else []
        if rule is None:
            return live if wanted else []
        if not rule.key:
            return [item for item in live if item not in owned or item in wanted]
        mine = {entry.get(rule.key): entry for entry in owned if isinstance(entry, dict)}
        still = {entry.get(rule.key): entry for entry in wanted if isinstance(entry, dict)}
        kept: list[Any] = []
        for item in live:
            identity = item.get(rule.key)
            if identity not in mine:
                kept.append(item)
            elif identity in still:
                kept.append(self._without(item, mine[identity], still[identity], field))
        return kept
