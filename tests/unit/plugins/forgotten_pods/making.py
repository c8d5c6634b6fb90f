"""Changes made from numbers, so that a run tries thousands of dense worlds.

Hypothesis can leave out those changes that a failure does not need. The alphabets are tiny, so that
the parts of a world often have to do with each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final

from tests.unit.plugins.forgotten_pods.changes import CSI, ZONE, Change

HOST: Final = "kubernetes.io/hostname"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_NAMES: Final = ("n0", "n1", "n2")
_PODS: Final = ("p0", "p1", "p2", "p3", "p4", "p5")
_SPACES: Final = ("default", "default", "team")
_CLAIMS: Final = ("c0", "c1")
_VOLUMES: Final = ("v0", "v1")
_STORAGES: Final = ("now", "later")
_DEVICE_CLAIMS: Final = ("d0", "d1")
_ZONES: Final = ("", "z0", "z1")
_LABELS: Final[tuple[dict[str, str], ...]] = (
    {"app": "a"},
    {"app": "a"},
    {"app": "b"},
    {"app": "a", "tier": "x"},
    {},
)
_DOMAINS: Final[tuple[dict[str, str], ...]] = (
    {ZONE: "z0"},
    {ZONE: "z1"},
    {ZONE: "z0", "rack": "r"},
    {"rack": "r"},
    {},
)
_TAINTS: Final = (
    (),
    (),
    (),
    ("a=:NoSchedule",),
    ("a=:NoSchedule", "b=1:NoExecute"),
    ("a=:PreferNoSchedule",),
)
_TOLERATIONS: Final[tuple[list[dict[str, str]], ...]] = (
    [],
    [{"key": "a", "operator": "Exists"}],
    [{"operator": "Exists"}],
    [{"key": "b", "value": "1", "effect": "NoExecute"}],
)
_SELECTORS: Final[tuple[dict[str, Any], ...]] = (
    {"matchLabels": {"app": "a"}},
    {"matchLabels": {"app": "a"}},
    {"matchLabels": {"app": "b"}},
    {"matchLabels": {"app": "a", "tier": "x"}},
    {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["a"]}]},
    {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]},
    {},
)
_SPACE_SELECTORS: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"matchLabels": {"team": "t"}},
    {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["t"]}]},
    {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]},
)
_NODE_TERMS: Final[tuple[list[dict[str, Any]], ...]] = (
    [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["z0"]}]}],
    [{"matchExpressions": [{"key": ZONE, "operator": "NotIn", "values": ["z0"]}]}],
    [
        {"matchExpressions": [{"key": "rack", "operator": "DoesNotExist"}]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]},
    ],
)


class Maker:
    """Makes one change."""

    def __init__(self, number: int) -> None:
        self._random = Random(number)
        self._choice = self._random.choice
        self._rejecting = True

    def change(self, focus: str) -> Change:
        """Return a change of a kind that matters to the focus, a key of `FOCI`."""
        name = self._choice(FOCI[focus])
        self._rejecting = focus in _REJECTING
        arguments: Mapping[str, Any] = getattr(self, f"_{name}")(*OPTIONS.get(focus, ()))
        return name, arguments

    def pause(self) -> float | None:
        """Return the seconds until the next change; None: nothing is on its way any more then."""
        return self._choice((0.0, 0.3, 2.0, 15.0)) if self._maybe(0.3) else None

    def _maybe(self, share: float) -> bool:
        return self._random.random() < share

    # -- pods ------------------------------------------------------------------------------------

    def _pod(self, *options: str) -> dict[str, Any]:
        made: dict[str, Any] = {
            "name": self._choice(_PODS),
            "namespace": self._choice(_SPACES),
            "labels": self._choice(_LABELS),
            "cpu": self._choice(("100m", "1", "3")) if self._rejecting else "100m",
            "priority": self._choice((0, 0, 10)),
            "node": self._choice(_NAMES) if self._maybe(0.4) else "",
            "spec": {"terminationGracePeriodSeconds": self._choice((0, 0, 30))},
        }
        if not made["node"] and self._maybe(0.05):
            made["spec"]["schedulingGates"] = [{"name": "example.com/gate"}]
        for each in options:
            if self._maybe(1.5 / (1 + len(options))):
                getattr(self, f"_with_{each}")(made)
        return made

    def _with_amounts(self, made: dict[str, Any]) -> None:
        made["gpus"] = self._choice((0, 1, 2))
        made["cpu"] = self._choice(("1", "2", "3"))

    def _with_ports(self, made: dict[str, Any]) -> None:
        ports: list[dict[str, Any]] = [{"containerPort": 80, "hostPort": self._choice((80, 81))}]
        if self._maybe(0.3):
            ports[0]["hostIP"] = self._choice(("10.0.0.1", "10.0.0.2"))
        made["ports"] = ports

    def _with_tolerations(self, made: dict[str, Any]) -> None:
        made["spec"]["tolerations"] = self._choice(_TOLERATIONS)

    def _with_node_selector(self, made: dict[str, Any]) -> None:
        made["spec"]["nodeSelector"] = self._choice(({ZONE: "z0"}, {"rack": "r"}))

    def _with_node_affinity(self, made: dict[str, Any]) -> None:
        terms = {"nodeSelectorTerms": self._choice(_NODE_TERMS)}
        made["spec"].setdefault("affinity", {})["nodeAffinity"] = {_REQUIRED: terms}

    def _with_affinity(self, made: dict[str, Any]) -> None:
        for side in self._choice(
            (["podAffinity"], ["podAntiAffinity"], ["podAffinity", "podAntiAffinity"])
        ):
            terms = [self._term() for _ in range(self._choice((1, 1, 2)))]
            made["spec"].setdefault("affinity", {})[side] = {_REQUIRED: terms}

    def _term(self) -> dict[str, Any]:
        made: dict[str, Any] = {
            "topologyKey": self._choice((HOST, ZONE, ZONE, "rack")),
            "labelSelector": self._choice(_SELECTORS),
        }
        if self._maybe(0.5):
            made["namespaceSelector"] = self._choice(_SPACE_SELECTORS)
        if self._maybe(0.2):
            made["namespaces"] = [self._choice(_SPACES)]
        return made

    def _with_spreading(self, made: dict[str, Any]) -> None:
        made["spec"]["topologySpreadConstraints"] = constraints = []
        for key in self._random.sample((HOST, ZONE, "rack"), self._choice((1, 1, 2))):
            constraint: dict[str, Any] = {
                "maxSkew": self._choice((1, 1, 2)),
                "topologyKey": key,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": self._choice(_SELECTORS),
            }
            for field, values in (
                ("minDomains", (2, 3)),
                ("nodeAffinityPolicy", ("Honor", "Ignore")),
                ("nodeTaintsPolicy", ("Honor", "Ignore")),
                ("matchLabelKeys", (["tier"],)),
            ):
                if self._maybe(0.3):
                    constraint[field] = self._choice(values)
            constraints.append(constraint)

    def _with_volumes(self, made: dict[str, Any]) -> None:
        names = self._random.sample(_CLAIMS, self._choice((1, 1, 2)))
        volumes: list[dict[str, Any]] = [
            {"name": each, "persistentVolumeClaim": {"claimName": each}} for each in names
        ]
        if self._maybe(0.2):
            volumes = [{"name": "disk", "gcePersistentDisk": {"pdName": "disk"}}]
        made["spec"]["volumes"] = volumes

    def _with_devices(self, made: dict[str, Any]) -> None:
        names = self._random.sample(_DEVICE_CLAIMS, self._choice((1, 1, 2)))
        made["spec"]["resourceClaims"] = [
            {"name": each, "resourceClaimName": each} for each in names
        ]

    def _no_pod(self, *_options: str) -> dict[str, Any]:
        return {"name": self._choice(_PODS), "namespace": self._choice(_SPACES)}

    def _relabel(self, *_options: str) -> dict[str, Any]:
        return {**self._no_pod(), "labels": self._choice(_LABELS)}

    def _tolerate(self, *_options: str) -> dict[str, Any]:
        return {**self._no_pod(), "tolerations": self._choice(_TOLERATIONS)}

    # -- everything else -------------------------------------------------------------------------

    def _node(self, *_options: str) -> dict[str, Any]:
        return {
            "name": self._choice(_NAMES),
            "labels": self._choice(_DOMAINS),
            "taints": self._choice(_TAINTS) if self._rejecting or self._maybe(0.2) else (),
            "cpu": self._choice((1, 2, 4)) if self._rejecting else 8,
            "pods": self._choice((1, 2, 110, 110)) if self._rejecting else 110,
            "unschedulable": self._maybe(0.15 if self._rejecting else 0.05),
            "gpus": self._choice((0, 1, 2)),
        }

    def _no_node(self, *_options: str) -> dict[str, Any]:
        return {"name": self._choice(_NAMES)}

    def _namespace(self, *_options: str) -> dict[str, Any]:
        labels: dict[str, str] = self._choice(({}, {"team": "t"}, {"team": "u"}))
        return {"name": self._choice(_SPACES), "labels": labels}

    def _quota(self, *_options: str) -> dict[str, Any]:
        cpu = self._choice((100, 1000, 2000, 5000, None))
        return {"namespace": self._choice(_SPACES), "cpu": cpu}

    def _no_claim(self, *_options: str) -> dict[str, Any]:
        return {"name": self._choice(_CLAIMS), "namespace": self._choice(_SPACES)}

    def _claim(self, *_options: str) -> dict[str, Any]:
        return {
            **self._no_claim(),
            "storage": self._choice(_STORAGES),
            "volume": self._choice(("", "", *_VOLUMES)),
            "modes": self._choice((["ReadWriteOnce"], ["ReadWriteOncePod"])),
        }

    def _volume(self, *_options: str) -> dict[str, Any]:
        return {
            "name": self._choice(_VOLUMES),
            "storage": self._choice(_STORAGES),
            "zone": self._choice(_ZONES),
            "zone_label": self._choice(_ZONES),
        }

    def _storage_class(self, *_options: str) -> dict[str, Any]:
        zones: list[str] = self._choice(([], ["z0"], ["z1"]))
        provisioner = self._choice((CSI, "kubernetes.io/no-provisioner"))
        return {"name": self._choice(_STORAGES), "provisioner": provisioner, "zones": zones}

    def _csi_node(self, *_options: str) -> dict[str, Any]:
        return {"name": self._choice(_NAMES), "count": self._choice((0, 1, 5))}

    def _no_csi_node(self, *_options: str) -> dict[str, Any]:
        return {"name": self._choice(_NAMES)}

    def _no_volume(self, *_options: str) -> dict[str, Any]:
        return {"name": self._choice(_VOLUMES)}

    def _no_storage_class(self, *_options: str) -> dict[str, Any]:
        return {"name": self._choice(_STORAGES)}

    def _driver(self, *_options: str) -> dict[str, Any]:
        return {"capacity": self._maybe(0.5)}

    def _capacity(self, *_options: str) -> dict[str, Any]:
        size = self._choice(("0", "10Gi"))
        return {"storage": self._choice(_STORAGES), "zone": self._choice(_ZONES[1:]), "size": size}

    _no_capacity = _capacity

    def _attachment(self, *_options: str) -> dict[str, Any]:
        return {"node": self._choice(_NAMES), "volume": self._choice(_VOLUMES)}

    _no_attachment = _attachment
    _open_gates = _no_pod

    def _device_class(self, *_options: str) -> dict[str, Any]:
        return {"name": self._choice(("gpu", "net")), "extended": self._maybe(0.3)}

    def _no_device_class(self, *_options: str) -> dict[str, Any]:
        return {"name": self._choice(("gpu", "net"))}

    def _slice(self, *_options: str) -> dict[str, Any]:
        devices = self._choice((0, 1, 2))
        return {"node": self._choice(_NAMES), "devices": devices, "tainted": self._maybe(0.3)}

    def _no_slice(self, *_options: str) -> dict[str, Any]:
        return {"node": self._choice(_NAMES)}

    def _no_device_claim(self, *_options: str) -> dict[str, Any]:
        return {"name": self._choice(_DEVICE_CLAIMS), "namespace": self._choice(_SPACES)}

    def _device_claim(self, *_options: str) -> dict[str, Any]:
        kind, count = self._choice(("gpu", "gpu", "net")), self._choice((1, 1, 2))
        return {**self._no_device_claim(), "kind": kind, "count": count}


_COMMON: Final = (*("pod",) * 7, *("no_pod",) * 3, *("node",) * 4, "no_node")
_VOLUME_CHANGES: Final = (
    *("claim", "claim", "no_claim", "volume", "volume", "no_volume"),
    *("storage_class", "no_storage_class", "csi_node", "csi_node", "no_csi_node"),
    *("driver", "driver", "capacity", "capacity", "no_capacity", "attachment", "no_attachment"),
)

_DEVICE_CHANGES: Final = (
    *("device_class", "no_device_class", "slice", "slice", "no_slice"),
    *("device_claim", "device_claim", "no_device_claim"),
)
FOCI: Final[Mapping[str, Sequence[str]]] = {
    "affinity": (*_COMMON, "relabel", "relabel", "namespace"),
    "spread": (*_COMMON, "relabel", "tolerate"),
    "nodes": (*_COMMON, "tolerate"),
    "resources": _COMMON,
    "volumes": (*_COMMON, *_VOLUME_CHANGES),
    "devices": (*_COMMON, *_DEVICE_CHANGES),
    "quota": (*_COMMON, *("quota",) * 3, "open_gates"),
    "everything": (
        *(*_COMMON, *_COMMON, *_VOLUME_CHANGES, *_DEVICE_CHANGES),
        *("relabel", "namespace", "tolerate", "quota"),
    ),
}
"""Kinds of changes by what they are about: few parts at a time have more to do with each other."""
OPTIONS: Final[Mapping[str, Sequence[str]]] = {
    "affinity": ("affinity",),
    "spread": ("spreading", "spreading", "tolerations", "node_selector"),
    "nodes": ("tolerations", "node_selector", "node_affinity"),
    "resources": ("amounts", "ports"),
    "volumes": ("volumes",),
    "devices": ("devices", "amounts"),
    "quota": ("amounts",),
    "everything": (
        *("affinity", "spreading", "tolerations", "node_selector", "node_affinity"),
        *("amounts", "ports", "volumes", "devices"),
    ),
}
"""What the pods of a focus may have."""

_REJECTING: Final = ("nodes", "resources", "quota", "everything")
"""Foci in which nodes often reject pods for reasons of their own."""

BEGINNING: Final[tuple[Change, ...]] = (
    ("node", {"name": "n0", "labels": {ZONE: "z0", "rack": "r"}, "gpus": 1}),
    ("node", {"name": "n1", "labels": {ZONE: "z1"}, "gpus": 0}),
    ("namespace", {"name": "team", "labels": {"team": "t"}}),
    *(("csi_node", {"name": name, "count": 1}) for name in ("n0", "n1")),
    ("storage_class", {"name": "now", "provisioner": CSI, "zones": []}),
    ("storage_class", {"name": "later", "provisioner": CSI, "zones": []}),
    *(
        (
            "claim",
            {
                "name": name,
                "namespace": "default",
                "storage": "later",
                "volume": "",
                "modes": ["ReadWriteOnce"],
            },
        )
        for name in _CLAIMS
    ),
    ("device_class", {"name": "gpu"}),
    ("slice", {"node": "n0", "devices": 2}),
    *(
        ("device_claim", {"name": name, "namespace": "default", "kind": "gpu", "count": 1})
        for name in _DEVICE_CLAIMS
    ),
)
"""What is there at first."""
