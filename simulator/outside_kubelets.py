"""Fake nodes for a real API server: `python -m simulator.outside_kubelets --kubeconfig FILE`.

Registers nodes and plays their kubelets: renews their Leases, keeps them ready, lets allocatable
follow capacity, and starts, ends and removes the pods that are bound to them, as
`simulator.controllers.kubelet` decides. No container runs. With a scheduler and
kube-controller-manager beside it, a bare control plane behaves like a cluster.

    kubelets = OutsideKubelets(client, [NodeTemplate("simulated-0", "10.0.0.10")])
    task = asyncio.create_task(kubelets.run())
    await kubelets.ready.wait()

Invariant: only nodes with the label `kubestow.io/simulated`, and only pods on them, are written to:
pointed at a cluster with machines by mistake it does no harm there. Whatever is refused or gets no
answer is decided anew from the object as it is a second later.
"""

from __future__ import annotations

import argparse
import asyncio
import math
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

import structlog

from scheduler.api.meta import Named
from scheduler.client.clock import micro_time
from scheduler.client.configuration import load_configuration
from scheduler.client.deltas import Delta, DeltaType, ReflectorOptions
from scheduler.client.errors import ApiError, RequestError
from scheduler.client.reflector import Reflector
from scheduler.client.request_sender import MERGE_PATCH, STRATEGIC_MERGE_PATCH
from scheduler.client.resources import Resource
from scheduler.client.rest import ApiClient
from scheduler.client.transport import Transport
from simulator.controllers.kubelet import Action, Kubelet, PatchStatus, Settings
from simulator.controllers.node_status import (
    LEASE_NAMESPACE,
    RENEW_SECONDS,
    SIMULATED_LABEL,
    NodeTemplate,
    correction,
    lease,
    registration,
)
from simulator.objects import JsonObject, decode_json, dig

PARALLEL_WRITES: Final = 16
RETRY_SECONDS: Final = 1.0
SLICE: Final = 64
"""Actions taken from the kubelet at a time."""

# Decoded as far as the reflector needs; what is looked at is the JSON that it keeps.
_PODS: Final = Resource("", "v1", "pods", Named, kind="Pod")
_NODES: Final = Resource("", "v1", "nodes", Named, kind="Node", namespaced=False)
_LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", Named, kind="Lease")

Request: TypeAlias = Callable[[], Coroutine[Any, Any, object]]
"""Sends one request when called."""

_NOT_FOUND: Final = 404
_CONFLICT: Final = 409

_log = structlog.get_logger(__name__)


class NodeTakenError(Exception):
    """A node of that name exists and is not simulated."""


class OutsideKubelets:
    """The kubelets of some nodes, over an API server elsewhere. Run `run` in a task of yours."""

    def __init__(
        self,
        client: ApiClient,
        templates: Sequence[NodeTemplate],
        settings: Settings | None = None,
    ) -> None:
        self._client = client
        self._clock = client.clock
        self._templates = {template.name: template for template in templates}
        self._kubelet = Kubelet(settings)
        self._wake = asyncio.Event()
        self._free = asyncio.Semaphore(PARALLEL_WRITES)
        self._writes: set[asyncio.Task[None]] = set()
        self._pods = Reflector(
            client,
            _PODS,
            self._see_pods,
            options=ReflectorOptions(field_selector="spec.nodeName!="),
            keep_raw=_always,
        )
        self._nodes = Reflector(client, _NODES, self._see_nodes, keep_raw=_always)
        self.ready = asyncio.Event()
        """Set when the nodes are registered, have Leases, and their pods are known."""

    async def run(self) -> None:
        """Register the nodes and play their kubelets until cancelled; the nodes stay.

        Raises:
            NodeTakenError: a node of that name exists and is not simulated.
            RequestError: the nodes could not be registered.
        """
        for template in self._templates.values():
            await self._register(template)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._nodes.run())
                group.create_task(self._pods.run())
                group.create_task(self._renew_leases())
                group.create_task(self._work())
        finally:
            for write in self._writes:
                write.cancel()

    # ---------------------------------------------------------------------------------------- nodes

    async def _register(self, template: NodeTemplate) -> None:
        try:
            await self._client.create(_NODES, registration(template, self._clock.now()))
        except ApiError as error:
            if error.status != _CONFLICT:
                raise
            found = await self._client.get(_NODES, template.name)
            if SIMULATED_LABEL not in found.metadata.labels:
                msg = (
                    f"node {template.name} exists without the label {SIMULATED_LABEL}: it has a "
                    "kubelet of its own; choose other names (--prefix)"
                )
                raise NodeTakenError(msg) from error

    def _see_nodes(self, batch: Sequence[Delta[Named]]) -> None:
        for delta in batch:
            if delta.type is not DeltaType.DELETED:
                self._look_at_node(delta.object.metadata.name)

    def _look_at_node(self, name: str) -> None:
        node = self._node(name)
        patch = None if node is None else correction(node, self._clock.now())
        if node is None or patch is None:
            return
        # With the version it was decided on: who writes at the same time is not overruled.
        version = node["metadata"]["resourceVersion"]
        body = {"metadata": {"resourceVersion": version}, "status": patch}
        patching = partial(
            self._client.patch,
            _NODES,
            name,
            body=body,
            patch_type=MERGE_PATCH,
            subresource="status",
        )
        self._write(patching, name)

    def _node(self, name: str) -> JsonObject | None:
        """Return one of the simulated nodes as last seen."""
        raw = self._nodes.store.raw(name) if name in self._templates else None
        return None if raw is None else _object(raw)

    async def _renew_leases(self) -> None:
        await self._nodes.synced.wait()
        while True:
            for name in self._templates:
                await self._renew_lease(name)
            if not self.ready.is_set():
                await self._pods.synced.wait()
                self.ready.set()
            await self._clock.sleep(RENEW_SECONDS)

    async def _renew_lease(self, name: str) -> None:
        node = self._node(name)
        if node is None:
            return
        body = lease(node, micro_time(self._clock.now()))
        spec = {"spec": body["spec"]}
        try:
            try:
                await self._client.patch(
                    _LEASES, name, LEASE_NAMESPACE, body=spec, patch_type=MERGE_PATCH
                )
            except ApiError as error:
                if error.status != _NOT_FOUND:
                    raise
                await self._client.create(_LEASES, body, LEASE_NAMESPACE)
        except RequestError as error:
            _log.warning("lease not renewed", node=name, error=str(error))

    # ----------------------------------------------------------------------------------------- pods

    def _see_pods(self, batch: Sequence[Delta[Named]]) -> None:
        for delta in batch:
            metadata = delta.object.metadata
            if delta.type is DeltaType.DELETED:
                self._kubelet.forget(metadata.namespace, metadata.name)
            else:
                self._look_at_pod(metadata.namespace, metadata.name)

    def _look_at_pod(self, namespace: str, name: str) -> None:
        raw = self._pods.store.raw(name, namespace)
        if raw is None:
            return
        pod = _object(raw)
        if dig(pod, "spec", "nodeName") in self._templates:
            self._kubelet.observe(pod, self._clock.now())
            self._wake.set()

    async def _work(self) -> None:
        while True:
            self._wake.clear()
            now = self._clock.now()
            for action in self._kubelet.due(now, SLICE):
                self._write(partial(self._carry_out, action), action.name, action.namespace)
            due = self._kubelet.next_due()
            try:
                async with asyncio.timeout(None if due is None else max(0.0, due - now)):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def _carry_out(self, action: Action) -> None:
        if isinstance(action, PatchStatus):
            # The UID is a precondition: a pod of the same name that came since gives a conflict.
            body = {"metadata": {"uid": action.uid}, "status": action.patch}
            await self._client.patch(
                _PODS,
                action.name,
                action.namespace,
                body=body,
                patch_type=STRATEGIC_MERGE_PATCH,
                subresource="status",
            )
        else:
            await self._client.delete(
                _PODS, action.name, action.namespace, uid=action.uid, grace_period_seconds=0
            )

    # --------------------------------------------------------------------------------------- writes

    def _write(self, request: Request, name: str, namespace: str = "") -> None:
        task = asyncio.create_task(self._send(request, name, namespace))
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)

    async def _send(self, request: Request, name: str, namespace: str) -> None:
        async with self._free:
            try:
                await request()
            except RequestError as error:
                gone = isinstance(error, ApiError) and error.status in (_NOT_FOUND, _CONFLICT)
                if not gone:
                    _log.warning("write failed", namespace=namespace, name=name, error=str(error))
            else:
                return
        await self._clock.sleep(RETRY_SECONDS)
        if namespace:
            self._look_at_pod(namespace, name)
        else:
            self._look_at_node(name)


def _always(_item: Named) -> bool:
    return True


def _object(raw: bytes) -> JsonObject:
    decoded: JsonObject = decode_json(raw)
    return decoded


def templates(count: int, *, zones: int = 1, prefix: str = "simulated-") -> list[NodeTemplate]:
    """Return `count` nodes of the default size, spread over `zones`.

    >>> [(node.name, node.zone) for node in templates(3, zones=2)]
    [('simulated-0', 'zone-0'), ('simulated-1', 'zone-1'), ('simulated-2', 'zone-0')]
    """
    return [
        NodeTemplate(
            name=f"{prefix}{number}",
            # Of a block reserved for benchmarks (RFC 2544): nothing answers there.
            address=f"198.18.{number // 254}.{number % 254 + 1}",
            zone=f"zone-{number % zones}",
        )
        for number in range(count)
    ]


async def _main(options: argparse.Namespace) -> None:
    nodes = templates(options.nodes, zones=options.zones, prefix=options.prefix)
    configuration = await load_configuration(kubeconfig=options.kubeconfig)
    settings = Settings(run_seconds=options.run_seconds)
    async with Transport(configuration) as transport:
        client = ApiClient(transport, user_agent="kubestow-simulated-kubelets")
        kubelets = OutsideKubelets(client, nodes, settings)
        task = asyncio.create_task(kubelets.run())
        ready = asyncio.create_task(kubelets.ready.wait())
        await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED)
        if ready.done():
            print(f"{len(nodes)} simulated nodes are ready at {configuration.server}", flush=True)
        await task


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line until interrupted."""
    parser = argparse.ArgumentParser(
        prog="python -m simulator.outside_kubelets", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--kubeconfig", help="as for kubectl where it is left out")
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--zones", type=int, default=2, help="over which the nodes are spread")
    parser.add_argument("--prefix", default="simulated-", help="of the names of the nodes")
    parser.add_argument(
        "--run-seconds",
        type=float,
        default=math.inf,
        help="how long pods run whose restart policy is not Always; for ever by default",
    )
    try:
        asyncio.run(_main(parser.parse_args(arguments)))
    except KeyboardInterrupt:
        print("stopped; the nodes stay until they are deleted")
    except (NodeTakenError, RequestError) as error:
        parser.exit(1, f"error: {error}\n")


if __name__ == "__main__":
    main()
