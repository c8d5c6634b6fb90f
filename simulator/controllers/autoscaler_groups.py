"""Settings and node groups of a simulated autoscaler, decoded strictly.

    flavor: cluster-autoscaler
    groups:
      - name: zone-b
        zone: eu-1b
        template: {allocatable: {cpu: "4", memory: 16Gi, pods: "110"}}
        max: 3
        state: stockout

Pure data and its checks: an error names the field by its path and the expected value.
"""

from __future__ import annotations

import re
from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec

from scheduler.api import QuantityError, Taint, parse_quantity
from simulator.objects import JsonObject, decode_json, encode_json

GROUP_LABEL: Final = "kubestow.io/node-group"
"""Names the group of a node. Nodes that stand already count when they carry it."""
ZONE_LABEL: Final = "topology.kubernetes.io/zone"

Flavor: TypeAlias = Literal["cluster-autoscaler", "karpenter"]
State: TypeAlias = Literal["ok", "refuse", "stockout", "hang", "off"]
STATES: Final[dict[str, str]] = {
    "ok": "nodes come after provisionSeconds",
    "refuse": "the cloud refuses the request to grow, at once",
    "stockout": "the cloud accepts the request; the instances fail after provisionSeconds",
    "hang": "the cloud accepts the request; nothing ever comes",
    "off": "the autoscaler does not know the group",
}
"""Every state and what it does."""
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_ALLOCATABLE: Final[dict[str, str | int]] = {"cpu": "4", "memory": "16Gi", "pods": "110"}


class GroupError(ValueError):
    """Settings or a group that make no sense; the text begins with the field's path."""


class TaintTemplate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A taint of new nodes."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


class NodeTemplate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Properties of a new node."""

    labels: dict[str, str] = {}
    taints: tuple[TaintTemplate, ...] = ()
    allocatable: dict[str, str | int] = msgspec.field(default_factory=lambda: dict(_ALLOCATABLE))


class NodeGroup(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"
):
    """A group of like nodes that the autoscaler may let grow."""

    name: str
    zone: str = ""
    """Label topology.kubernetes.io/zone of its nodes."""
    template: NodeTemplate = msgspec.field(default_factory=NodeTemplate)
    min: int = 0
    """Minimum number of nodes, even without pods that need them."""
    max: int = 10
    state: State = "ok"
    provision_seconds: float = 30.0
    """From the request to the node, or to the failure in state stockout; simulated time."""

    def labels(self, node: str) -> dict[str, str]:
        """Return labels of a node of this group."""
        zone = {ZONE_LABEL: self.zone} if self.zone else {}
        return {
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            **zone,
            **self.template.labels,
            "kubernetes.io/hostname": node,
            GROUP_LABEL: self.name,
        }

    def taints(self) -> tuple[Taint, ...]:
        """Return taints of its nodes, as scheduling reads them."""
        return tuple(
            Taint(key=each.key, value=each.value, effect=each.effect)
            for each in self.template.taints
        )

    def node(self, name: str) -> JsonObject:
        """Build a new node, ready at once."""
        taints = [
            {"key": each.key, "value": each.value, "effect": each.effect}
            for each in self.template.taints
        ]
        amounts = {key: str(amount) for key, amount in self.template.allocatable.items()}
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": self.labels(name)},
            "spec": {"taints": taints} if taints else {},
            "status": {
                "capacity": amounts,
                "allocatable": dict(amounts),
                "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
                "nodeInfo": {"kubeletVersion": "v1.37.2", "operatingSystem": "linux"},
            },
        }


class Settings(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"
):
    """An autoscaler. Times are simulated seconds; the defaults are cluster-autoscaler's."""

    flavor: Flavor = "cluster-autoscaler"
    """Whose events it writes, and leaves out. `karpenter` also keeps NodeClaims."""
    scan_interval: float = 10.0
    """Between two loops."""
    backoff: float = 300.0
    """How long a group that failed is left alone."""
    max_node_provision_time: float = 900.0
    """After which a node that did not come is given up."""
    limit_events: bool = True
    """One event for each pod and reason in five minutes, as cluster-autoscaler does without
    `--record-duplicated-events`. Karpenter has no such switch."""
    max_nodes_total: int = 0
    """Nodes of the whole cluster; 0: no limit."""
    groups: tuple[NodeGroup, ...] = ()
    """In the order in which they are tried."""

    def with_group(self, group: NodeGroup) -> Settings:
        """Return settings with a group added, or replaced if it has the same name."""
        names = [each.name for each in self.groups]
        if group.name in names:
            place = names.index(group.name)
            groups = (*self.groups[:place], group, *self.groups[place + 1 :])
        else:
            groups = (*self.groups, group)
        return msgspec.structs.replace(self, groups=groups)

    def without_group(self, name: str) -> Settings:
        """Return settings without one group."""
        kept = tuple(group for group in self.groups if group.name != name)
        return msgspec.structs.replace(self, groups=kept)

    def group(self, name: str) -> NodeGroup | None:
        """Return a group by name."""
        return next((group for group in self.groups if group.name == name), None)


def parse_settings(data: object, base: Settings | None = None) -> Settings:
    """Read settings from decoded JSON or YAML; absent fields come from `base`.

    Raises `GroupError`.
    """
    given = _object(data, "settings")
    found: Settings = _converted({**_plain(base or Settings()), **given}, Settings, "")
    for name in ("scanInterval", "backoff", "maxNodeProvisionTime"):
        value = msgspec.to_builtins(found)[name]
        if value <= 0:
            raise GroupError(f"{name}: {value:g} is no time; want seconds above 0")
    if found.max_nodes_total < 0:
        raise GroupError(f"maxNodesTotal: {found.max_nodes_total} is negative; 0 means no limit")
    seen: set[str] = set()
    for place, group in enumerate(found.groups):
        path = f"groups[{place}]."
        _check_group(group, path)
        if group.name in seen:
            raise GroupError(f"{path}name: a second group {group.name}")
        seen.add(group.name)
    return found


def parse_group(data: object, base: NodeGroup | None = None) -> NodeGroup:
    """Read one group; absent fields come from `base`. Raises `GroupError`."""
    given = _object(data, "group")
    if base is None and "name" not in given:
        raise GroupError("name: missing; want the name of the group")
    if base is not None and given.get("name", base.name) != base.name:
        raise GroupError(f"name: {given['name']!r} is not the group in the path, {base.name}")
    whole = {**_plain(base), **given} if base is not None else given
    found: NodeGroup = _converted(whole, NodeGroup, "")
    _check_group(found, "")
    return found


def _plain(value: Settings | NodeGroup) -> JsonObject:
    plain: JsonObject = decode_json(encode_json(value))
    return plain


def _object(data: object, what: str) -> dict[str, Any]:
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise GroupError(f"{what}: want an object with fields, not {type(data).__name__}")
    return data


def _converted(data: object, wanted: Any, prefix: str) -> Any:
    try:
        return msgspec.convert(data, wanted)
    except msgspec.ValidationError as error:
        text = str(error)
        what, _, path = text.partition(" - at `$")
        field = path.removesuffix("`").lstrip(".")
        if "enum value" in what:
            choices = get_args(State if field.endswith("state") else Flavor)
            what += f"; want one of {', '.join(choices)}"
        if "unknown field" in what:
            unknown = what.partition("`")[2].rstrip("`")
            field = f"{field}.{unknown}" if field else unknown
            what = "no such field"
        raise GroupError(f"{prefix}{field}: {what}" if field else f"{prefix}{what}") from error


def _check_group(group: NodeGroup, path: str) -> None:
    if not _NAME.fullmatch(group.name) or len(group.name) > 50:
        raise GroupError(
            f"{path}name: {group.name!r}; want lower case letters, digits and '-', at most 50"
        )
    if group.min < 0:
        raise GroupError(f"{path}min: {group.min} is negative")
    if group.max < group.min:
        raise GroupError(f"{path}max: {group.max} is less than min, {group.min}")
    if group.provision_seconds < 0:
        raise GroupError(f"{path}provisionSeconds: {group.provision_seconds:g} is negative")
    for place, taint in enumerate(group.template.taints):
        if taint.effect not in _EFFECTS:
            raise GroupError(
                f"{path}template.taints[{place}].effect: {taint.effect!r}; want one of "
                + ", ".join(_EFFECTS)
            )
    for name, amount in group.template.allocatable.items():
        try:
            parse_quantity(amount)
        except QuantityError as error:
            raise GroupError(f"{path}template.allocatable[{name}]: {error}") from error
