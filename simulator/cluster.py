"""The embedded cluster: store, API server, controllers and clock, put together and running.

    async with EmbeddedCluster() as cluster:
        cluster.create(node)
        ... talk to cluster.url ...

Everything runs on the event loop that entered the context; leaving it ends every task and
connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Final, Self

import yaml

from scheduler.api.stored.priorities import BUILT_IN
from simulator.admission import AdmissionChain, AdmissionRequest, Personality
from simulator.api import Api
from simulator.autoscaler_control import AutoscalerControl
from simulator.clock import SimClock
from simulator.control import PREFIX, Control
from simulator.controllers.autoscaler import Autoscaler
from simulator.controllers.autoscaler_groups import Settings as AutoscalerSettings
from simulator.controllers.kubelet import Kubelet, Settings
from simulator.controllers.kueue import KueueController, KueueSettings
from simulator.controllers.quota import RESYNC_SECONDS, QuotaController
from simulator.controllers.resource_claims import ResourceClaimController
from simulator.controllers.runner import Controller, KubeletController, Runner
from simulator.controllers.workloads import WorkloadController
from simulator.faults import Faults
from simulator.gates import FALLBACK_GATE, WORKLOAD_GATE, ServerGates
from simulator.objects import JsonObject, copy_tree, dig, priority_class
from simulator.quota_admission import QuotaAdmission
from simulator.resources import WORKLOAD_RESOURCES, Resource, ResourceTable
from simulator.server import BOOKMARK_SECONDS, ApiServer
from simulator.store import DEFAULT_HISTORY, Store
from simulator.strategies import Surroundings
from simulator.subresources import Reviewer

NAMESPACES: Final = (
    "default",
    "kube-node-lease",
    "kube-public",
    "kube-system",
    # Where an ordinary `kubestow run` keeps its Lease.
    "kubestow-system",
)


class EmbeddedCluster:
    """A cluster in this process.

    Parameters are read at construction; serving starts with `async with`.

    `personality` `stock` behaves like v1.37, `native` also has what the KEPs add; `feature_gates`
    decides single gates of the API server and `controller_gates` those of the controllers; `gates`
    holds both and can be changed later. `controllers` names those that act from the start (by
    default all but `kueue`, which also acts when it is given settings).
    """

    def __init__(  # noqa: PLR0913 - each is an option of its own, with a default
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        personality: Personality = "stock",
        feature_gates: Mapping[str, bool] | None = None,
        controller_gates: Mapping[str, bool] | None = None,
        quota_resync_seconds: float = RESYNC_SECONDS,
        clock: SimClock | None = None,
        controllers: Collection[str] | None = None,
        kubelet: Settings | None = None,
        kueue: KueueSettings | None = None,
        autoscaler: AutoscalerSettings | None = None,
        reviewer: Reviewer | None = None,
        more_resources: tuple[Resource, ...] = (),
        history: int = DEFAULT_HISTORY,
        bookmark_seconds: float = BOOKMARK_SECONDS,
        seed: int | None = None,
    ) -> None:
        self.clock = clock or SimClock()
        self.store = Store(history=history)
        self.faults = Faults()
        self.admission = AdmissionChain()
        self.resources = ResourceTable(more_resources)
        source = random.Random(seed)
        self.gates = {
            "apiserver": ServerGates(personality, feature_gates),
            "controllers": ServerGates(personality, controller_gates, "controllers"),
        }
        around = Surroundings(self.store, self.clock, personality, self.gates["apiserver"])
        self.api = Api(
            self.store, around, self.resources, admission=self.admission, random_source=source
        )
        self.server = ApiServer(
            self.api,
            self.faults,
            reviewer=reviewer,
            bookmark_seconds=bookmark_seconds,
            random_source=source,
        )
        native = self.gates["controllers"]
        self.quotas = QuotaController(self.api, native, resync_seconds=quota_resync_seconds)
        self.kueue = KueueController(self.api, kueue)
        self.autoscaler = Autoscaler(self.api, partial(native.enabled, FALLBACK_GATE))
        if autoscaler is not None:
            self.autoscaler.configure(autoscaler)
        known = self._controllers(kubelet)
        wanted = known.keys() - {"kueue"} if controllers is None else {*controllers}
        if kueue is not None:
            wanted.add("kueue")
        self.runner = Runner(self.api, known, frozenset(known.keys() - wanted))
        self.admission.add("charging", "ResourceQuota", QuotaAdmission(self.api, around))
        self.admission.add("webhook", "kueue", self._gate, tables=["pods"], operations=["CREATE"])
        self.server.mounts[PREFIX] = self._control().handle
        self._address = (host, port)
        self._task: asyncio.Task[None] | None = None
        self._create_initial_objects()

    def _controllers(self, kubelet: Settings | None) -> dict[str, Controller]:
        nodes = Kubelet(kubelet, lambda name: self.store.get("nodes", "", name) is not None)
        return {
            "kubelet": KubeletController(self.api, nodes),
            "workloads": WorkloadController(self.api),
            "resourceclaims": ResourceClaimController(self.api),
            "quota": self.quotas,
            "kueue": self.kueue,
            "autoscaler": self.autoscaler,
        }

    def _control(self) -> Control:
        control = Control(
            self.server,
            self.clock,
            self.runner,
            self.gates,
            {"quota": self.quotas, "kueue": self.kueue},
        )
        control.add("autoscaler", AutoscalerControl(self.autoscaler, self.runner.wake))
        return control

    def _gate(self, request: AdmissionRequest) -> None:
        if self.runner.names()["kueue"]:
            self.kueue.gate(request)

    def _create_initial_objects(self) -> None:
        """Create the objects that every cluster has from the start, and serve gated kinds."""
        if self.gates["apiserver"].enabled(WORKLOAD_GATE):
            for row in WORKLOAD_RESOURCES:
                self.resources.add(row)
        for name in NAMESPACES:
            self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        for name, value in BUILT_IN.items():
            self.create(priority_class(name, value))

    @property
    def url(self) -> str:
        """http://host:port, once entered."""
        return self.server.url

    def create(self, obj: JsonObject) -> JsonObject:
        """Create an object in the process, with its status if it has one; returns it as stored.

        The object is copied. The namespace is `default` where it names none. Raises `ApiError` as
        the server would answer, LookupError for a kind it does not serve.
        """
        resource = self.resources.of_kind(str(obj.get("apiVersion")), str(obj.get("kind")))
        namespace = (dig(obj, "metadata", "namespace") or "default") if resource.namespaced else ""
        version = self.api.create(resource, namespace, copy_tree(obj))
        if obj.get("status") and resource.has_status and resource.table != "nodes":
            body = {**copy_tree(version.obj), "status": copy_tree(obj["status"])}
            version = self.api.update(
                resource, version.namespace, version.name, body, subresource="status"
            )
        return version.obj

    def get(self, api_version: str, kind: str, name: str, namespace: str = "") -> JsonObject:
        """Return an object as stored; it must not be changed. Raises `ApiError` 404."""
        resource = self.resources.of_kind(api_version, kind)
        where = (namespace or "default") if resource.namespaced else ""
        return self.api.get(resource, where, name).obj

    def write_kubeconfig(self, path: Path) -> Path:
        """Write a kubeconfig that points here; returns its path."""
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "kubestow", "cluster": {"server": self.url}}],
            "users": [{"name": "kubestow", "user": {"token": "any"}}],
            "contexts": [
                {"name": "kubestow", "context": {"cluster": "kubestow", "user": "kubestow"}}
            ],
            "current-context": "kubestow",
        }
        path.write_text(yaml.safe_dump(config), encoding="utf-8")
        return path

    async def __aenter__(self) -> Self:
        await self.server.start(*self._address)
        self.runner.attach()
        self._task = asyncio.create_task(self.runner.run(), name="kubestow-controllers")
        return self

    async def __aexit__(self, *_: object) -> None:
        self.runner.detach()
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        await self.server.stop()


async def serve(  # noqa: PLR0913 - each is an option of the command line, with a default
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    personality: Personality = "stock",
    feature_gates: Mapping[str, bool] | None = None,
    controller_gates: Mapping[str, bool] | None = None,
    autoscaler: AutoscalerSettings | None = None,
    clock_rate: float = 1.0,
    quota_resync_seconds: float = RESYNC_SECONDS,
    kueue: KueueSettings | None = None,
    kubeconfig: Path | None = None,
    stop: asyncio.Event | None = None,
    ready: asyncio.Future[EmbeddedCluster] | None = None,
) -> None:
    """Serve a cluster alone, until `stop` is set (or the task is cancelled).

    `ready` is given the running cluster, so that a command line can print its URL; `kubeconfig` is
    written before that.
    """
    cluster = EmbeddedCluster(
        host=host,
        port=port,
        personality=personality,
        feature_gates=feature_gates,
        controller_gates=controller_gates,
        autoscaler=autoscaler,
        clock=SimClock(rate=clock_rate),
        quota_resync_seconds=quota_resync_seconds,
        kueue=kueue,
    )
    async with cluster:
        if kubeconfig is not None:
            cluster.write_kubeconfig(kubeconfig)
        if ready is not None and not ready.done():
            ready.set_result(cluster)
        await (stop or asyncio.Event()).wait()
