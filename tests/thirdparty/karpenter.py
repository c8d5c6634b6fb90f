"""Karpenter with its kwok provider against a control plane: its process, its pools and machines.

The provider creates Node objects; kwok makes them ready. This module simulates what real clouds
do and the provider cannot:

- *A slow machine*, or one that never comes: `nodeRegistrationDelay` of the provider's node class.
- *No capacity*: an admission policy writes a node class that does not exist into each new NodeClaim
  of a pool. The provider then fails with its own InsufficientCapacityError. Real providers exclude
  sold-out offers for some minutes; this one does not, so a test in which Karpenter must use the
  next pool sets the limit of the first one (`limit`).
"""

from __future__ import annotations

import http.client
import json
import urllib.request
from collections.abc import Sequence
from typing import Any, Final, Self, cast

import yaml

from devtools.control_plane.admin import ApiError
from devtools.control_plane.control_plane import ManagedProcess
from devtools.control_plane.inspecting import REQUEST_TIMEOUT_SECONDS
from devtools.control_plane.ports import LOOPBACK, free_port
from tests.envtest.workload import until
from tests.thirdparty.cluster import Cluster
from tests.thirdparty.spread import ZONE, is_true

Json = dict[str, Any]

ZONES: Final = ("zone-a", "zone-b", "zone-c")
MACHINES: Final = {"small": 4, "large": 8}
"""CPUs of each type of machine that can be bought; the provider reserves 100m of them."""

NEVER_SECONDS: Final = 3600
"""The registration delay of a machine that does not come while a test runs."""

POOLS: Final = "/apis/karpenter.sh/v1/nodepools"
CLAIMS: Final = "/apis/karpenter.sh/v1/nodeclaims"
CLASSES: Final = "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses"
POLICIES: Final = "/apis/admissionregistration.k8s.io/v1"
CAPACITY_TYPE: Final = "karpenter.sh/capacity-type"
POOL_LABEL: Final = "karpenter.sh/nodepool"
NAMESPACE: Final = "kube-system"
ACCOUNT: Final = "karpenter"
CUSTOM_RESOURCES: Final = ("pkg/apis/crds", "kwok/apis/crds")
"""Where Karpenter's module has its custom resource definitions."""


def instance_types() -> list[Json]:
    """Return the machines that can be bought, as the provider's file of instance types has them."""
    return [
        {
            "name": name,
            "architecture": "amd64",
            "operatingSystems": ["linux"],
            "resources": {"cpu": str(cpu), "memory": f"{4 * cpu}Gi", "pods": "110"},
            "offerings": [
                {
                    "Price": 0.1 * cpu,
                    "Available": True,
                    "Requirements": [
                        requirement(CAPACITY_TYPE, "on-demand"),
                        requirement(ZONE, zone),
                    ],
                }
                for zone in ZONES
            ],
        }
        for name, cpu in MACHINES.items()
    ]


def requirement(key: str, *values: str) -> Json:
    """Return the requirement that a label has one of these values."""
    return {"key": key, "operator": "In", "values": [*values]}


def install(cluster: Cluster) -> None:
    """Install the resource definitions and the permissions of Karpenter's module.

    Its permissions are in the templates of a chart, of which only the rules are needed.
    """
    sources = cluster.program("karpenter").sources
    for directory in CUSTOM_RESOURCES:
        cluster.plane.kubectl("apply", "--server-side", "-f", str(sources / directory))
    rules = [
        rule
        for template in sorted((sources / "kwok/charts/templates").glob("clusterrole*.yaml"))
        for rule in yaml.safe_load(_rules(template.read_text()))
    ]
    account = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ACCOUNT}
    path = "/apis/rbac.authorization.k8s.io/v1"
    metadata = {"metadata": {"name": ACCOUNT}}
    cluster.create(f"{path}/clusterroles", {**metadata, "rules": rules})
    binding = {**metadata, "roleRef": role, "subjects": [account]}
    cluster.create(f"{path}/clusterrolebindings", binding)
    until(
        lambda: all(cluster.admin.answers_ok(each) for each in (POOLS, CLAIMS, CLASSES)),
        "the API server serves Karpenter's resources",
    )


def _rules(template: str) -> str:
    """Return the lines after `rules:` up to the next line of the template language."""
    rules = template.split("\nrules:\n")[1]
    return rules.partition("{{")[0]


def start_karpenter(cluster: Cluster, name: str = "karpenter") -> Karpenter:
    """Start Karpenter and wait until it is ready.

    It listens on every address: it has no option for one.
    """
    types = cluster.directory / "instance-types.json"
    types.write_text(json.dumps(instance_types()))
    port, metrics_port = free_port(), free_port()
    environment = {
        "KUBECONFIG": str(cluster.kubeconfig_of(NAMESPACE, ACCOUNT)),
        "KUBERNETES_MIN_VERSION": "1.19.0-0",
        "SYSTEM_NAMESPACE": NAMESPACE,
        "DISABLE_LEADER_ELECTION": "true",
        "INSTANCE_TYPES_FILE_PATH": str(types),
        "HEALTH_PROBE_PORT": str(port),
        "METRICS_PORT": str(metrics_port),
    }
    command = [str(cluster.program("karpenter").binary)]
    process = cluster.start(name, command, port=port, environment=environment)
    return Karpenter(process, metrics_port)


class Karpenter:
    """One running Karpenter."""

    def __init__(self, process: ManagedProcess, metrics_port: int) -> None:
        self.process = process
        self._metrics_port = metrics_port

    def bought(self, fleet: Fleet) -> int:
        """Return the number of claims made for a fleet, including deleted ones."""
        url = f"http://{LOOPBACK}:{self._metrics_port}/metrics"
        with urllib.request.urlopen(url, timeout=REQUEST_TIMEOUT_SECONDS) as response:
            text = response.read().decode()
        return sum(
            int(float(line.rpartition(" ")[2]))
            for line in text.splitlines()
            if line.startswith("karpenter_nodeclaims_created_total{")
            and f'nodepool="{fleet.name}-' in line
        )


class Fleet:
    """The pools of one test, which buy machines for pods with the node selector `story: NAME`.

    The context deletes all of them, their claims and machines at its end.
    """

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster = cluster
        self.admin = cluster.admin
        self.name = name
        self._pools: list[str] = []
        self._sold_out: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for pool in [*self._sold_out]:
            self.restock(pool)
        for pool in self._pools:
            self._delete(f"{POOLS}/{pool}")
        for claim in self.claims():
            self._delete(f"{CLAIMS}/{claim}")
        until(lambda: not self.claims() and not self.machines(), "the machines are deleted")
        for pool in self._pools:
            self._delete(f"{CLASSES}/{pool}")

    # -- writing ---------------------------------------------------------------------------------

    def pool(
        self,
        name: str,
        *,
        zones: Sequence[str] = ZONES,
        machines: Sequence[str] = ("large",),
        limit: int | None = None,
        delay: int = 0,
        weight: int = 1,
        consolidate: str = "Never",
    ) -> str:
        """Create a pool and wait until Karpenter uses it; return its full name.

        Args:
            name: name of the pool, unique within this fleet.
            zones: zones of its machines.
            machines: types of its machines.
            limit: maximum number of CPUs.
            delay: seconds from launching a machine to its Node.
            weight: the pool with the largest weight is used first.
            consolidate: delay of consolidation after the last change.
        """
        full = f"{self.name}-{name}"
        self._create(
            CLASSES,
            "karpenter.kwok.sh/v1alpha1",
            "KWOKNodeClass",
            full,
            {"nodeRegistrationDelay": f"{delay}s"},
        )
        spec: Json = {
            "template": self._template(full, zones, machines),
            "weight": weight,
            "disruption": {
                "consolidationPolicy": "WhenEmptyOrUnderutilized",
                "consolidateAfter": consolidate,
                "budgets": [{"nodes": "100%"}],
            },
        }
        if limit is not None:
            spec["limits"] = {"cpu": str(limit)}
        self._create(POOLS, "karpenter.sh/v1", "NodePool", full, spec)
        self._pools.append(full)
        until(lambda: self._is_ready(full), f"{full} is ready")
        return full

    def _create(self, path: str, api_version: str, kind: str, name: str, spec: Json) -> None:
        body = {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}
        self.admin.request("POST", path, body)

    def _template(self, node_class: str, zones: Sequence[str], machines: Sequence[str]) -> Json:
        """Return the template of a pool's machines."""
        reference = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": node_class}
        return {
            "metadata": {"labels": {"story": self.name}},
            "spec": {
                "requirements": [
                    requirement(ZONE, *zones),
                    requirement("node.kubernetes.io/instance-type", *machines),
                    # Without it consolidation requires spot machines, for which there is no offer.
                    requirement(CAPACITY_TYPE, "on-demand"),
                ],
                "nodeClassRef": reference,
                "expireAfter": "Never",
            },
        }

    def limit(self, pool: str, cpu: int) -> None:
        """Change the maximum number of CPUs of a pool."""
        patch = {"spec": {"limits": {"cpu": str(cpu)}}}
        self.admin.request("PATCH", f"{POOLS}/{pool}", patch)

    def break_class(self, pool: str) -> None:
        """Delete the node class of a pool, and wait until the pool is not ready."""
        self._delete(f"{CLASSES}/{pool}")
        until(lambda: not self._is_ready(pool), f"{pool} is not ready")

    def _is_ready(self, pool: str) -> bool:
        return is_true(self.admin.request("GET", f"{POOLS}/{pool}"), "Ready")

    def sell_out(self, pool: str) -> None:
        """Make launching a machine of this pool fail for lack of capacity."""
        self._sold_out.append(pool)
        name = f"sold-out-{pool}"
        spec = 'Object.spec{nodeClassRef: Object.spec.nodeClassRef{name: "sold-out"}}'
        policy = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {
                "failurePolicy": "Fail",
                "reinvocationPolicy": "Never",
                "matchConstraints": {
                    "resourceRules": [
                        {
                            "apiGroups": ["karpenter.sh"],
                            "apiVersions": ["v1"],
                            "operations": ["CREATE"],
                            "resources": ["nodeclaims"],
                        }
                    ],
                    "objectSelector": {"matchLabels": {POOL_LABEL: pool}},
                },
                "mutations": [
                    {
                        "patchType": "ApplyConfiguration",
                        "applyConfiguration": {"expression": f"Object{{spec: {spec}}}"},
                    }
                ],
            },
        }
        self.admin.request("POST", f"{POLICIES}/mutatingadmissionpolicies", policy)
        binding = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {"policyName": name},
        }
        self.admin.request("POST", f"{POLICIES}/mutatingadmissionpolicybindings", binding)
        until(lambda: self._admitted_class(pool) == "sold-out", "the policy is in force")

    def restock(self, pool: str) -> None:
        """Make capacity available again."""
        self._sold_out.remove(pool)
        name = f"sold-out-{pool}"
        self._delete(f"{POLICIES}/mutatingadmissionpolicybindings/{name}")
        self._delete(f"{POLICIES}/mutatingadmissionpolicies/{name}")
        until(lambda: self._admitted_class(pool) == pool, "the policy is no longer in force")

    def _admitted_class(self, pool: str) -> str:
        """Return the node class that a new claim of the pool gets, found by a dry run."""
        body = {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodeClaim",
            "metadata": {"name": f"{pool}-probe", "labels": {POOL_LABEL: pool}},
            "spec": {
                "requirements": [],
                "nodeClassRef": {
                    "group": "karpenter.kwok.sh",
                    "kind": "KWOKNodeClass",
                    "name": pool,
                },
            },
        }
        claim = self.admin.request("POST", f"{CLAIMS}?dryRun=All", body)
        return str(cast("Json", claim["spec"])["nodeClassRef"]["name"])

    def _delete(self, path: str) -> None:
        try:
            self.admin.request("DELETE", path)
        except ApiError as error:
            if error.status != http.HTTPStatus.NOT_FOUND:
                raise

    # -- reading ---------------------------------------------------------------------------------

    def claims(self) -> dict[str, Json]:
        """Return the claims of this fleet by name."""
        return self._items(CLAIMS)

    def machines(self) -> dict[str, Json]:
        """Return the Nodes of this fleet by name, including those that are being deleted."""
        return self._items("/api/v1/nodes")

    def _items(self, path: str) -> dict[str, Json]:
        items = cast("list[Json]", self.admin.request("GET", path)["items"])
        return {
            item["metadata"]["name"]: item
            for item in items
            if item["metadata"].get("labels", {}).get(POOL_LABEL) in self._pools
        }

    def events(self, reason: str) -> list[Json]:
        """Return Karpenter's events of a reason about pods or claims of this fleet."""
        return [
            item
            for item in cast("list[Json]", self.admin.request("GET", "/api/v1/events")["items"])
            if item["reason"] == reason
            and item["source"].get("component") == "karpenter"
            and item["involvedObject"]["name"].startswith(self.name)
            | (item["involvedObject"].get("namespace") == self.name)
        ]
